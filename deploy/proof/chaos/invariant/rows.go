package invariant

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/money"
)

// Session is a row of the table checkout_session.
type Session struct {
	ID, MerchantID string
	Mode           checkout.Mode
	Status         checkout.Status // as stored
	InFlight       bool            // a payment is in flight
	Key            string          // metadata.key, which the chaos run sets to the Idempotency-Key; "" for other sessions
	Amount         int64           // in minor units
	Currency       money.Currency
	CreatedAt      time.Time
	ExpiresAt      time.Time
	EndedAt        *time.Time

	Moved   bool   `db:"-"` // as Delivery.Moved
	Version string // as Delivery.Version
}

// Transaction is a row of the table transaction.
type Transaction struct {
	ID, SessionID, MerchantID string
	Mode                      checkout.Mode
	Status                    checkout.TransactionStatus // "created": asked for, but not accepted
	SessionStatus             checkout.Status            // the session's status after the transaction
	Reference                 string                     // the card network's name of it; "" when nothing was asked yet
	CreatedAt                 time.Time
	CompletedAt               *time.Time
}

// Charge is the card network's record of a transaction: the sandbox's or, in live mode, the double's.
type Charge struct {
	TransactionID, SessionID string
	Outcome                  checkout.PaymentOutcome
}

// Payout is a row of the table payout. One of a balance has no session and no transaction.
type Payout struct {
	ID, SessionID, TransactionID, MerchantID string
	Mode                                     checkout.Mode
	Status                                   checkout.PayoutStatus
	Generation                               int // 1, and one more with each retry
	Currency                                 money.PayoutCurrency
	Amount, Destination                      string // "" until a transfer is signed
	Transfers                                int    // the sandbox chain's record; in live mode the transfers that stand
	GivenBack                                bool   // to the customer by an operator, as its row says
	Disputed                                 bool   // once, at least
	SourceAmount, Deducted                   money.Amount
	SourceCurrency                           money.Currency
	ExchangeRate                             money.Rate
	CreatedAt                                time.Time
	SentAt                                   *time.Time
}

// KeptRequest is a row of the table idempotent_request.
type KeptRequest struct {
	MerchantID, Route, Key string
	Mode                   checkout.Mode
	Status                 int // status of the stored answer; 0: no answer is stored
}

// Call is one call of a client or an operator, with its answer.
type Call struct {
	Op         string // such as OpCreate
	MerchantID string
	Key        string // Idempotency-Key
	ID         string // id of the call's subject, if the caller knows it
	At         time.Time
	EndedAt    time.Time
	Status     int             // HTTP; 0: no answer
	Told       checkout.Status // the session's status in the answer
}

// Operations of calls.
const (
	OpCreate    = "create"
	OpGet       = "get"
	OpExpire    = "expire"
	OpAdvance   = "advance"
	OpPay       = "pay"
	OpRefund    = "refund"
	OpSignal    = "signal expire"
	OpCancel    = "operator cancels"
	OpTerminate = "operator terminates"
	OpReset     = "operator resets"
)

// Outcomes of a call.
const (
	CallOK      = "ok"
	CallRefused = "fail"
	CallUnknown = "unknown" // no answer, or an unclear one: the call may have taken effect
)

// Outcome returns the call's outcome as the caller knows it.
func (c Call) Outcome() string {
	switch {
	case c.Status == 0, c.Status >= 500:
		return CallUnknown
	case c.Status >= 400:
		return CallRefused
	}
	return CallOK
}

// operated reports whether an operator asked Temporal directly for one of ops on this id.
func (w *world) operated(id string, ops ...string) bool {
	return slices.ContainsFunc(w.callsOf[id], func(c Call) bool { return slices.Contains(ops, c.Op) })
}

// readSessions reads the sessions and their transactions, charges, payouts and stored requests.
func readSessions(ctx context.Context, tx pgx.Tx, f *Facts) error {
	return cmp.Or(
		collect(ctx, tx, &f.Sessions, `
			SELECT id, merchant_id, mode, status, payment_in_flight, coalesce(metadata->>'key', ''), amount, currency,
				created_at, expires_at, ended_at, xmin::text
			FROM checkout_session ORDER BY id`, pgx.RowToAddrOfStructByPos[Session]),
		read(ctx, tx, &f.Transactions, `
			SELECT id, session_id, merchant_id, mode, status, session_status, coalesce(acquirer_ref, ''), created_at,
				completed_at FROM transaction ORDER BY id`),
		read(ctx, tx, &f.Charges, `SELECT transaction_id, session_id, outcome FROM sandbox_charge ORDER BY transaction_id`),
		read(ctx, tx, &f.Payouts, `
			SELECT id, coalesce(session_id, ''), coalesce(transaction_id, ''), merchant_id, mode, status, generation, currency,
				amount, destination,
				(SELECT count(*) FROM sandbox_transfer t WHERE t.payout_id = payout.id)
					+ (SELECT count(*) FROM transfer_payout x WHERE x.payout_id = payout.id AND x.standing),
				EXISTS (SELECT FROM refund r WHERE r.transaction_id = payout.transaction_id AND r.mode = payout.mode
					AND r.status = 'succeeded' AND r.reason = 'operator'),
				EXISTS (SELECT FROM charge_risk r WHERE r.transaction_id = payout.transaction_id),
				source_amount, deducted, source_currency, exchange_rate, created_at, sent_at
			FROM payout ORDER BY id`),
		read(ctx, tx, &f.KeptRequests, `SELECT merchant_id, route, key, mode, coalesce(status, 0) FROM idempotent_request`),
		collect(ctx, tx, &f.Constraints, `
			SELECT conname FROM pg_constraint WHERE convalidated AND conrelid IN ('checkout_session'::regclass,
				'transaction'::regclass, 'payout'::regclass)
			UNION SELECT indexrelid::regclass::text FROM pg_index WHERE indisunique AND indisvalid
				AND indrelid = 'transaction'::regclass`,
			pgx.RowTo[string]),
	)
}

// read reads rows whose columns are the fields of T, in their order.
func read[T any](ctx context.Context, tx pgx.Tx, into *[]T, sql string) error {
	return collect(ctx, tx, into, sql, pgx.RowToStructByPos[T])
}

func collect[T any](ctx context.Context, tx pgx.Tx, into *[]T, sql string, scan pgx.RowToFunc[T]) error {
	rows, _ := tx.Query(ctx, sql) // CollectRows returns the error
	var err error
	*into, err = pgx.CollectRows(rows, scan)
	return err
}
