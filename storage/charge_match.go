package storage

import (
	"context"
	"time"

	"example.com/checkout/storage/pg"
	"example.com/checkout/workflows/books"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/money"
)

// ChargeMatch is what the service knows about a charge of the card network.
type ChargeMatch struct {
	TransactionID string
	Amount        money.Amount
	Currency      money.Currency
	Paid          bool // the transaction succeeded and its session is completed
	Deciding      bool // the payment is in flight
	Booked        bool // nothing is left for RecordChargeCost
	// Cost is what is booked as the cost, without a time; nil while nothing is.
	Cost *books.ChargeCost
}

// ChargeMatch finds the transaction of a charge. The charge names no merchant: the acquirer knows only
// us. It returns checkout.ErrNotFound when no transaction has the reference.
func (s *Books) ChargeMatch(ctx context.Context, mode checkout.Mode, reference string) (ChargeMatch, error) {
	var m ChargeMatch
	var currency *money.Currency
	var cost books.ChargeCost
	err := s.pool.QueryRow(ctx, `
		SELECT t.id, s.amount, s.currency, t.status = 'succeeded' AND s.status = 'completed', t.status = 'processing',
			t.settled IS NOT NULL AND t.available_at IS NOT NULL, t.settled_currency, coalesce(t.settled, 0), coalesce(t.cost, 0)
		FROM transaction t JOIN checkout_session s ON s.id = t.session_id
		WHERE t.mode = $1 AND t.acquirer_ref = $2`, mode, reference).Scan(
		&m.TransactionID, &m.Amount, &m.Currency, &m.Paid, &m.Deciding, &m.Booked, &currency, &cost.Gross, &cost.Cost)
	if currency != nil {
		cost.Currency, m.Cost = *currency, &cost
	}
	return m, pg.Wrap("charge match", pg.Found(err))
}

// UnchargedTransaction is a transaction that succeeded, without the charge that belongs to it.
type UnchargedTransaction struct {
	ID        string
	Reference string // the card network's name of the charge; "" when it is not known
}

// Uncharged returns the transactions that succeeded in the interval and whose charge is not among the references. The
// sandbox's are left out. It serves reconciliation, which works for all merchants.
func (s *Books) Uncharged(
	ctx context.Context, mode checkout.Mode, from, to time.Time, references []string,
) ([]UnchargedTransaction, error) {
	got, err := pg.Collect[UnchargedTransaction](ctx, s.pool, `
		SELECT t.id, coalesce(t.acquirer_ref, '') AS reference FROM transaction t
		WHERE t.mode = $1 AND t.status = 'succeeded' AND t.completed_at BETWEEN $2 AND $3
			AND t.acquirer <> 'sandbox'
			AND coalesce(t.acquirer_ref, '') <> ALL (coalesce($4::text[], '{}')) -- a nil slice is null
		ORDER BY t.id`, mode, from, to, references)
	return got, pg.Wrap("uncharged", err)
}

// UnbookedCharges returns up to limit references, ordered, after the reference after, of charges that were
// decided before a time and of which the card network has not said when their money is available. It
// serves reconciliation, which works for all merchants.
func (s *Books) UnbookedCharges(
	ctx context.Context, mode checkout.Mode, before time.Time, after string, limit int,
) ([]string, error) {
	references, err := pg.Values[string](ctx, s.pool, `
		SELECT t.acquirer_ref FROM transaction t
		WHERE t.mode = $1 AND t.status = 'succeeded' AND t.available_at IS NULL AND t.acquirer <> 'sandbox'
			AND t.completed_at < $2 AND t.acquirer_ref > $3
		ORDER BY t.acquirer_ref LIMIT $4`, mode, before, after, limit)
	return references, pg.Wrap("unbooked charges", err)
}
