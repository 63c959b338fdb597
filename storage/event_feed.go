package storage

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"example.com/checkout/storage/pg"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/webhook"
	"github.com/jackc/pgx/v5/pgxpool"
)

// eventFeed selects the feed of a merchant and mode after a position. A transaction whose id is less than the xmin
// of the snapshot has ended: no event can come before one that the feed has shown.
const eventFeed = selectEvent + `
	WHERE e.merchant_id = $1 AND e.mode = $2 AND (e.feed_era, e.commit_xid, e.id) > ($3, $4::text::xid8, $5)
		AND (e.feed_era, e.commit_xid) < ((SELECT feed_era FROM installation), pg_snapshot_xmin(pg_current_snapshot()))
	ORDER BY e.feed_era, e.commit_xid, e.id LIMIT $6`

// EventFeed lists at most limit events in the order of the feed, from the one behind after, or from the
// beginning when after is "". The order never changes: who asks again with the last id misses nothing and gets
// nothing twice. An event that was stored while an older transaction is still open is withheld until that has
// ended. EventFeed returns checkout.ErrNotFound when the merchant has no event after in this mode.
func (s *WebhookReader) EventFeed(
	ctx context.Context, owner checkout.Owner, after string, limit int,
) ([]webhook.Event, error) {
	era, xid := 0, "0"
	if after != "" {
		err := s.pool.QueryRow(ctx, `
			SELECT feed_era, commit_xid::text FROM event WHERE id = $1 AND merchant_id = $2 AND mode = $3`,
			after, owner.MerchantID, owner.Mode).Scan(&era, &xid)
		if err != nil {
			return nil, pg.Wrap("position in the feed", pg.Found(err))
		}
	}

	got, err := pg.Collect[webhook.Event](ctx, s.pool, eventFeed, owner.MerchantID, owner.Mode, era, xid, after, limit)
	return got, pg.Wrap("feed of events", err)
}

// FeedHorizon returns the transaction from which on the feed withholds what is stored, and whether it is open.
func (s *WebhookReader) FeedHorizon(ctx context.Context) (xid string, open bool, err error) {
	err = s.pool.QueryRow(ctx, `
		SELECT pg_snapshot_xmin(now)::text, pg_snapshot_xmin(now) < pg_snapshot_xmax(now)
		FROM pg_current_snapshot() AS now`).Scan(&xid, &open)
	return xid, open, pg.Wrap("horizon of the feed", err)
}

// ErrOtherCluster: the database came from a cluster that had counted more transactions, as by the restore
// of a dump. New events would come before the old ones in the feed. Its text names the remedy.
var ErrOtherCluster = errors.New("the database was restored into another PostgreSQL cluster: run checkout setup")

// feedFromOtherCluster is true when this cluster has not counted as far as the newest events say. Ids and transactions
// grow together but for what runs at once, so some of the newest ids tell.
const feedFromOtherCluster = `
	SELECT EXISTS (
		SELECT FROM (SELECT feed_era, commit_xid FROM event ORDER BY id DESC LIMIT 1000) newest
		WHERE feed_era = (SELECT feed_era FROM installation) AND commit_xid >= pg_snapshot_xmax(pg_current_snapshot()))`

func checkFeed(ctx context.Context, pool *pgxpool.Pool) error {
	other, err := pg.Value[bool](ctx, pool, feedFromOtherCluster)
	if other {
		return ErrOtherCluster
	}
	return pg.Wrap("read the newest events", err)
}

// beginFeedEra begins an era of the feed when the events came from another cluster. They keep their order, and come
// before every new event.
func beginFeedEra(ctx context.Context, db *sql.DB) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // after a commit there is nothing to roll back
	var other bool
	// Another process that runs setup waits here, and then sees the new era.
	if _, err := tx.ExecContext(ctx, `SELECT FROM installation FOR UPDATE`); err != nil {
		return err
	}
	if err := tx.QueryRowContext(ctx, feedFromOtherCluster).Scan(&other); err != nil || !other {
		return err
	}
	var era int
	err = tx.QueryRowContext(ctx, `UPDATE installation SET feed_era = feed_era + 1 RETURNING feed_era`).Scan(&era)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, fmt.Sprintf(`ALTER TABLE event ALTER COLUMN feed_era SET DEFAULT %d`, era))
	if err != nil {
		return err
	}
	return tx.Commit()
}
