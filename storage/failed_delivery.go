package storage

import (
	"context"
	"time"

	"example.com/checkout/storage/pg"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/webhook"
)

// FailedDelivery is a permanently failed delivery.
type FailedDelivery struct {
	checkout.Ref

	EventType webhook.EventType
	URL       string // see webhook.PlainURL
	Runs      int
	FailedAt  time.Time
}

// FailedDeliveries returns up to limit permanently failed deliveries of all merchants. The one that
// failed last comes first. Only operators may call it.
func (s *WebhookReader) FailedDeliveries(ctx context.Context, limit int) ([]FailedDelivery, error) {
	// The second condition repeats the first: PostgreSQL needs it to use the partial index.
	got, err := pg.Collect[FailedDelivery](ctx, s.pool, `
		SELECT d.id, d.merchant_id, d.mode, e.type AS event_type, d.url, d.run AS runs, d.finished_at AS failed_at
		FROM webhook_delivery d JOIN event e ON e.id = d.event_id
		WHERE d.status = 'failed' AND d.status <> 'delivered'
		ORDER BY d.finished_at DESC, d.id LIMIT $1`, limit)
	for i := range got {
		got[i].URL = webhook.PlainURL(got[i].URL)
	}
	return got, pg.Wrap("failed deliveries", err)
}
