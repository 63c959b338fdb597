package storagetest

import (
	"cmp"
	"context"
	"encoding/json"
	"testing"
	"time"

	"example.com/checkout/storage"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/money"
)

// Succeeded is the card network's answer to a payment that is paid.
var Succeeded = checkout.ChargeResult{Outcome: checkout.OutcomeSucceeded}

// Session creates a session of 10.50 EUR for USDC that has an hour left, unless change says otherwise. No workflow
// follows it.
func Session(
	tb testing.TB, store *storage.Store, owner checkout.Owner, change ...func(*checkout.Session),
) checkout.Session {
	tb.Helper()
	s := checkout.Session{
		Ref: owner.Ref(checkout.NewID(checkout.PrefixSession)), Amount: 1050, Currency: money.EUR,
		PayoutCurrency: money.USDC, MaxAttempts: 3, Metadata: json.RawMessage(`{}`),
	}
	for _, c := range change {
		c(&s)
	}
	created, err := store.Sessions.CreateSession(tb.Context(), storage.NewSession{Session: s, Lifetime: time.Hour},
		func(context.Context, checkout.Session) error { return nil })
	if err != nil {
		tb.Fatalf("create session: %v", err)
	}
	return created
}

// Payment is a payment of a session: in the sandbox, and in live mode at Stripe for a payout on Ethereum.
func Payment(session checkout.Ref) storage.NewPayment {
	p := storage.NewPayment{
		ID: checkout.NewID(checkout.PrefixTransaction), SessionID: session.ID, CardToken: "tok_1",
		Acquirer: checkout.AcquirerSandbox, ChainRef: checkout.ChainSandbox,
	}
	if session.Mode.Live() {
		p.Acquirer, p.ChainRef = checkout.AcquirerStripe, "eip155:1"
	}
	return p
}

// Begin creates a payment of a session and begins it at the rate 1.08. It returns the payment's id. What n leaves out
// is that of Payment; reference is the card network's name of the payment, "" for the id.
func Begin(tb testing.TB, store *storage.Store, session checkout.Ref, n storage.NewPayment, reference string) string {
	tb.Helper()
	n = complete(session, n)
	if err := store.Sessions.CreatePayment(tb.Context(), n); err != nil {
		tb.Fatalf("create payment: %v", err)
	}
	quote := checkout.Quote{Rate: money.MustRate("1.08")}
	if _, err := store.Sessions.BeginPayment(tb.Context(), session, n.ID, quote, cmp.Or(reference, n.ID)); err != nil {
		tb.Fatalf("begin payment: %v", err)
	}
	return n.ID
}

// Finish notes the card network's answer to a payment and decides the payment.
func Finish(
	tb testing.TB, store *storage.Store, session checkout.Ref, id string, result checkout.ChargeResult,
) storage.FollowUp {
	tb.Helper()
	if _, _, err := store.Sessions.RecordCharge(tb.Context(), session, id, result); err != nil {
		tb.Fatalf("record charge: %v", err)
	}
	followUp, err := store.Sessions.FinishPayment(tb.Context(), session, id)
	if err != nil {
		tb.Fatalf("finish payment: %v", err)
	}
	return followUp
}

// Charge charges a card through a card network for a session, as its runs do, and decides the payment. What n leaves
// out is that of Payment. It returns the network's name of the charge and the payment's id.
func Charge(
	tb testing.TB, store *storage.Store, s checkout.Session, n storage.NewPayment, quote checkout.Quote,
	network checkout.CardNetwork,
) (reference, id string, followUp storage.FollowUp) {
	tb.Helper()
	n = complete(s.Ref, n)
	order := checkout.ChargeRequest{
		TransactionID: n.ID, SessionID: s.ID, Attempt: 1, Token: n.CardToken, Amount: s.Amount, Currency: s.Currency,
		ReturnURL: "https://pay.example/return",
	}
	err := store.Sessions.CreatePayment(tb.Context(), n)
	if err == nil {
		reference, err = network.Prepare(tb.Context(), order)
	}
	if err == nil {
		_, err = store.Sessions.BeginPayment(tb.Context(), s.Ref, n.ID, quote, reference)
	}
	var got checkout.ChargeResult
	if err == nil {
		got, err = network.Confirm(tb.Context(), reference, 1, order)
	}
	if err != nil {
		tb.Fatalf("charge a card: %v", err)
	}
	return reference, n.ID, Finish(tb, store, s.Ref, n.ID, got)
}

// complete gives a payment what it leaves out.
func complete(session checkout.Ref, n storage.NewPayment) storage.NewPayment {
	p := Payment(session)
	n.SessionID, n.ID, n.CardToken = p.SessionID, cmp.Or(n.ID, p.ID), cmp.Or(n.CardToken, p.CardToken)
	n.Acquirer, n.ChainRef = cmp.Or(n.Acquirer, p.Acquirer), cmp.Or(n.ChainRef, p.ChainRef)
	return n
}

// Revert stores that the network reverted a transfer of a payout to its merchant's present address.
func (d Database) Revert(tb testing.TB, payoutID string) {
	tb.Helper()
	d.Exec(tb, `
		WITH account AS (
			INSERT INTO treasury_account (id, mode, network, chain_id, address, next_nonce, next_block, seen_height, created_at)
			VALUES ('tre_1', 'test', 'ethereum', 'eip155:1', '0x1', 1, 1, 1, now())
		), signed AS (
			INSERT INTO transfer (id, account_id, nonce, status, base, created_at, ended_at, proved, height, block_hash,
				tx_hash, cost)
			VALUES ('tr_1', 'tre_1', 0, 'reverted', 1, now(), now(), 3, 2, '0xb', '0xt', 0)
		), version AS (
			INSERT INTO transfer_version (tx_hash, transfer_id, number, currency, destination, amount, fee, max_cost,
				terms, raw, created_at)
			SELECT '0xt', 'tr_1', 1, p.currency, a.address, 1, 0, 0, '{}', '', now()
			FROM payout p JOIN payout_address a USING (merchant_id, mode, currency) WHERE p.id = $1
		)
		INSERT INTO transfer_payout (transfer_id, payout_id, merchant_id, mode, currency, destination, amount, fee, value,
			standing, created_at)
		SELECT 'tr_1', p.id, merchant_id, mode, currency, a.address, 1, 0, 100, false, now()
		FROM payout p JOIN payout_address a USING (merchant_id, mode, currency) WHERE p.id = $1`, payoutID)
}
