package storage

import (
	"context"
	"time"

	"example.com/checkout/storage/pg"
	"example.com/checkout/workflows/checkout"
)

// maxHealthDeliveries limits the work for one endpoint. The newest deliveries of a busy endpoint
// are enough to judge it.
const maxHealthDeliveries = 1000

// EndpointHealth counts the newest deliveries of an endpoint by their state.
type EndpointHealth struct {
	EndpointID string
	Total      int // at most 1,000
	Delivered  int
	Failed     int // permanently
	Pending    int
	Retrying   int // pending, and an attempt has failed
}

// EndpointHealth counts the deliveries that were created less than within ago. The key of the map is the id of a
// registration; registrations without deliveries have no entry. Deliveries to a session's own webhook_url do not count.
func (s *WebhookReader) EndpointHealth(
	ctx context.Context, owner checkout.Owner, within time.Duration,
) (map[string]EndpointHealth, error) {
	list, err := pg.Collect[EndpointHealth](ctx, s.pool, `
		SELECT w.id AS endpoint_id, count(*) AS total, count(*) FILTER (WHERE d.status = 'delivered') AS delivered,
			count(*) FILTER (WHERE d.status = 'failed') AS failed, count(*) FILTER (WHERE d.status = 'pending') AS pending,
			count(*) FILTER (WHERE d.status = 'pending' AND EXISTS (
				SELECT FROM webhook_attempt a WHERE a.delivery_id = d.id AND a.run = d.run
					AND a.error_kind IS NOT NULL)) AS retrying
		FROM webhook_endpoint w CROSS JOIN LATERAL (
			SELECT d.id, d.status, d.run FROM webhook_delivery d
			WHERE d.endpoint_id = w.id AND d.id >= $3 AND NOT d.session_url
			ORDER BY d.id DESC LIMIT $4
		) d
		WHERE w.merchant_id = $1 AND w.mode = $2 AND w.session_id IS NULL AND w.deleted_at IS NULL
		GROUP BY w.id`,
		owner.MerchantID, owner.Mode,
		checkout.FirstID(checkout.PrefixDelivery, time.Now().Add(-within)), maxHealthDeliveries)
	health := map[string]EndpointHealth{}
	for _, h := range list {
		health[h.EndpointID] = h
	}
	return health, pg.Wrap("health of webhooks", err)
}

// CountPending returns the number of pending deliveries of a registration.
func (s *WebhookReader) CountPending(ctx context.Context, owner checkout.Owner, endpointID string) (n int, err error) {
	err = s.pool.QueryRow(ctx, `
		SELECT count(*) FROM webhook_delivery
		WHERE merchant_id = $1 AND mode = $2 AND endpoint_id = $3 AND status = 'pending'
			AND NOT session_url`, owner.MerchantID, owner.Mode, endpointID).Scan(&n)
	return n, pg.Wrap("count pending deliveries", err)
}
