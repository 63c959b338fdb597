package storage

import (
	"context"
	"net/url"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/webhook"
)

// publication is an event to be stored together with its deliveries.
type publication struct {
	MerchantID string
	Mode       checkout.Mode
	Type       webhook.EventType
	SubjectID  string
	SessionID  string
	Data       any
	At         time.Time
	// WebhookURL replaces every registration for the events of its session;
	// the secret of SigningEndpoint signs.
	WebhookURL      *string
	SigningEndpoint *string
}

// publish stores the event, the exact bytes that will be sent, and one delivery
// for each address that gets it. It must run at most once per subject and type
// (a unique constraint holds it to that); published reads the result again.
func publish(ctx context.Context, tx pgx.Tx, p publication) ([]webhook.DeliveryRef, error) {
	id := checkout.NewID(checkout.PrefixEvent)
	body, err := webhook.Envelope(id, p.Type, p.At, p.Data)
	if err != nil {
		return nil, err
	}
	_, err = tx.Exec(ctx, `
		INSERT INTO event (id, merchant_id, mode, type, subject_id, session_id, created_at, body)
		VALUES ($1, $2, $3, $4, $5, nullif($6, ''), $7, $8)`,
		id, p.MerchantID, p.Mode, p.Type, p.SubjectID, p.SessionID, p.At, body)
	if err != nil {
		return nil, err
	}
	// PostgreSQL picks as many of these ids as there are targets, which saves
	// asking for the targets first.
	candidates := make([]string, webhook.MaxEndpoints)
	for i := range candidates {
		candidates[i] = checkout.NewID(checkout.PrefixDelivery)
	}
	slices.Sort(candidates)
	rows, err := tx.Query(ctx, `
		WITH target AS (
			SELECT id, url FROM webhook_endpoint
			WHERE merchant_id = $2 AND mode = $3 AND session_id IS NULL AND deleted_at IS NULL AND status = 'enabled'
			  AND $4 = ANY (events) AND $7::text IS NULL
			UNION ALL
			SELECT $8, $7 WHERE $7 IS NOT NULL
		)
		INSERT INTO webhook_delivery (id, event_id, merchant_id, mode, endpoint_id, url, status, next_attempt_at, created_at)
		SELECT ($5::text[])[row_number() OVER (ORDER BY id)], $1, $2, $3, id, url, 'pending', $6, $6 FROM target
		RETURNING id, url`,
		id, p.MerchantID, p.Mode, p.Type, candidates, p.At, p.WebhookURL, p.SigningEndpoint)
	if err != nil {
		return nil, err
	}
	return collectDeliveryRefs(rows)
}

// published returns the deliveries of an event that publish stored before.
func published(ctx context.Context, tx pgx.Tx, merchantID string, mode checkout.Mode, subjectID string, typ webhook.EventType) ([]webhook.DeliveryRef, error) {
	rows, err := tx.Query(ctx, `
		SELECT d.id, d.url FROM webhook_delivery d JOIN event e ON e.id = d.event_id
		WHERE e.merchant_id = $1 AND e.mode = $2 AND e.subject_id = $3 AND e.type = $4 ORDER BY d.id`,
		merchantID, mode, subjectID, typ)
	if err != nil {
		return nil, err
	}
	return collectDeliveryRefs(rows)
}

func collectDeliveryRefs(rows pgx.Rows) ([]webhook.DeliveryRef, error) {
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (webhook.DeliveryRef, error) {
		var id, address string
		if err := row.Scan(&id, &address); err != nil {
			return webhook.DeliveryRef{}, err
		}
		ref := webhook.DeliveryRef{ID: id}
		if u, err := url.Parse(address); err == nil {
			ref.Host = u.Hostname()
		}
		return ref, nil
	})
}
