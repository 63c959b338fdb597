package storage

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"example.com/checkout/workflows/checkout"
)

// AcquirerEvent is a report of the card network about one of its objects.
type AcquirerEvent struct {
	ID        string
	Mode      checkout.Mode
	Type      string // such as "payment_intent.succeeded"
	ObjectID  string
	Reference string // of the charge; "" when the report is about something else
	CreatedAt time.Time
}

// NoteAcquirerEvent stores a report once. It returns false when the report is known. Reports belong
// to the acquirer's account and not to a merchant.
func (s *Store) NoteAcquirerEvent(ctx context.Context, e AcquirerEvent) (bool, error) {
	tag, err := s.pool.Exec(ctx, `
		INSERT INTO acquirer_event (id, mode, type, object_id, reference, created_at, received_at)
		VALUES ($1, $2, $3, $4, $5, $6, clock_timestamp()) ON CONFLICT DO NOTHING`,
		e.ID, e.Mode, e.Type, e.ObjectID, e.Reference, e.CreatedAt)
	if err != nil {
		return false, fmt.Errorf("note acquirer event: %w", err)
	}
	return tag.RowsAffected() == 1, nil
}

// PaymentByReference names the payment in flight that the card network knows by reference, and its
// session. The caller is the card network, which has no merchant. It returns checkout.ErrNotFound
// when no payment with this reference is in flight.
func (s *Store) PaymentByReference(
	ctx context.Context, mode checkout.Mode, reference string,
) (session checkout.Ref, transactionID string, err error) {
	err = s.pool.QueryRow(ctx, `
		SELECT session_id, merchant_id, mode, id FROM transaction
		WHERE mode = $1 AND acquirer_ref = $2 AND status = 'processing'`, mode, reference).Scan(
		&session.ID, &session.MerchantID, &session.Mode, &transactionID)
	if errors.Is(err, pgx.ErrNoRows) {
		err = checkout.ErrNotFound
	}
	if err != nil {
		return checkout.Ref{}, "", fmt.Errorf("payment by reference: %w", err)
	}
	return session, transactionID, nil
}
