package storage_test

import (
	"crypto/sha256"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/checkout/storage"
	"example.com/checkout/storage/pg"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/webhook"
)

func (f fixture) request(key string) storage.IdempotentRequest {
	return storage.IdempotentRequest{Owner: f.merchant.Owner(checkout.ModeTest), Route: "POST /v1/checkout", Key: key}
}

func fingerprint(body string) []byte {
	sum := sha256.Sum256([]byte(body))
	return sum[:]
}

func (f fixture) claim(t *testing.T, r storage.IdempotentRequest, body string) []byte {
	kept, seed, err := f.Requests.ClaimRequest(t.Context(), r, fingerprint(body))
	require.NoError(t, err)
	require.Nil(t, kept)
	require.Len(t, seed, 32)
	return seed
}

// claimsRunOut makes every claim older than claimFor.
func (f fixture) claimsRunOut(t *testing.T) {
	f.Exec(t, `UPDATE idempotent_request SET locked_until = clock_timestamp() - interval '1 millisecond' WHERE locked_until IS NOT NULL`)
}

// The tests of the API repeat requests. This one has what they cannot see.
func TestClaimRequest_ASeedAndAnAnswerBelongToOneRequest(t *testing.T) {
	f := newFixture(t)
	r, other := f.request("k"), f.request("l")
	seed := f.claim(t, r, "a")
	left := f.query(t, `SELECT extract(epoch FROM locked_until - clock_timestamp())::float8 FROM idempotent_request`).(float64)
	require.InDelta(t, 15, left, 5, "longer than a request and the keeping of its answer may take")
	f.claimsRunOut(t)
	_, _, err := f.Requests.ClaimRequest(t.Context(), r, fingerprint("b"))
	require.ErrorIs(t, err, storage.ErrIdempotencyConflict)
	require.Equal(t, seed, f.claim(t, r, "a"), "whoever works on it again makes the same ids")
	require.NotEqual(t, seed, f.claim(t, other, "a"))
	id := checkout.SeededID(checkout.PrefixSession, seed)
	require.Equal(t, id, checkout.SeededID(checkout.PrefixSession, seed))
	require.NotEqual(t, id[3:], checkout.SeededID(checkout.PrefixEvent, seed)[4:], "ids of other things are not told by it")
	made, _ := checkout.IDTime(checkout.PrefixSession, id)
	require.WithinDuration(t, time.Now(), made, time.Minute)
	require.Regexp(t, `^whsec_[0-9a-f]{64}$`, webhook.SeededSecret(seed))

	for request, answer := range map[storage.IdempotentRequest]storage.KeptAnswer{
		r:     {Status: 201, Location: "/v1/checkout/cs_1", Body: []byte("{\"a\":\"\n\"}")},
		other: {Status: 200, Body: []byte("{}")},
	} {
		require.NoError(t, f.Requests.KeepAnswer(t.Context(), request, answer))
		for _, refused := range []bool{true, false} {
			require.NoError(t, f.Requests.ReleaseRequest(t.Context(), request, refused), "an answer stays")
		}
		kept, _, err := f.Requests.ClaimRequest(t.Context(), request, fingerprint("a"))
		require.NoError(t, err)
		require.Equal(t, &answer, kept)
	}
	f.Exec(t, `UPDATE idempotent_request a SET answer = b.answer FROM idempotent_request b WHERE a.key = 'l' AND b.key = 'k'`)
	_, _, err = f.Requests.ClaimRequest(t.Context(), other, fingerprint("a"))
	require.ErrorIs(t, err, pg.ErrWrongMasterKey, "an answer belongs to its own request")
}
