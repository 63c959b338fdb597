package acquirer

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/jackc/pgx/v5"
)

// control serves the control address.
func (a *Acquirer) control() http.Handler {
	mux := http.NewServeMux()
	handle := func(pattern string, do func(r *http.Request) (any, error)) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			r.Body = http.MaxBytesReader(w, r.Body, 1<<16)
			got, err := do(r)
			switch refused, is := errors.AsType[answer](err); {
			case is:
				http.Error(w, err.Error(), refused.status)
			case err != nil:
				http.Error(w, err.Error(), http.StatusBadRequest)
			default:
				w.Header().Set("Content-Type", "application/json")
				_ = json.NewEncoder(w).Encode(got) // an error means that the client has gone
			}
		})
	}
	handle("POST /disputes/{intent}", func(r *http.Request) (any, error) {
		return nil, a.Dispute(r.Context(), r.PathValue("intent"))
	})
	handle("POST /disputes/{intent}/{status}", func(r *http.Request) (any, error) {
		return nil, a.SetDispute(r.Context(), r.PathValue("intent"), r.PathValue("status"))
	})
	handle("POST /warnings/{intent}", func(r *http.Request) (any, error) {
		return nil, a.Warn(r.Context(), r.PathValue("intent"))
	})
	handle("POST /refunds/settle", func(r *http.Request) (any, error) { return nil, a.SettleRefunds(r.Context()) })
	handle("POST /refunds/{intent}/{status}", func(r *http.Request) (any, error) {
		return nil, a.SetRefund(r.Context(), r.PathValue("intent"), r.PathValue("status"))
	})
	handle("GET /facts", func(r *http.Request) (any, error) { return a.Facts(r.Context()) })
	return mux
}

// Facts are what happened at the double, whatever its answers said. Amounts are in minor units.
type Facts struct {
	Intents []IntentFact `json:"intents"` // oldest first
	Charges []ChargeFact `json:"charges"` // oldest first; the failed ones too
	// Balance is what all balance transactions add up to before fees, by currency.
	Balance map[string]int64 `json:"balance"`
}

// An IntentFact is one payment intent.
type IntentFact struct {
	ID            string `json:"id"`
	TransactionID string `json:"transaction_id"`
	Status        string `json:"status"`
	Amount        int64  `json:"amount"`
	Currency      string `json:"currency"`
}

// A ChargeFact is one time that a bank was asked for money.
type ChargeFact struct {
	ID            string `json:"id"`
	IntentID      string `json:"intent_id"`
	TransactionID string `json:"transaction_id"`
	Paid          bool   `json:"paid"`
	Amount        int64  `json:"amount"`
	Currency      string `json:"currency"`
	Refunded      int64  `json:"refunded"`
	Disputed      bool   `json:"disputed"`
	Held          int64  `json:"held"` // by open and lost disputes
}

// Facts returns what happened.
func (a *Acquirer) Facts(ctx context.Context) (Facts, error) {
	f := Facts{Intents: []IntentFact{}, Charges: []ChargeFact{}, Balance: map[string]int64{}}
	// ForEachRow returns the error.
	rows, _ := a.db.Query(ctx, `
		SELECT id, kind, coalesce(intent_id, ''), body, coalesce((
			SELECT -sum((b ->> 'amount')::bigint)
			FROM acquirer.object d, jsonb_array_elements(d.body -> 'balance_transactions') b
			WHERE d.kind = 'dispute' AND d.body ->> 'charge' = o.id), 0)::bigint
		FROM acquirer.object o
		WHERE kind IN ('payment_intent', 'charge', 'balance_transaction') ORDER BY number`)
	var id, kind, intentID string
	var o object
	var held int64
	_, err := pgx.ForEachRow(rows, []any{&id, &kind, &intentID, &o, &held}, func() error {
		amount, currency, transaction := o.number("amount"), o.text("currency"), o.part("metadata").text("transaction_id")
		switch kind {
		case kindBalance:
			f.Balance[currency] += amount
		case kindIntent:
			f.Intents = append(f.Intents, IntentFact{id, transaction, o.text("status"), amount, currency})
		default:
			f.Charges = append(f.Charges, ChargeFact{
				id, intentID, transaction, o.flag("paid"), amount, currency, o.number("amount_refunded"), o.flag("disputed"),
				held,
			})
		}
		return nil
	})
	return f, err
}

// errAway means that the double was killed.
var errAway = errors.New("the acquirer is away")

// Plan plans a fault. A double that was killed takes none.
func (a *Acquirer) Plan(f Fault) error {
	if !a.up.Load() {
		return errAway
	}
	a.faults.plan(f)
	return nil
}

// Clear forgets the planned faults.
func (a *Acquirer) Clear() { a.faults.clear() }

// HoldWebhooks keeps the webhooks back until ReleaseWebhooks or a restart.
func (a *Acquirer) HoldWebhooks() error {
	if !a.up.Load() {
		return errAway
	}
	a.sender.hold(true)
	return nil
}

// ReleaseWebhooks sends what was held back.
func (a *Acquirer) ReleaseWebhooks() { a.sender.hold(false) }

// ForgetKeys lets all idempotency keys be as old as 24 hours.
func (a *Acquirer) ForgetKeys(ctx context.Context) error {
	_, err := a.db.Exec(ctx, `DELETE FROM acquirer.idempotency_key`)
	return err
}

// LoseWebhooks forgets what was not sent yet, also what is held back.
func (a *Acquirer) LoseWebhooks(ctx context.Context) error {
	_, err := a.db.Exec(ctx, `DELETE FROM acquirer.webhook WHERE taken_at IS NULL`)
	return err
}
