package storage

import (
	"context"
	"time"

	"example.com/checkout/storage/pg"
	"example.com/checkout/workflows/books"
	"example.com/checkout/workflows/checkout"
)

// StoreAcquirerEvent stores a report once. It returns false when the report is known. Reports belong
// to no merchant: the acquirer knows only us. A report of a risk holds the payout of the charge
// until RecordRisks says what the card network knows.
func (s *Books) StoreAcquirerEvent(ctx context.Context, e books.AcquirerEvent) (bool, error) {
	tag, err := s.pool.Exec(ctx, `
		INSERT INTO acquirer_event (id, mode, type, object_id, reference, unseen, created_at, received_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, clock_timestamp()) ON CONFLICT DO NOTHING`,
		e.ID, e.Mode, e.Type, e.ObjectID, e.Reference, e.Risk && e.Reference != "", e.CreatedAt)
	return tag.RowsAffected() == 1, pg.Wrap("store acquirer event", err)
}

// PaymentByReference names the payment in flight that the card network knows by reference, and its
// session. The caller is the card network, which has no merchant. It returns checkout.ErrNotFound
// when no payment with this reference is in flight.
func (s *Books) PaymentByReference(
	ctx context.Context, mode checkout.Mode, reference string,
) (session checkout.Ref, transactionID string, err error) {
	err = s.pool.QueryRow(ctx, `
		SELECT session_id, merchant_id, mode, id FROM transaction
		WHERE mode = $1 AND acquirer_ref = $2 AND status = 'processing'`, mode, reference).Scan(
		&session.ID, &session.MerchantID, &session.Mode, &transactionID)
	return session, transactionID, pg.Wrap("payment by reference", pg.Found(err))
}

// AcquirerCursor is up to where the card network's list of reports was read.
type AcquirerCursor struct {
	EventID   string    // "" before the first reading
	CreatedAt time.Time // of that report
}

// AcquirerCursor returns the stored cursor.
func (s *Books) AcquirerCursor(ctx context.Context, mode checkout.Mode) (AcquirerCursor, error) {
	c, err := pg.One[AcquirerCursor](ctx, s.pool, `
		SELECT event_id, created_at FROM acquirer_cursor WHERE mode = $1`, mode)
	return c, pg.Wrap("acquirer cursor", pg.Optional(err))
}

// MoveAcquirerCursor stores the cursor. It never goes back.
func (s *Books) MoveAcquirerCursor(ctx context.Context, mode checkout.Mode, c AcquirerCursor) error {
	return pg.Exec(ctx, s.pool, "move acquirer cursor", `
		INSERT INTO acquirer_cursor AS c (mode, event_id, created_at) VALUES ($1, $2, $3)
		ON CONFLICT (mode) DO UPDATE SET event_id = EXCLUDED.event_id, created_at = EXCLUDED.created_at
		WHERE c.created_at <= EXCLUDED.created_at`, mode, c.EventID, c.CreatedAt)
}

// Comparison is how far the charges and the movements of the card network are compared.
type Comparison struct {
	ComparedTo time.Time // for good; zero before the first comparison
	ReadTo     time.Time // where the next try goes on; ComparedTo when it is to begin there
}

// Comparison returns what is stored.
func (s *Books) Comparison(ctx context.Context, mode checkout.Mode) (Comparison, error) {
	c, err := pg.One[Comparison](ctx, s.pool, `
		SELECT compared_to, read_to FROM acquirer_comparison WHERE mode = $1`, mode)
	return c, pg.Wrap("comparison", pg.Optional(err))
}

// SetComparison stores the comparison. It may go back: then more is compared once more.
func (s *Books) SetComparison(ctx context.Context, mode checkout.Mode, c Comparison) error {
	return pg.Exec(ctx, s.pool, "set comparison", `
		INSERT INTO acquirer_comparison (mode, compared_to, read_to) VALUES ($1, $2, $3)
		ON CONFLICT (mode) DO UPDATE SET compared_to = EXCLUDED.compared_to, read_to = EXCLUDED.read_to`,
		mode, c.ComparedTo, c.ReadTo)
}
