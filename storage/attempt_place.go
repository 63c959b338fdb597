package storage

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"example.com/checkout/storage/pg"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/webhook"
)

const (
	// placeWait is how long an attempt stays away when every place of its registration is taken.
	placeWait = time.Second
	// paceSlack is how much too early an attempt may begin at its rate limit. Without it, the time that
	// a statement takes would send away attempts that a worker has spaced correctly.
	paceSlack = 200 * time.Millisecond
)

// unlimited selects the deliveries d that no limit or pause of the registration w holds back.
const unlimited = `(d.session_url OR w.max_in_flight IS NULL AND w.rate_limit IS NULL
	AND coalesce(w.paused_until, '-infinity') <= clock_timestamp())`

// takePlace takes a place for an attempt to a registration with limits or a pause, in the transaction
// that begins the attempt. It locks the registration, so that all workers share its limits. It returns
// how long the attempt must wait; 0 when it has a place.
func (d lockedDelivery) takePlace(ctx context.Context, conn *pgxpool.Conn, ref checkout.Ref) (time.Duration, error) {
	var (
		paced, paused *time.Time
		inFlight      int
		endpointID    = *d.SecretOf // of a registration
	)
	batch := &pgx.Batch{}
	// A busy registration must not keep the connections that other merchants' attempts need.
	batch.Queue(`SET LOCAL lock_timeout = '200ms'`)
	batch.Queue(`SELECT paced_until, paused_until FROM webhook_endpoint WHERE id = $1 FOR NO KEY UPDATE`, endpointID).
		QueryRow(func(row pgx.Row) error { return row.Scan(&paced, &paused) })
	batch.Queue(`DELETE FROM webhook_place WHERE endpoint_id = $1 AND until <= $2`, endpointID, d.Now)
	batch.Queue(`SELECT count(*) FROM webhook_place WHERE endpoint_id = $1`, endpointID).
		QueryRow(func(row pgx.Row) error { return row.Scan(&inFlight) })
	batch.Queue(`SET LOCAL lock_timeout TO DEFAULT`)
	err := conn.SendBatch(ctx, batch).Close()
	switch {
	case pg.Locked(err):
		return placeWait, nil
	case err != nil:
		return 0, err
	case paused != nil && paused.After(d.Now):
		return paused.Sub(d.Now), nil
	case d.RateLimit > 0 && paced != nil && paced.Sub(d.Now) > paceSlack:
		return paced.Sub(d.Now), nil
	case d.MaxInFlight > 0 && inFlight >= d.MaxInFlight:
		return placeWait, nil
	}

	batch = &pgx.Batch{}
	if d.MaxInFlight > 0 {
		batch.Queue(`
			INSERT INTO webhook_place (delivery_id, endpoint_id, until) VALUES ($1, $2, $3)
			ON CONFLICT (delivery_id) DO UPDATE SET until = excluded.until`,
			ref.ID, endpointID, d.Now.Add(webhook.AttemptTimeout))
	}
	if d.RateLimit > 0 {
		batch.Queue(`UPDATE webhook_endpoint SET paced_until = greatest(paced_until, $2) + $3::interval WHERE id = $1`,
			endpointID, d.Now, time.Second/time.Duration(d.RateLimit))
	}
	return 0, conn.SendBatch(ctx, batch).Close()
}

// LeavePlace gives back the place of an attempt to a registration with MaxInFlight. Without the call,
// the place is free after webhook.AttemptTimeout.
func (s *Webhooks) LeavePlace(ctx context.Context, ref checkout.Ref) error {
	return pg.Exec(ctx, s.pool, "leave place", `
		DELETE FROM webhook_place p USING webhook_delivery d
		WHERE p.delivery_id = $1 AND d.id = $1 AND d.merchant_id = $2 AND d.mode = $3`, ref.ID, ref.MerchantID, ref.Mode)
}

// PauseEndpoint lets no attempt to the delivery's registration begin for a while, in any worker. It does
// nothing for the webhook_url of a session.
func (s *Webhooks) PauseEndpoint(ctx context.Context, ref checkout.Ref, pause time.Duration) error {
	return pg.Exec(ctx, s.pool, "pause webhook", `
		UPDATE webhook_endpoint w SET paused_until = greatest(w.paused_until, clock_timestamp() + $4::interval)
		FROM webhook_delivery d
		WHERE d.id = $1 AND d.merchant_id = $2 AND d.mode = $3 AND NOT d.session_url AND w.id = d.endpoint_id`,
		ref.ID, ref.MerchantID, ref.Mode, pause)
}
