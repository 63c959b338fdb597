package storage

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"example.com/checkout/workflows/checkout"
)

// How far a summary looks back. Both include the current period: this hour, today.
const (
	SummaryHours = 24
	SummaryDays  = 30
)

// Summary counts a merchant's sessions, deliveries and payouts in one mode. Times are UTC. A
// session and its payment count in the period in which the session was created.
type Summary struct {
	Hours      []Period // the last SummaryHours, oldest first, without gaps
	Days       []Period // the last SummaryDays, oldest first, without gaps; the last entry is today
	Deliveries DeliveryHealth
	Payouts    PayoutHealth
}

// Today returns the period since midnight, UTC.
func (s Summary) Today() Period { return s.Days[len(s.Days)-1] }

// Period counts the sessions that were created in one hour or day.
type Period struct {
	From     time.Time
	Sessions map[checkout.Status]int
	// Paid adds up the completed sessions. A currency without one has no entry.
	Paid map[checkout.Currency]checkout.Amount
}

// DeliveryHealth counts the deliveries of the last 24 hours. Each delivery counts once.
type DeliveryHealth struct {
	Delivered int
	Failed    int
	Pending   int // no attempt has ended yet
	Retrying  int // an attempt failed and another will follow
	Held      int // the delivery or its webhook is on hold
	Canceled  int
	Waiting   *time.Time // creation time of the oldest in Retrying; nil when there is none
}

// PayoutHealth counts the payouts of the last 24 hours.
type PayoutHealth struct{ Sent, Pending, Failed int }

// Summary counts the last 24 hours and 30 days before now, in one round trip. The time in the ids
// limits the rows that PostgreSQL reads.
func (s *Store) Summary(ctx context.Context, owner checkout.Owner, now time.Time) (Summary, error) {
	now = now.UTC()
	hour, day := now.Truncate(time.Hour), now.Truncate(24*time.Hour)
	got := Summary{
		Hours: periods(hour, time.Hour, SummaryHours),
		Days:  periods(day, 24*time.Hour, SummaryDays),
	}
	var batch pgx.Batch
	q := summaryQuery{&batch, owner.MerchantID, owner.Mode}
	q.sessions("hour", got.Hours)
	q.sessions("day", got.Days)
	q.deliveries(now.Add(-24*time.Hour), &got.Deliveries)
	q.payouts(now.Add(-24*time.Hour), &got.Payouts)
	if err := s.pool.SendBatch(ctx, &batch).Close(); err != nil {
		return Summary{}, fmt.Errorf("summary: %w", err)
	}
	return got, nil
}

// periods returns n periods; the last one begins at last.
func periods(last time.Time, length time.Duration, n int) []Period {
	all := make([]Period, n)
	for i := range all {
		all[i] = Period{
			From:     last.Add(-length * time.Duration(n-1-i)),
			Sessions: map[checkout.Status]int{},
			Paid:     map[checkout.Currency]checkout.Amount{},
		}
	}
	return all
}

// summaryQuery collects the queries of a summary.
type summaryQuery struct {
	batch      *pgx.Batch
	merchantID string
	mode       checkout.Mode
}

// queue adds a query over the rows of a table since a time. It puts the conditions between head and
// tail.
func (q summaryQuery) queue(
	prefix, table string, since time.Time, head, tail string,
) *pgx.QueuedQuery {
	sql := fmt.Sprintf(`
		%[1]s
		WHERE %[2]s.merchant_id = $1 AND %[2]s.mode = $2 AND %[2]s.id >= $3
			AND %[2]s.created_at >= $4 %[3]s`, head, table, tail)
	return q.batch.Queue(sql, q.merchantID, q.mode, checkout.FirstID(prefix, since.Add(-clockSkew)),
		since)
}

// sessions fills in the periods. unit is the length of each: "hour" or "day".
func (q summaryQuery) sessions(unit string, into []Period) {
	at := map[int64]*Period{}
	for i := range into {
		at[into[i].From.Unix()] = &into[i]
	}

	q.queue(checkout.PrefixSession, "s", into[0].From, `
		SELECT date_trunc('`+unit+`', s.created_at, 'UTC'),
			CASE WHEN `+pastItsTime+` THEN 'expired' ELSE s.status END AS shown,
			s.currency, count(*), sum(s.amount)::bigint
		FROM checkout_session s`, `GROUP BY 1, 2, 3`).Query(func(rows pgx.Rows) error {
		var (
			from     time.Time
			status   checkout.Status
			currency checkout.Currency
			n        int
			sum      checkout.Amount
		)

		_, err := pgx.ForEachRow(rows, []any{&from, &status, &currency, &n, &sum}, func() error {
			p := at[from.Unix()]
			if p == nil { // PostgreSQL's clock is ahead: its period has not begun here
				return nil
			}
			p.Sessions[status] += n
			if status == checkout.StatusCompleted {
				p.Paid[currency] += sum
			}
			return nil
		})
		return err
	})
}

func (q summaryQuery) deliveries(since time.Time, into *DeliveryHealth) {
	q.queue(checkout.PrefixDelivery, "d", since, `
		SELECT count(*) FILTER (WHERE status = 'delivered'),
			count(*) FILTER (WHERE status = 'failed'), count(*) FILTER (WHERE status = 'canceled'),
			count(*) FILTER (WHERE status = 'pending' AND held),
				count(*) FILTER (WHERE status = 'pending' AND NOT held AND tried),
			count(*) FILTER (WHERE status = 'pending' AND NOT held AND NOT tried),
				min(created_at) FILTER (WHERE status = 'pending' AND NOT held AND tried)
		FROM (
			SELECT d.status, d.created_at, d.held
				OR (NOT d.session_url AND w.status = 'disabled') AS held, d.status = 'pending'
				AND EXISTS (
				SELECT FROM webhook_attempt a WHERE a.delivery_id = d.id AND a.run = d.run
					AND a.duration_ms IS NOT NULL) AS tried
			FROM webhook_delivery d JOIN webhook_endpoint w ON w.id = d.endpoint_id`,
		`) x`).QueryRow(func(row pgx.Row) error {
		return row.Scan(&into.Delivered, &into.Failed, &into.Canceled, &into.Held, &into.Retrying,
			&into.Pending, &into.Waiting)
	})
}

func (q summaryQuery) payouts(since time.Time, into *PayoutHealth) {
	q.queue(checkout.PrefixPayout, "p", since, `
		SELECT count(*) FILTER (WHERE p.status = 'sent'),
			count(*) FILTER (WHERE p.status = 'pending'),
			count(*) FILTER (WHERE p.status = 'failed')
		FROM payout p`, ``).QueryRow(func(row pgx.Row) error {
		return row.Scan(&into.Sent, &into.Pending, &into.Failed)
	})
}
