package app_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/checkout/storage"
	"example.com/checkout/storage/storagetest"
	"example.com/checkout/workflows/checkout"
)

func TestCustomerErase_SaysWhatItWouldDoAndDoesItOnce(t *testing.T) {
	o := newOperator(t)
	store := o.store()
	const email = "ann@example.com"
	owner, typed := checkout.Owner{MerchantID: o.merchant(), Mode: checkout.ModeTest}, email
	sessionOf := func() checkout.Session {
		return storagetest.Session(t, store, owner, func(s *checkout.Session) { s.CustomerEmail = &typed })
	}
	ended, pending := sessionOf(), sessionOf()
	_, err := store.Sessions.ExpireSession(t.Context(), ended.Ref, storage.Expiry{At: ended.ExpiresAt, Early: true})
	require.NoError(t, err)
	o = o.withKeys()
	erase := func(args ...string) string { return o.must(append([]string{"customer", "erase"}, args...)...) }
	o.refused("--email is not a bare e-mail address", "customer", "erase")
	o.refused("--merchant: not a valid id", "customer", "erase", "--email", email, "--merchant", "shop")

	for _, other := range [][]string{
		{"--email", "ben@example.com"}, {"--email", email, "--merchant", o.merchant()},
	} {
		require.Equal(t, "sessions erased: 0\n", erase(append(other, "--apply")...))
	}
	out := erase("--email", email)
	require.Contains(t, out, "sessions that --apply would erase: 1\n  rows of checkout_session: 1\n")
	require.Contains(t, out, "not yet: "+pending.ID+" the session is pending, test of "+owner.MerchantID+": from 20")
	out = erase("--email", email, "--merchant", owner.MerchantID, "--apply")
	require.Contains(t, out, "sessions erased: 1\n  rows of checkout_session: 1\n")
	require.Contains(t, erase("--email", email, "--apply"), "sessions erased: 0\nnot yet: ")
	entries := o.audited(owner.MerchantID, checkout.ModeTest)
	require.Equal(t, "customer.erased", entries[0].Action)
	require.Equal(t, ended.ID, entries[0].Subject)
	for _, e := range entries {
		require.NotContains(t, e.Detail+e.Subject+e.Actor, email)
	}
}

func TestCustomerErase_GoesOnWithTheOtherMerchants(t *testing.T) {
	o := newOperator(t)
	store := o.store()
	const email = "ann@example.com"
	typed := email
	var all []checkout.Ref
	for range 3 {
		s := storagetest.Session(t, store, checkout.Owner{MerchantID: o.merchant(), Mode: checkout.ModeTest},
			func(s *checkout.Session) { s.CustomerEmail = &typed })
		_, err := store.Sessions.ExpireSession(t.Context(), s.Ref, storage.Expiry{At: s.ExpiresAt, Early: true})
		require.NoError(t, err)
		all = append(all, s.Ref)
	}
	for _, ref := range all[:2] {
		request := storage.IdempotentRequest{Owner: ref.Owner, Route: "POST /v1/checkout", Key: "a"}
		_, _, err := store.Requests.ClaimRequest(t.Context(), request, []byte("body"))
		require.NoError(t, err)
	}
	o.db.Exec(t, `UPDATE idempotent_request SET answer = 'not sealed'`)
	out, _, err := o.withKeys().run("customer", "erase", "--email", email, "--apply")
	require.ErrorContains(t, err, all[0].MerchantID+": ")
	require.ErrorContains(t, err, all[1].MerchantID+": ")
	require.NotContains(t, err.Error(), all[2].MerchantID)
	require.Contains(t, out, "sessions erased: 3\n  rows of checkout_session: 3\n")
	got, err := store.Sessions.Session(t.Context(), all[2])
	require.NoError(t, err)
	require.Nil(t, got.CustomerEmail)
}
