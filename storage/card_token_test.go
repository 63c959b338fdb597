package storage_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/checkout/storage"
	"example.com/checkout/storage/storagetest/must"
	"example.com/checkout/workflows/checkout"
)

// TestCardTokens_GoWithThePaymentOrItsSession: what can never be charged keeps no token of a card.
func TestCardTokens_GoWithThePaymentOrItsSession(t *testing.T) {
	f := newFixture(t)
	session := func() checkout.Session { return f.create(t, f.newSession()) }
	tokens := func(s checkout.Session) any {
		return f.query(t, `SELECT count(card_token) FROM transaction WHERE session_id = $1`, s.ID)
	}

	givenUp := session()
	ok := must.Get(f.Sessions.GiveUpPayment(t.Context(), givenUp.Ref, f.asks(t, givenUp), checkout.FailureProcessingError))(t)
	require.True(t, ok)
	require.EqualValues(t, 0, tokens(givenUp), "given up before it began")

	expired := session()
	f.asks(t, expired)
	f.asks(t, expired)
	must.Get(f.Sessions.ExpireSession(t.Context(), expired.Ref, storage.Expiry{At: expired.ExpiresAt, Early: true}))(t)
	require.EqualValues(t, 0, tokens(expired), "its session expired")

	for _, outcome := range []checkout.PaymentOutcome{checkout.OutcomeFailed, checkout.OutcomeSucceeded} {
		s := session()
		f.asks(t, s)
		id := f.beginPayment(t, s)
		f.record(t, s, id, checkout.ChargeResult{Outcome: outcome, Failure: checkout.FailureCardDeclined})
		must.Get(f.Sessions.FinishPayment(t.Context(), s.Ref, id))(t)
		left := 1 // the other payment of a session that can be paid
		if outcome == checkout.OutcomeSucceeded {
			left = 0
		}
		require.EqualValues(t, left, tokens(s), outcome)
	}

	// Of a payment that was asked for while its session ended.
	old, open := session(), session()
	f.asks(t, old)
	f.asks(t, open)
	f.Exec(t, `UPDATE checkout_session SET status = 'expired', ended_at = clock_timestamp() WHERE id = $1`, old.ID)
	for _, want := range []int{1, 0} {
		require.Equal(t, want, must.Get(f.Installation.ForgetCardTokens(t.Context(), 10))(t))
	}
	require.EqualValues(t, 0, tokens(old))
	require.EqualValues(t, 1, tokens(open))
}
