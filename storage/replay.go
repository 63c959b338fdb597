package storage

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"example.com/checkout/storage/pg"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
	"example.com/checkout/workflows/webhook"
)

// replayed selects the deliveries that a bulk replay starts again.
const replayed = `
	d.merchant_id = $1 AND d.mode = $2 AND d.endpoint_id = $3 AND NOT d.session_url
		AND d.created_at >= $4 AND d.created_at < $5 AND d.status = $6
	AND d.id >= $7 AND d.id < $8`

// replayedArgs returns the arguments of replayed. The last two bound the ids, which the index covers.
func replayedArgs(r webhook.Replay) []any {
	return []any{
		r.MerchantID, r.Mode, r.EndpointID, r.Since, r.Until, r.Filter,
		checkout.FirstID(checkout.PrefixDelivery, r.Since.Add(-checkout.ClockSkew)),
		checkout.FirstID(checkout.PrefixDelivery, r.Until.Add(checkout.ClockSkew)),
	}
}

// PreviewReplay returns how many deliveries r would start again. It returns checkout.ErrNotFound
// for an unknown registration.
func (s *WebhookReader) PreviewReplay(ctx context.Context, r webhook.Replay) (int, error) {
	if _, err := s.Endpoint(ctx, r.Owner.Ref(r.EndpointID)); err != nil {
		return 0, err
	}
	n, err := pg.Value[int](ctx, s.pool, `
		SELECT count(*) FROM webhook_delivery d WHERE `+replayed, replayedArgs(r)...)
	return n, pg.Wrap("preview replay", err)
}

// CreateReplay stores a running bulk replay. The caller starts its workflow; Reconcile starts it if the caller fails.
// It returns r with its total, status and creation time. A repeat returns the stored bulk replay. It returns
// checkout.ErrNotFound, webhook.ErrReplayRunning and webhook.ErrReplayRate. by works as in CreateEndpoint; CreateReplay
// puts the total before its detail.
func (s *Webhooks) CreateReplay(
	ctx context.Context, r webhook.Replay, by ...merchant.AuditEntry,
) (webhook.Replay, error) {
	total, err := s.PreviewReplay(ctx, r)
	if err != nil {
		return webhook.Replay{}, err
	}
	r.Total, r.Status = total, webhook.ReplayRunning
	by = slices.Clone(by)
	for i := range by {
		by[i].Detail = fmt.Sprintf("%d %s", total, by[i].Detail)
	}

	return pg.InTx(ctx, s.pool, "create replay", func(tx pgx.Tx) (webhook.Replay, error) {
		// All bulk replays of a merchant share one rate limit, so their creations take turns here.
		if _, err := tx.Exec(ctx, `
			SELECT pg_advisory_xact_lock(hashtextextended('replay ' || $1, 0))`, r.MerchantID); err != nil {
			return r, err
		}

		stored, err := readReplay(ctx, tx, r.Ref)
		if !errors.Is(err, checkout.ErrNotFound) {
			return stored, err // the request was repeated
		}
		if err := mayReplay(ctx, tx, r); err != nil {
			return r, err
		}
		err = tx.QueryRow(ctx, `
			INSERT INTO webhook_replay (id, merchant_id, mode, endpoint_id, since, until, filter,
				rate, status, total, created_at)
			VALUES (@id, @merchant, @mode, @endpoint, @since, @until, @filter, @rate, @status, @total,
				date_trunc('milliseconds', clock_timestamp())) RETURNING created_at`,
			pgx.NamedArgs{
				"id": r.ID, "merchant": r.MerchantID, "mode": r.Mode, "endpoint": r.EndpointID, "since": r.Since,
				"until": r.Until, "filter": r.Filter, "rate": r.Rate, "status": r.Status, "total": r.Total,
			}).Scan(&r.CreatedAt)
		if err != nil {
			return r, err
		}
		return r, pg.Audit(ctx, tx, by...)
	})
}

// mayReplay checks r against the merchant's running bulk replays, of both modes.
func mayReplay(ctx context.Context, tx pgx.Tx, r webhook.Replay) error {
	var (
		same bool
		rate int
	)
	err := tx.QueryRow(ctx, `
		SELECT coalesce(bool_or(endpoint_id = $2), false), coalesce(sum(rate), 0)
		FROM webhook_replay
		WHERE merchant_id = $1 AND status = 'running'`, r.MerchantID, r.EndpointID).Scan(&same, &rate)
	switch {
	case err != nil:
		return err
	case same:
		return webhook.ErrReplayRunning
	case rate+r.Rate > webhook.MaxReplayRate:
		return webhook.ErrReplayRate
	}
	return nil
}

const selectReplay = `
	SELECT r.id, r.merchant_id, r.mode, r.endpoint_id, r.since, r.until, r.filter, r.rate, r.status,
		r.total, r.after, r.started, r.skipped,
		r.created_at, r.finished_at FROM webhook_replay r `

// Replay returns one bulk replay. It returns checkout.ErrNotFound.
func (s *WebhookReader) Replay(ctx context.Context, ref checkout.Ref) (webhook.Replay, error) {
	r, err := readReplay(ctx, s.pool, ref)
	return r, pg.Wrap("replay", err)
}

func readReplay(ctx context.Context, from pg.Querier, ref checkout.Ref) (webhook.Replay, error) {
	return pg.One[webhook.Replay](ctx, from, selectReplay+`
		WHERE r.id = $1 AND r.merchant_id = $2 AND r.mode = $3`, ref.ID, ref.MerchantID, ref.Mode)
}

// Replays lists bulk replays, newest first. An empty endpointID selects all registrations.
func (s *WebhookReader) Replays(
	ctx context.Context, owner checkout.Owner, endpointID string, p pg.Page,
) ([]webhook.Replay, error) {
	q := pg.NewList(owner, "r")
	q.Equal("r.endpoint_id", endpointID)
	q.Page(checkout.PrefixReplay, "r", p)
	got, err := pg.Collect[webhook.Replay](ctx, s.pool, selectReplay+q.SQL, q.Args...)
	return got, pg.Wrap("replays", err)
}

// ReplayedDelivery is a delivery that a bulk replay starts again. Histories hold it.
type ReplayedDelivery struct {
	webhook.Dispatch
	EventType webhook.EventType `json:"event_type"`
}

// ReplayedDeliveries returns the next limit deliveries of a bulk replay, oldest first.
func (s *WebhookReader) ReplayedDeliveries(
	ctx context.Context, r webhook.Replay, limit int,
) ([]ReplayedDelivery, error) {
	got, err := pg.Collect[ReplayedDelivery](ctx, s.pool, `
		SELECT d.id, d.endpoint_id, d.url AS host, e.type AS event_type FROM webhook_delivery d
		JOIN event e ON e.id = d.event_id
		WHERE `+replayed+` AND d.id > $9 ORDER BY d.id LIMIT $10`, append(replayedArgs(r), r.After, limit)...)
	for i := range got {
		got[i].Host = webhook.HostOf(got[i].Host)
	}
	return got, pg.Wrap("replayed deliveries", err)
}

// RecordReplay stores the progress of a running bulk replay, or its end. A repeat changes nothing,
// and a late call never lowers the progress.
func (s *Webhooks) RecordReplay(ctx context.Context, r webhook.Replay) error {
	return pg.Exec(ctx, s.pool, "record replay", `
		UPDATE webhook_replay SET started = CASE WHEN $7 >= after THEN $4 ELSE started END,
			skipped = CASE WHEN $7 >= after THEN $5 ELSE skipped END, after = greatest(after, $7),
				status = $6, finished_at = CASE WHEN $6 <> 'running' THEN clock_timestamp() END
		WHERE id = $1 AND merchant_id = $2 AND mode = $3 AND status = 'running'`,
		r.ID, r.MerchantID, r.Mode, r.Started, r.Skipped, r.Status, r.After)
}
