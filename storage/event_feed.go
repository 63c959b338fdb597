package storage

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/webhook"
)

// eventFeed selects the feed of a merchant and mode after a transaction and an id. A transaction whose id is
// less than the xmin of the snapshot has ended: no event can come before one that the feed has shown.
const eventFeed = selectEvent + `
	WHERE e.merchant_id = $1 AND e.mode = $2 AND (e.commit_xid, e.id) > ($3::text::xid8, $4)
		AND e.commit_xid < pg_snapshot_xmin(pg_current_snapshot())
	ORDER BY e.commit_xid, e.id LIMIT $5`

// EventFeed lists at most limit events in the order of the feed, from the one behind after, or from the
// beginning when after is "". The order never changes: who asks again with the last id misses nothing and gets
// nothing twice. An event that was stored while an older transaction is still open is withheld until that has
// ended. EventFeed returns checkout.ErrNotFound when the merchant has no event after in this mode.
func (s *Store) EventFeed(
	ctx context.Context, owner checkout.Owner, after string, limit int,
) ([]webhook.Event, error) {
	xid := "0"
	if after != "" {
		err := s.pool.QueryRow(ctx, `
			SELECT commit_xid::text FROM event WHERE id = $1 AND merchant_id = $2 AND mode = $3`,
			after, owner.MerchantID, owner.Mode).Scan(&xid)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil, checkout.ErrNotFound
		}
		if err != nil {
			return nil, fmt.Errorf("position in the feed: %w", err)
		}
	}

	rows, err := s.pool.Query(ctx, eventFeed, owner.MerchantID, owner.Mode, xid, after, limit)
	if err != nil {
		return nil, fmt.Errorf("feed of events: %w", err)
	}
	got, err := pgx.CollectRows(rows,
		func(row pgx.CollectableRow) (webhook.Event, error) { return scanEvent(row) })
	if err != nil {
		return nil, fmt.Errorf("feed of events: %w", err)
	}
	return got, nil
}

// keepFeedBehind begins the feed anew in a cluster that counts fewer transactions than the one where the events
// were stored, as after the restore of a dump. Otherwise the feed would withhold the old events, and show new
// events before them. The newest ids tell: ids and transactions grow together but for what runs at once.
func keepFeedBehind(ctx context.Context, url string) error {
	cfg, err := pgx.ParseConfig(url)
	if err != nil {
		return errors.New("the database URL is malformed") // the parser's error may quote the password
	}
	for _, t := range timeouts {
		cfg.RuntimeParams[t.name] = "0" // the role's own are for the service
	}

	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return fmt.Errorf("feed of events: %w", err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }() // nothing is left to write
	_, err = conn.Exec(ctx, `
		UPDATE event SET commit_xid = '0' WHERE commit_xid <> '0' AND EXISTS (
			SELECT FROM (SELECT commit_xid FROM event ORDER BY id DESC LIMIT 1000) newest
			WHERE newest.commit_xid >= pg_snapshot_xmax(pg_current_snapshot()))`)
	if err != nil {
		return fmt.Errorf("feed of events: %w", err)
	}
	return nil
}
