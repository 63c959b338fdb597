package storage_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/checkout/storage"
	"example.com/checkout/storage/people"
	"example.com/checkout/storage/storagetest"
	"example.com/checkout/storage/storagetest/must"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
	"example.com/checkout/workflows/money"
	"example.com/checkout/workflows/webhook"
)

func TestSession_IsNotFoundForOthersAndWrongModeForItsOwner(t *testing.T) {
	f := newFixture(t)
	s := f.create(t, f.newSession())
	_, err := f.Sessions.Session(t.Context(), checkout.Owner{MerchantID: checkout.NewID(checkout.PrefixMerchant), Mode: s.Mode}.Ref(s.ID))
	require.ErrorIs(t, err, checkout.ErrNotFound)
	require.ErrorIs(t, must.Err(f.Sessions.Session(t.Context(), checkout.Owner{MerchantID: s.MerchantID, Mode: checkout.ModeLive}.Ref(s.ID))), checkout.ErrWrongMode)
}

func TestSession_ReadsExpiredByTheClockUnlessAPaymentIsInFlight(t *testing.T) {
	f := newFixture(t)
	short := f.newSession()
	short.Lifetime = time.Millisecond
	over := f.create(t, short)
	paying := f.create(t, f.newSession())
	id := f.beginPayment(t, paying)
	f.Exec(t, `UPDATE checkout_session SET expires_at = clock_timestamp() - interval '1 minute' WHERE id = $1`, paying.ID)

	got := must.Get(f.Sessions.Session(t.Context(), paying.Ref))(t)
	require.Equal(t, checkout.StatusPending, got.Status)
	require.True(t, got.ExpiresAt.Before(time.Now()))
	require.Equal(t, checkout.StatusExpired, must.Get(f.Sessions.Session(t.Context(), over.Ref))(t).Status)

	f.record(t, paying, id, checkout.ChargeResult{Outcome: checkout.OutcomeSucceeded})
	require.Equal(t, checkout.StatusCompleted, must.Get(f.Sessions.FinishPayment(t.Context(), paying.Ref, id))(t).Status, "accepted in time, finished after it")

	err := f.Sessions.CreatePayment(t.Context(), storagetest.Payment(over.Ref))
	require.ErrorIs(t, err, checkout.ErrNotPending)
}

// The timer is Temporal's, and Temporal's clock may be ahead of PostgreSQL's.
func TestExpireSession_OnTimeWaitsForPostgreSQLsClock(t *testing.T) {
	f := newFixture(t)
	s := f.create(t, f.newSession())
	got := must.Get(f.Sessions.ExpireSession(t.Context(), s.Ref, storage.Expiry{At: s.ExpiresAt}))(t)
	require.Equal(t, checkout.StatusPending, got.Status)
	require.InDelta(t, time.Hour, got.Left, float64(5*time.Minute))
	short := f.newSession()
	short.Lifetime = time.Millisecond
	over := f.create(t, short)
	require.Eventually(t, func() bool {
		return must.Get(f.Sessions.ExpireSession(t.Context(), over.Ref, storage.Expiry{At: over.ExpiresAt}))(t) == storage.Expired{Status: checkout.StatusExpired}
	}, time.Minute, 5*time.Millisecond)
}

// A creation that was rolled back comes again with the same id. The run of the first try may still exist.
func TestExpireSession_LeavesTheSessionOfALaterTryAlone(t *testing.T) {
	f := newFixture(t)
	s := f.create(t, f.newSession())
	require.ErrorIs(t, must.Err(f.Sessions.ExpireSession(t.Context(), s.Ref, storage.Expiry{At: s.ExpiresAt.Add(-time.Minute), Early: true})), checkout.ErrNotFound)
	require.Equal(t, checkout.StatusPending, must.Get(f.Sessions.Session(t.Context(), s.Ref))(t).Status)

	expired := must.Get(f.Sessions.ExpireSession(t.Context(), s.Ref, storage.Expiry{At: s.ExpiresAt, Early: true}))(t)
	require.Equal(t, storage.Expired{Status: checkout.StatusExpired}, expired)
}

func TestBeginPayment_TheFirstRateAndReferenceStay(t *testing.T) {
	f := newFixture(t)
	s := f.create(t, f.newSession())
	first := f.beginPayment(t, s)
	again, err := f.Sessions.BeginPayment(t.Context(), s.Ref, first, checkout.Quote{Rate: money.MustRate("1.09")}, "pi_second")
	require.NoError(t, err, "the same payment may begin again: its worker died")
	require.False(t, again)
	c := must.Get(f.Sessions.Charge(t.Context(), s.Ref, first))(t)
	require.Equal(t, 1, c.Attempt)
	require.Equal(t, first, c.Reference, "the first reference stays")
	require.Equal(t, 1, c.Confirms)
	require.Equal(t, "1.08", f.query(t, `SELECT exchange_rate FROM transaction`), "the first rate is locked")
}

func TestFinishPayment_WritesTheWholeTransactionIntoTheEvent(t *testing.T) {
	f := newFixture(t)
	email := "ann@example.com"
	s := f.create(t, f.newSession())
	method := checkout.PaymentMethod{Type: "card", Brand: "visa", Last4: "4242", ExpMonth: 12, ExpYear: 2030, Country: "US"}
	id := storagetest.Begin(t, f.Store, s.Ref, storage.NewPayment{CardToken: "tok_secret", Method: method, CustomerEmail: &email}, "")
	f.record(t, s, id, checkout.ChargeResult{Outcome: checkout.OutcomeSucceeded, Method: method})
	must.Get(f.Sessions.FinishPayment(t.Context(), s.Ref, id))(t)

	var envelope struct {
		ID, Type string
		Data     map[string]any
	}
	require.NoError(t, json.Unmarshal(f.query(t, `SELECT body FROM event`).([]byte), &envelope))
	require.Equal(t, "checkout.completed", envelope.Type)
	require.True(t, checkout.IsID("evt", envelope.ID))
	for name, want := range map[string]any{
		"id": id, "session_id": s.ID, "status": "succeeded", "amount": 10.50, "fee": 0.11, "net": 10.39, "currency": "EUR",
		"payout_currency": "USDC", "exchange_rate": "1.08", "customer_email": email, "attempt": 1.0, "session_status": "completed",
		"livemode": false, "failure": nil,
	} {
		require.Equal(t, want, envelope.Data[name], name)
	}
	require.Equal(t, map[string]any{"b": 1.5, "a": "x"}, envelope.Data["metadata"])
	require.Nil(t, f.query(t, `SELECT card_token FROM transaction`), "the token is gone once the payment is decided")
}

func TestRecordCharge_KeepsTheCardThatTheNetworkNeverSaw(t *testing.T) {
	f := newFixture(t)
	s := f.create(t, f.newSession())
	f.pay(t, s, checkout.ChargeResult{
		Outcome: checkout.OutcomeFailed, Failure: checkout.FailureProcessingError, Method: checkout.PaymentMethod{Type: "card"},
	})
	require.Equal(t, "4242", f.query(t, `SELECT payment_method->>'last4' FROM transaction`), "the merchant would see a payment by no card")
}

func TestFinishPayment_SendsEverythingToTheSessionsOwnAddress(t *testing.T) {
	f := newFixture(t)
	f.endpoint(t, "https://shop.example/default", webhook.EventTypes...)
	const address = "https://shop.example/override"
	s, secret := f.withAddress(t, address)
	_, got := f.pay(t, s, checkout.ChargeResult{Outcome: checkout.OutcomeSucceeded})
	require.Len(t, got.Deliveries, 1)
	require.Equal(t, address, f.query(t, `SELECT url FROM webhook_delivery`))
	payout := must.Get(f.Payouts.FinishPayout(t.Context(), s.Owner.Ref(got.PayoutID), 1, ""))(t)
	require.Len(t, payout.Deliveries, 1)
	out := must.Get(f.Webhooks.BeginAttempt(t.Context(), s.Owner.Ref(payout.Deliveries[0].ID), webhook.Turn{RunID: "run-1", Try: 1}))(t)
	require.Equal(t, webhook.SecretDigest(secret), out.Digests[0])
	require.Equal(t, address, out.URL)
}

func TestSigningEndpoint_PrefersTheSameURLThenTheOldest(t *testing.T) {
	f := newFixture(t)
	ask := func(url string) string {
		return must.Get(f.Webhooks.SigningEndpoint(t.Context(), f.merchant.Owner(checkout.ModeTest), url))(t)
	}
	require.Empty(t, ask("https://shop.example/b"))
	oldest := f.endpoint(t, "https://shop.example/a", webhook.CheckoutCompleted)
	same := f.endpoint(t, "https://shop.example/b", webhook.CheckoutCompleted)
	f.Exec(t, `UPDATE webhook_endpoint SET created_at = created_at - interval '2 seconds' WHERE id = $1`, oldest.ID)
	f.Exec(t, `UPDATE webhook_endpoint SET created_at = created_at - interval '1 second' WHERE id = $1`, same.ID)
	require.Equal(t, same.ID, ask("https://shop.example/b"))
	require.Equal(t, oldest.ID, ask("https://shop.example/c"))

	// Another spelling was another address: the oldest registration signed, and the receiver refused every event.
	for _, spelling := range []string{"HTTPS://SHOP.example/b", "https://shop.example:443/b?", "https://shop.example./b#x"} {
		require.Equal(t, same.ID, ask(spelling), spelling)
	}
	idn := f.endpoint(t, "https://BÜCHER.example", webhook.CheckoutCompleted)
	require.Equal(t, idn.ID, ask("https://xn--bcher-kva.example/"))
	require.Equal(t, oldest.ID, ask("https://shop.example/B"), "a server sees the case of a path")
	again := f.endpoint(t, "https://Shop.example/b", webhook.CheckoutCompleted)
	require.Equal(t, same.ID, ask("https://shop.example/b"), "the older one of two for one address")
	f.setStatus(t, same, webhook.EndpointDisabled)
	require.Equal(t, again.ID, ask("https://shop.example/b"), "an enabled one")

	for _, other := range f.strangers() {
		for _, spelling := range []string{"https://shop.example/b", "HTTPS://Shop.example:443/b"} {
			require.Empty(t, must.Get(f.Webhooks.SigningEndpoint(t.Context(), other, spelling))(t), "nobody else's")
		}
	}
}

func TestSecrets_AreNowhereInTheDatabase(t *testing.T) {
	f := newFixture(t)
	e := f.endpoint(t, "https://shop.example/a", webhook.CheckoutCompleted)
	key := merchant.NewAPIKey(checkout.ModeTest)
	require.NoError(t, f.Merchants.CreateAPIKey(t.Context(), merchant.APIKey{Ref: f.merchant.Owner(checkout.ModeTest).Ref(checkout.NewID("key")), Label: "ci"}, key))
	dump := f.query(t, `SELECT (SELECT string_agg(e::text, '') FROM webhook_endpoint e) || (SELECT string_agg(k::text, '') FROM api_key k)`).(string)
	require.NotContains(t, dump, e.Secret)
	require.NotContains(t, dump, e.Secret[len("whsec_"):])
	require.NotContains(t, dump, key[len("sk_test_"):])
	digest := f.query(t, `SELECT count(*) FROM webhook_endpoint WHERE position($1::bytea in sealed_digest) > 0`, webhook.SecretDigest(e.Secret))
	require.EqualValues(t, 0, digest, "the digest signs, so it is sealed")
}

// TestCardTokens_GoWithThePaymentOrItsSession: what can never be charged keeps no token of a card.
func TestCardTokens_GoWithThePaymentOrItsSession(t *testing.T) {
	f := newFixture(t)
	session := func() checkout.Session { return f.create(t, f.newSession()) }
	tokens := func(s checkout.Session) any {
		return f.query(t, `SELECT count(card_token) FROM transaction WHERE session_id = $1`, s.ID)
	}

	givenUp := session()
	require.True(t, must.Get(f.Sessions.GiveUpPayment(t.Context(), givenUp.Ref, f.asks(t, givenUp), checkout.FailureProcessingError))(t))
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

// buys pays a session as a customer with an e-mail address, and decides the payment twice.
func (f fixture) buys(t *testing.T, n storage.NewSession, email string, result checkout.ChargeResult) checkout.Session {
	s := f.create(t, n)
	id := storagetest.Begin(t, f.Store, s.Ref, storage.NewPayment{CustomerEmail: &email, Language: "pl"}, "")
	f.record(t, s, id, result)
	for range 2 {
		must.Get(f.Sessions.FinishPayment(t.Context(), s.Ref, id))(t)
	}
	return s
}

func TestFinishPayment_MailsOneReceiptToTheCustomer(t *testing.T) {
	f := newFixture(t)
	f.owner(t, "ann@shop.example")
	f.Exec(t, `DELETE FROM mail`)
	receipts := func(s checkout.Session) any {
		return f.query(t, `SELECT count(*) FROM mail WHERE session_id = $1 AND kind = 'receipt' AND detail = 'pl'`, s.ID)
	}
	paid := checkout.ChargeResult{Outcome: checkout.OutcomeSucceeded}
	require.EqualValues(t, 0, receipts(f.buys(t, f.liveSession(), "customer@example.com", paid)), "nobody has turned it on")

	on := true
	require.NoError(t, f.People.SetBrand(t.Context(), f.merchant.ID, people.BrandChange{Receipts: &on}))
	live := f.buys(t, f.liveSession(), "customer@example.com", paid)
	require.EqualValues(t, 1, receipts(live), "once, though it was decided twice")
	require.EqualValues(t, 0, receipts(f.buys(t, f.newSession(), "customer@example.com", paid)), "a test key writes to no stranger")
	require.EqualValues(t, 1, receipts(f.buys(t, f.newSession(), "Ann@shop.example", paid)), "but to the merchant's people")
	declined := checkout.ChargeResult{Outcome: checkout.OutcomeFailed, Failure: checkout.FailureCardDeclined}
	require.EqualValues(t, 0, receipts(f.buys(t, f.liveSession(), "customer@example.com", declined)))

	// Somebody who cannot sign in waits for no receipts.
	f.Exec(t, `UPDATE mail SET next_at = next_at - interval '1 hour'`)
	require.NoError(t, f.People.AskForReset(t.Context(), "ann@shop.example"))
	due := must.Get(f.People.DueMails(t.Context(), 1))(t)
	require.Equal(t, merchant.MailPasswordReset, due[0].Kind)
	due = must.Get(f.People.DueMails(t.Context(), 1))(t)
	require.Equal(t, []any{merchant.MailReceipt, live.ID, "pl", ""}, []any{due[0].Kind, due[0].SessionID, due[0].Detail, due[0].To})
}
