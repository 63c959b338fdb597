package config_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/checkout/deploy/program/config"
)

func TestBitcoin_HasDefaultsAndAPasswordInAFile(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "password")
	require.NoError(t, os.WriteFile(file, []byte("battery canary\n"), 0o600))
	node := environment("live", "CHECKOUT_BITCOIN_RPC_URL=http://worker@node.example:8332")
	c, err := config.Load(good(node...))
	require.NoError(t, err)
	for _, missing := range []error{c.Live.ForAPI(), c.Live.ForWorker()} {
		require.ErrorContains(t, missing, "CHECKOUT_BITCOIN_RPC_PASSWORD_FILE is not set")
	}
	c, err = config.Load(good(append(node, "CHECKOUT_BITCOIN_RPC_PASSWORD_FILE="+file)...))
	require.NoError(t, err)
	require.NoError(t, c.Live.ForAPI())
	require.NoError(t, c.Live.ForWorker())
	require.True(t, c.Live.Bitcoin())
	require.Equal(t, []any{"main", "treasury", uint64(6), uint64(6), uint64(150), time.Minute}, []any{
		c.Live.BitcoinNetwork, c.Live.BitcoinWallet, c.Live.BitcoinConfirmations, c.Live.BitcoinFeeTarget,
		c.Live.BitcoinMaxFeeRate, c.Live.BitcoinBatchInterval})
	password, signer, err := c.Live.BitcoinPasswords()
	require.NoError(t, err)
	require.Equal(t, "battery canary", password)
	require.Empty(t, signer)
	c.Live.BitcoinPasswordFile = file + "canary"
	_, _, err = c.Live.BitcoinPasswords()
	require.EqualError(t, err, "CHECKOUT_BITCOIN_RPC_PASSWORD_FILE cannot be read")

	c, err = config.Load(good(append(node, "CHECKOUT_BITCOIN_SIGNER_URL=http://worker@vault.example:8332")...))
	require.NoError(t, err)
	require.ErrorContains(t, c.Live.ForWorker(), "CHECKOUT_BITCOIN_SIGNER_PASSWORD_FILE is not set")
}

func TestBitcoin_ModesMayShareANodeButNotAWallet(t *testing.T) {
	t.Parallel()
	c, err := config.Load(good(slices.Concat(environment("simulated"), environment("test"), []string{
		"CHECKOUT_BITCOIN_NETWORK=regtest", "CHECKOUT_BITCOIN_RPC_URL=http://worker@127.0.0.1:5", "CHECKOUT_TEST_BITCOIN_NETWORK=regtest",
		"CHECKOUT_TEST_BITCOIN_RPC_URL=http://tester@127.0.0.1:5", "CHECKOUT_TEST_BITCOIN_WALLET=tests",
	})...))
	require.NoError(t, err)
	require.True(t, c.Live.Bitcoin())
}
