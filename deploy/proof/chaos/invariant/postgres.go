package invariant

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"example.com/checkout/workflows/webhook"
)

// readPostgres reads everything in one snapshot. It reads the rows of all merchants, because it
// looks for rows of the wrong merchant.
func readPostgres(ctx context.Context, conn *pgx.Conn, f *Facts) error {
	options := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	return pgx.BeginTxFunc(ctx, conn, options, func(tx pgx.Tx) error {
		// This is the time when the statement began, before its snapshot.
		if err := tx.QueryRow(ctx, `SELECT statement_timestamp()`).Scan(&f.At); err != nil {
			return err
		}
		return cmp.Or(
			readSessions(ctx, tx, f),
			readDeliveries(ctx, tx, f),
			readAttempts(ctx, tx, f),
			readTransfers(ctx, tx, f),
			readBalances(ctx, tx, f),
		)
	})
}

// readDeliveries reads the events, the registrations and the deliveries.
func readDeliveries(ctx context.Context, tx pgx.Tx, f *Facts) error {
	return cmp.Or(
		read(ctx, tx, &f.Events, `
			SELECT e.id, e.merchant_id, e.mode, e.type, e.subject_id, coalesce(e.session_id, ''), e.created_at,
				encode(sha256(e.body), 'hex'), coalesce(s.webhook_url, ''),
				CASE WHEN s.webhook_url IS NULL THEN '' ELSE coalesce(s.signing_endpoint_id, '') END
			FROM event e LEFT JOIN checkout_session s ON s.id = e.session_id ORDER BY e.id`),
		read(ctx, tx, &f.Endpoints, `
			SELECT id, merchant_id, mode, url, events, session_id IS NOT NULL, created_at, changed_at, deleted_at
			FROM webhook_endpoint ORDER BY id`),
		collect(ctx, tx, &f.Deliveries, `
			SELECT id, event_id, merchant_id, mode, endpoint_id, url, session_url, status, run, hurried_at, created_at,
				finished_at, xmin::text
			FROM webhook_delivery ORDER BY id`, pgx.RowToAddrOfStructByPos[Delivery]),
	)
}

func readAttempts(ctx context.Context, tx pgx.Tx, f *Facts) error {
	of := by(f.Deliveries, func(d *Delivery) string { return d.ID })
	rows, _ := tx.Query(ctx, `
		SELECT delivery_id, run, number, scheduled_at, started_at, duration_ms IS NOT NULL, coalesce(duration_ms, 0),
			coalesce(status_code, 0), coalesce(error_kind, '')
		FROM webhook_attempt ORDER BY delivery_id, run, number`) // ForEachRow returns the error
	var (
		id   string
		took int64
		a    webhook.Attempt
	)
	into := []any{&id, &a.Run, &a.Number, &a.ScheduledAt, &a.StartedAt, &a.Finished, &took, &a.StatusCode, &a.ErrorKind}
	_, err := pgx.ForEachRow(rows, into, func() error {
		if of[id] == nil {
			return errors.New("attempt of no delivery " + id) // a foreign key prevents this
		}
		a.Duration = time.Duration(took) * time.Millisecond
		of[id].Attempts = append(of[id].Attempts, a)
		return nil
	})
	return err
}

// readMoved marks the rows that changed since the first reading, and removes the runs of rows that
// were inserted since.
func readMoved(ctx context.Context, conn *pgx.Conn, f *Facts) error {
	rows, _ := conn.Query(ctx, `
		SELECT id, xmin::text FROM checkout_session
		UNION ALL SELECT id, xmin::text FROM webhook_delivery`) // ForEachRow returns the error
	var id, version string
	now := map[string]string{} // the version of each row
	_, err := pgx.ForEachRow(rows, []any{&id, &version}, func() error { now[id] = version; return nil })
	if err != nil {
		return err
	}
	for _, s := range f.Sessions {
		s.Moved = now[s.ID] != s.Version
		delete(now, s.ID)
	}
	for _, d := range f.Deliveries {
		d.Moved = now[d.ID] != d.Version
		delete(now, d.ID)
	}
	f.Runs = slices.DeleteFunc(f.Runs, func(r Run) bool { return now[r.WorkflowID] != "" })
	return nil
}

// Unsettled is a query for the work that is in progress and not on hold, in words; "" when everything has come to rest.
const Unsettled = `
		SELECT coalesce(string_agg(n || ' ' || what, ', '), '') FROM (
			SELECT count(*) AS n, 'pending deliveries' AS what FROM webhook_delivery d
				JOIN webhook_endpoint w ON w.id = d.endpoint_id
				WHERE d.status = 'pending' AND NOT d.held AND (d.session_url OR w.status = 'enabled')
			UNION ALL SELECT count(*), 'running bulk replays' FROM webhook_replay WHERE status = 'running'
			UNION ALL SELECT count(*), 'pending payouts' FROM payout WHERE status = 'pending'
			UNION ALL SELECT count(*), 'pending sessions whose time is over' FROM checkout_session
				WHERE status = 'pending' AND NOT payment_in_flight AND expires_at < clock_timestamp()
		) u WHERE n > 0`
