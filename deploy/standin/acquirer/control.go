package acquirer

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
)

// control serves the control address.
func (a *Acquirer) control() http.Handler {
	mux := http.NewServeMux()
	handle := func(pattern string, do func(r *http.Request) (any, error)) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			r.Body = http.MaxBytesReader(w, r.Body, 1<<16)
			got, err := do(r)
			switch {
			case errors.Is(err, errMissing):
				http.Error(w, err.Error(), http.StatusNotFound)
			case err != nil:
				http.Error(w, err.Error(), http.StatusBadRequest)
			default:
				w.Header().Set("Content-Type", "application/json")
				_ = json.NewEncoder(w).Encode(got) // an error means that the client has gone
			}
		})
	}
	handle("POST /faults", func(r *http.Request) (any, error) {
		var f Fault
		err := json.NewDecoder(r.Body).Decode(&f)
		if err == nil {
			a.faults.plan(f)
		}
		return nil, err
	})
	handle("DELETE /faults", func(*http.Request) (any, error) {
		a.faults.clear()
		return nil, nil
	})
	handle("DELETE /keys", func(r *http.Request) (any, error) {
		_, err := a.db.Exec(r.Context(), `DELETE FROM acquirer.idempotency_key`)
		return nil, err
	})
	handle("POST /webhooks/hold", func(*http.Request) (any, error) {
		a.sender.hold(true)
		return nil, nil
	})
	handle("POST /webhooks/release", func(*http.Request) (any, error) {
		a.sender.hold(false)
		return nil, nil
	})
	handle("DELETE /webhooks", func(r *http.Request) (any, error) {
		_, err := a.db.Exec(r.Context(), `DELETE FROM acquirer.webhook WHERE taken_at IS NULL`)
		return nil, err
	})
	handle("POST /disputes/{intent}", func(r *http.Request) (any, error) {
		return nil, a.setDispute(r.Context(), r.PathValue("intent"), "needs_response")
	})
	handle("POST /disputes/{intent}/{status}", func(r *http.Request) (any, error) {
		return nil, a.setDispute(r.Context(), r.PathValue("intent"), r.PathValue("status"))
	})
	handle("POST /warnings/{intent}", func(r *http.Request) (any, error) {
		return nil, a.warn(r.Context(), r.PathValue("intent"))
	})
	handle("POST /refunds/settle", func(r *http.Request) (any, error) { return nil, a.settleRefunds(r.Context()) })
	handle("POST /refunds/{intent}/{status}", func(r *http.Request) (any, error) {
		return nil, a.setRefund(r.Context(), r.PathValue("intent"), r.PathValue("status"))
	})
	handle("POST /movements/{category}/{currency}/{amount}", func(r *http.Request) (any, error) {
		amount, err := strconv.ParseInt(r.PathValue("amount"), 10, 64)
		if err != nil {
			return nil, err
		}
		return nil, a.move(r.Context(), r.PathValue("category"), r.PathValue("currency"), amount)
	})
	handle("GET /facts", func(r *http.Request) (any, error) { return a.facts(r.Context()) })
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
}

// facts reads everything. It belongs to tests, which compare it with what the service says.
func (a *Acquirer) facts(ctx context.Context) (Facts, error) {
	f := Facts{Intents: []IntentFact{}, Charges: []ChargeFact{}, Balance: map[string]int64{}}
	// ForEachRow returns the error.
	rows, _ := a.db.Query(ctx, `
		SELECT id, kind, coalesce(intent_id, ''), body FROM acquirer.object
		WHERE kind IN ('payment_intent', 'charge', 'balance_transaction') ORDER BY number`)
	var id, kind, intentID string
	var body []byte
	_, err := pgx.ForEachRow(rows, []any{&id, &kind, &intentID, &body}, func() error {
		o, err := readObject(bytes.NewReader(body))
		if err != nil {
			return err
		}
		if kind == kindBalance {
			f.Balance[o.text("currency")] += o.number("amount")
			return nil
		}
		transaction := o.part("metadata").text("transaction_id")
		if kind == kindIntent {
			f.Intents = append(f.Intents, IntentFact{id, transaction, o.text("status"), o.number("amount"), o.text("currency")})
			return nil
		}
		f.Charges = append(f.Charges, ChargeFact{
			id, intentID, transaction, o.flag("paid"), o.number("amount"), o.text("currency"),
			o.number("amount_refunded"), o.flag("disputed"),
		})
		return nil
	})
	return f, err
}

// Control speaks to a control address, of this process or of another.
type Control struct{ URL string }

// Plan plans a fault.
func (c Control) Plan(ctx context.Context, f Fault) error {
	return c.call(ctx, "POST", "/faults", f, nil)
}

// Clear forgets the planned faults.
func (c Control) Clear(ctx context.Context) error { return c.call(ctx, "DELETE", "/faults", nil, nil) }

// ForgetKeys lets all idempotency keys be as old as 24 hours.
func (c Control) ForgetKeys(ctx context.Context) error {
	return c.call(ctx, "DELETE", "/keys", nil, nil)
}

// HoldWebhooks keeps the webhooks back until ReleaseWebhooks.
func (c Control) HoldWebhooks(ctx context.Context) error {
	return c.call(ctx, "POST", "/webhooks/hold", nil, nil)
}

// ReleaseWebhooks sends what was held back.
func (c Control) ReleaseWebhooks(ctx context.Context) error {
	return c.call(ctx, "POST", "/webhooks/release", nil, nil)
}

// LoseWebhooks forgets what was not sent yet, also what is held back.
func (c Control) LoseWebhooks(ctx context.Context) error {
	return c.call(ctx, "DELETE", "/webhooks", nil, nil)
}

// Dispute charges the payment of an intent back.
func (c Control) Dispute(ctx context.Context, intentID string) error {
	return c.call(ctx, "POST", "/disputes/"+intentID, nil, nil)
}

// SetDispute gives the dispute of an intent one of Stripe's statuses. It opens one when there is none. The status
// "resolution" is "prevented" by giving the customer the money.
func (c Control) SetDispute(ctx context.Context, intentID, status string) error {
	return c.call(ctx, "POST", "/disputes/"+intentID+"/"+status, nil, nil)
}

// Warn tells of an early fraud warning about the payment of an intent.
func (c Control) Warn(ctx context.Context, intentID string) error {
	return c.call(ctx, "POST", "/warnings/"+intentID, nil, nil)
}

// SettleRefunds lets the banks decide the refunds that wait for them.
func (c Control) SettleRefunds(ctx context.Context) error {
	return c.call(ctx, "POST", "/refunds/settle", nil, nil)
}

// SetRefund gives the youngest refund of an intent one of Stripe's statuses.
func (c Control) SetRefund(ctx context.Context, intentID, status string) error {
	return c.call(ctx, "POST", "/refunds/"+intentID+"/"+status, nil, nil)
}

// Move changes the balance of the account by an amount in minor units, for one of Stripe's reporting categories.
func (c Control) Move(ctx context.Context, category, currency string, amount int64) error {
	return c.call(ctx, "POST", fmt.Sprintf("/movements/%s/%s/%d", category, currency, amount), nil, nil)
}

// Facts returns what happened.
func (c Control) Facts(ctx context.Context) (f Facts, err error) {
	err = c.call(ctx, "GET", "/facts", nil, &f)
	return f, err
}

var controlClient = &http.Client{Timeout: 30 * time.Second}

// call sends in as JSON and reads out.
func (c Control) call(ctx context.Context, method, path string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, method, c.URL+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	response, err := controlClient.Do(request)
	if err != nil {
		return fmt.Errorf("control the acquirer: %w", err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		said, _ := io.ReadAll(io.LimitReader(response.Body, 1<<10)) // whatever there is
		return fmt.Errorf("control the acquirer: %s %s: %d %s", method, path, response.StatusCode, said)
	}
	if out == nil {
		return nil
	}
	return json.NewDecoder(response.Body).Decode(out)
}
