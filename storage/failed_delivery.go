package storage

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

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
func (a *Accounts) FailedDeliveries(ctx context.Context, limit int) ([]FailedDelivery, error) {
	// The second condition repeats the first: PostgreSQL needs it to use the partial index.
	got, err := pg.CollectBy(ctx, a.pool, func(row pgx.CollectableRow) (d FailedDelivery, err error) {
		var address string
		err = row.Scan(&d.ID, &d.MerchantID, &d.Mode, &d.EventType, &address, &d.Runs, &d.FailedAt)
		d.URL = webhook.PlainURL(address)
		return d, err
	}, `
		SELECT d.id, d.merchant_id, d.mode, e.type, d.url, d.run, d.finished_at
		FROM webhook_delivery d JOIN event e ON e.id = d.event_id
		WHERE d.status = 'failed' AND d.status <> 'delivered'
		ORDER BY d.finished_at DESC, d.id LIMIT $1`, limit)
	return got, pg.Wrap("failed deliveries", err)
}
