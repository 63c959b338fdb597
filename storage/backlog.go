package storage

import (
	"context"
	"time"

	"github.com/exaring/otelpgx"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"

	"example.com/checkout/storage/pg"
	"example.com/checkout/workflows/checkout"
)

// The kinds of Backlog.
const (
	BacklogSessionOverdue    = "session overdue"    // its time was over a while ago
	BacklogDeliveryScheduled = "delivery scheduled" // its next attempt has a time
	BacklogDeliveryOverdue   = "delivery overdue"   // the time of its attempt was a while ago
	BacklogDeliveryParked    = "delivery parked"    // came due while on hold
	BacklogPayout            = "payout"             // is not sent yet
	BacklogFinding           = "finding"            // is open
)

// Backlog counts rows of all merchants that wait for something.
type Backlog struct {
	Kind  string
	Mode  checkout.Mode
	Hold  string // why payouts wait; "" when they wait for nothing special, and for other kinds. The kind of findings
	Count int64
	// Oldest is the age of the oldest payout; 0 for other kinds.
	Oldest time.Duration
}

// BacklogLimit is where the count of a kind stops, both modes together. So the query stays cheap when much waits.
const BacklogLimit = 100_000

// backlog reads the partial indexes of what waits, never a whole table. It has no owner because it is
// for the operators' metrics.
const backlog = `
	SELECT kind, mode, hold, count(*) AS count, coalesce(statement_timestamp() - min(since), '0') AS oldest
	FROM (
		(SELECT '` + BacklogSessionOverdue + `' AS kind, mode, '' AS hold, NULL::timestamptz AS since
			FROM checkout_session
			WHERE status = 'pending' AND expires_at < statement_timestamp() - $1::interval
			ORDER BY expires_at LIMIT $2)
		UNION ALL
		(SELECT CASE WHEN next_attempt_at < statement_timestamp() - $1::interval
				THEN '` + BacklogDeliveryOverdue + `' ELSE '` + BacklogDeliveryScheduled + `' END, mode, '', NULL
			FROM webhook_delivery WHERE status = 'pending' AND parked_at IS NULL
			ORDER BY next_attempt_at LIMIT $2)
		UNION ALL
		(SELECT '` + BacklogDeliveryParked + `', mode, '', NULL
			FROM webhook_delivery WHERE parked_at IS NOT NULL ORDER BY id LIMIT $2)
		UNION ALL
		(SELECT '` + BacklogPayout + `', mode, hold, created_at
			FROM payout WHERE status = 'pending' ORDER BY created_at LIMIT $2)
		UNION ALL
		(SELECT '` + BacklogFinding + `', mode, kind, NULL FROM finding WHERE closed_at IS NULL LIMIT $2)
	) waiting GROUP BY kind, mode, hold`

// Backlog counts what waits, by kind, mode and hold. A kind has no entry when nothing of it waits.
// What is late by less than margin is not overdue.
func (s *Installation) Backlog(ctx context.Context, margin time.Duration) ([]Backlog, error) {
	all, err := pg.Collect[Backlog](ctx, s.pool, backlog, margin, BacklogLimit)
	return all, pg.Wrap("backlog", err)
}

// SchemaVersion returns the number of the newest migration in the database.
func (s *Installation) SchemaVersion(ctx context.Context) (int64, error) {
	return pg.SchemaVersion(ctx, s.pool)
}

// MeasurePool exports the figures of the pool of connections, such as how long callers wait for one.
func (a *Keyless) MeasurePool() error {
	// The default name has the server's address, which is nothing to tell.
	return otelpgx.RecordStats(a.pool, otelpgx.WithStatsAttributes(semconv.DBClientConnectionPoolName("checkout")))
}
