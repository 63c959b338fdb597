package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/checkout/deploy/proof/chaos/invariant"
	"example.com/checkout/deploy/standin/devstack"
	"example.com/checkout/storage"
	"example.com/checkout/storage/pg"
	"example.com/checkout/storage/pgtemp"
)

func TestAddMerchants_NoteEverySecretThatMustNotLeak(t *testing.T) {
	t.Parallel()
	masterKey := pg.NewMasterKey("k1")
	log, err := devstack.OpenReceiverLog(filepath.Join(t.TempDir(), "receiver.jsonl"))
	require.NoError(t, err)
	t.Cleanup(func() { _ = log.Close() }) // nobody reads it
	c := &chaos{rig: &rig{
		databaseURL: pgtemp.ForTest(t, storage.Migrate),
		stack:       &devstack.Stack{Demo: devstack.Demo{MasterKeys: masterKey}, ReceiverLog: log},
	}}
	require.NoError(t, c.addMerchants(t.Context()))
	t.Cleanup(c.stopReceivers)

	secrets := map[string]string{}
	for _, canary := range c.canaries {
		require.NotEmpty(t, canary.Value, canary.Name)
		require.NotContains(t, secrets, canary.Value, "once each")
		secrets[canary.Value] = canary.Name
	}
	require.Equal(t, "master key", secrets[strings.TrimPrefix(masterKey, "k1:")])
	for _, card := range cards {
		require.Equal(t, "card number ending in "+card[len(card)-4:], secrets[card])
	}
	for _, h := range invariant.HeaderCanaries {
		require.Equal(t, h.Name, secrets[h.Value])
	}

	require.Len(t, c.merchants, merchants)
	for _, m := range c.merchants {
		require.Equal(t, "key of "+m.id, secrets[strings.TrimPrefix(m.key, "sk_test_")])
		require.Len(t, m.receivers, 3, "two registrations and the address of its own")
	}
	digests := 0
	for secret, name := range secrets {
		if strings.HasPrefix(name, "digest of a webhook secret") {
			require.NotContains(t, secret, "whsec_")
			digests++
		}
	}
	require.Equal(t, 2*merchants+1, digests, "of every registration")
	endpoints, err := query[int](t.Context(), c.rig, `SELECT count(*) FROM webhook_endpoint`)
	require.NoError(t, err)
	require.Equal(t, 2*merchants+1, endpoints, "one registration has no listener")
}
