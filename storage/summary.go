package storage

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"example.com/checkout/storage/pg"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/money"
)

// A Span is how far a summary looks back. It includes the current period: this hour, today.
type Span string

// The spans of a summary.
const (
	SpanHours Span = "24h" // 24 hours, by hour
	SpanDays  Span = "30d" // 30 days, by day
)

// spans are the periods of each span. unit is PostgreSQL's name of one.
var spans = map[Span]struct {
	unit   string
	length time.Duration
	number int
}{SpanHours: {"hour", time.Hour, 24}, SpanDays: {"day", 24 * time.Hour, 30}}

// Summary counts a merchant's sessions, deliveries and payouts in one mode. Times are UTC. A
// session and its payment count in the period in which the session was created.
type Summary struct {
	Periods    []Period // of the span, oldest first, without gaps
	Today      Period   // since midnight
	Deliveries DeliveryHealth
	Failing    []FailingEndpoint
	Payouts    PayoutHealth
	Sessions   bool // there has ever been a session
}

// Period counts the sessions that were created in one hour or day.
type Period struct {
	From     time.Time
	Sessions map[checkout.Status]int
	// Paid adds up the completed sessions. A currency without one has no entry.
	Paid map[money.Currency]money.Amount
}

func newPeriod(from time.Time) Period {
	return Period{From: from, Sessions: map[checkout.Status]int{}, Paid: map[money.Currency]money.Amount{}}
}

// DeliveryHealth counts the deliveries of the last 24 hours. Each delivery counts once in the first six.
type DeliveryHealth struct {
	Delivered int
	Failed    int
	Pending   int // no attempt has ended yet
	Retrying  int // an attempt failed and another will follow
	Held      int // the delivery or its webhook is on hold
	Canceled  int

	First        int        // their first attempt has ended; without replayed deliveries
	FirstArrived int        // of First: it arrived
	Overdue      int        // of Pending and Retrying: the attempt is late by overdueMargin
	Waiting      *time.Time // creation time of the oldest in Pending and Retrying; nil when there is none
}

// add adds the counts of other deliveries.
func (h *DeliveryHealth) add(o DeliveryHealth) {
	h.Delivered, h.Failed, h.Pending = h.Delivered+o.Delivered, h.Failed+o.Failed, h.Pending+o.Pending
	h.Retrying, h.Held, h.Canceled = h.Retrying+o.Retrying, h.Held+o.Held, h.Canceled+o.Canceled
	h.First, h.FirstArrived, h.Overdue = h.First+o.First, h.FirstArrived+o.FirstArrived, h.Overdue+o.Overdue
	if o.Waiting != nil && (h.Waiting == nil || o.Waiting.Before(*h.Waiting)) {
		h.Waiting = o.Waiting
	}
}

// overdueMargin is how late an attempt may be on a busy day.
const overdueMargin = time.Minute

// failingAttempts is how many attempts in a row must fail before a registration counts as failing.
const failingAttempts = 3

// FailingEndpoint is a registration to which nothing has arrived since Since, although several attempts
// were made, or one that is marked as failing.
type FailingEndpoint struct {
	ID     string
	URL    string
	Held   bool
	Since  time.Time // start of the first of the failed attempts
	Oldest time.Time // creation time of the oldest of their deliveries
	Missed int       // deliveries without another attempt to come
}

// PayoutHealth counts the payouts of the last 24 hours.
type PayoutHealth struct{ Sent, Pending, Failed int }

// Summary counts the sessions of a span, and the deliveries and payouts of 24 hours, before now, in one
// round trip. The time in the ids limits the rows that PostgreSQL reads.
func (s *SessionReader) Summary(ctx context.Context, owner checkout.Owner, span Span, now time.Time) (Summary, error) {
	now = now.UTC()
	of := spans[span]
	got := Summary{Periods: periods(now.Truncate(of.length), of.length, of.number)}
	var batch pgx.Batch
	q := summaryQuery{&batch, owner.MerchantID, owner.Mode}
	q.sessions(of.unit, got.Periods)
	q.deliveries(now.Add(-24*time.Hour), &got)
	q.failing(&got)
	q.payouts(now.Add(-24*time.Hour), &got)
	if err := s.pool.SendBatch(ctx, &batch).Close(); err != nil {
		return Summary{}, pg.Wrap("summary", err)
	}
	got.Today = sumSince(now.Truncate(24*time.Hour), got.Periods)
	return got, nil
}

// sumSince adds up the periods that begin at from or later.
func sumSince(from time.Time, periods []Period) Period {
	sum := newPeriod(from)
	for _, p := range periods {
		if p.From.Before(from) {
			continue
		}
		for status, n := range p.Sessions {
			sum.Sessions[status] += n
		}
		for currency, amount := range p.Paid {
			sum.Paid[currency] += amount
		}
	}
	return sum
}

// periods returns n periods; the last one begins at last.
func periods(last time.Time, length time.Duration, n int) []Period {
	all := make([]Period, n)
	for i := range all {
		all[i] = newPeriod(last.Add(-length * time.Duration(n-1-i)))
	}
	return all
}

// summaryQuery collects the queries of a summary.
type summaryQuery struct {
	batch      *pgx.Batch
	merchantID string
	mode       checkout.Mode
}

// queue adds a query over the rows of a table since a time. It puts the conditions between head and tail.
func (q summaryQuery) queue(prefix, table string, since time.Time, head, tail string) *pgx.QueuedQuery {
	sql := fmt.Sprintf(`
		%[1]s
		WHERE %[2]s.merchant_id = $1 AND %[2]s.mode = $2 AND %[2]s.id >= $3
			AND %[2]s.created_at >= $4 %[3]s`, head, table, tail)
	return q.batch.Queue(sql, q.merchantID, q.mode, checkout.FirstID(prefix, since.Add(-checkout.ClockSkew)), since)
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
			currency money.Currency
			n        int
			sum      money.Amount
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

// deliveries counts by registration. Deliveries to a session's own URL have "" as their registration. The
// last attempts of a registration all failed when no delivery has arrived since the first of them.
func (q summaryQuery) deliveries(since time.Time, into *Summary) {
	q.queue(checkout.PrefixDelivery, "d", since, `
		WITH recent AS MATERIALIZED (
			SELECT d.id, CASE WHEN d.session_url THEN '' ELSE d.endpoint_id END AS endpoint_id, d.status, d.run,
				d.attempts, d.created_at, d.finished_at, coalesce(d.next_attempt_at, d.created_at) AS due,
				d.held OR (NOT d.session_url AND w.status = 'disabled') AS held,
				d.status = 'failed' OR d.status = 'pending' AND EXISTS (
					SELECT FROM webhook_attempt a WHERE a.delivery_id = d.id AND a.run = d.run AND a.duration_ms IS NOT NULL) AS tried
			FROM webhook_delivery d JOIN webhook_endpoint w ON w.id = d.endpoint_id`, fmt.Sprintf(`
		), counted AS (
			SELECT endpoint_id, max(finished_at) FILTER (WHERE status = 'delivered') AS arrived_at,
				count(*) FILTER (WHERE status = 'delivered') AS delivered,
				count(*) FILTER (WHERE status = 'failed') AS failed,
				count(*) FILTER (WHERE status = 'pending' AND NOT held AND NOT tried) AS pending,
				count(*) FILTER (WHERE status = 'pending' AND NOT held AND tried) AS retrying,
				count(*) FILTER (WHERE status = 'pending' AND held) AS held,
				count(*) FILTER (WHERE status = 'canceled') AS canceled,
				count(*) FILTER (WHERE run = 1 AND (status = 'delivered' OR tried)) AS first,
				count(*) FILTER (WHERE run = 1 AND status = 'delivered' AND attempts = 1) AS first_arrived,
				count(*) FILTER (WHERE status = 'pending' AND NOT held
					AND due < statement_timestamp() - interval '%d seconds') AS overdue,
				min(created_at) FILTER (WHERE status = 'pending' AND NOT held) AS waiting
			FROM recent GROUP BY 1
		), failing AS (
			SELECT r.endpoint_id, min(a.started_at) AS since, min(r.created_at) AS oldest
			FROM recent r JOIN counted c ON c.endpoint_id = r.endpoint_id
				JOIN webhook_attempt a ON a.delivery_id = r.id AND a.error_kind IS NOT NULL
					AND a.started_at > coalesce(c.arrived_at, '-infinity')
			WHERE r.tried AND r.endpoint_id <> '' GROUP BY 1 HAVING count(*) >= %d
		)
		SELECT c.delivered, c.failed, c.pending, c.retrying, c.held, c.canceled, c.first, c.first_arrived, c.overdue,
			c.waiting, w.id, w.url, w.status = 'disabled', f.since, f.oldest
		FROM counted c LEFT JOIN failing f ON f.endpoint_id = c.endpoint_id
			LEFT JOIN webhook_endpoint w ON w.id = f.endpoint_id AND w.deleted_at IS NULL
		ORDER BY w.url, w.id`, int(overdueMargin.Seconds()), failingAttempts)).Query(func(rows pgx.Rows) error {
		var (
			h             DeliveryHealth
			id, url       *string
			held          *bool
			since, oldest *time.Time
		)
		_, err := pgx.ForEachRow(rows, []any{
			&h.Delivered, &h.Failed, &h.Pending, &h.Retrying, &h.Held, &h.Canceled, &h.First, &h.FirstArrived, &h.Overdue,
			&h.Waiting, &id, &url, &held, &since, &oldest,
		}, func() error {
			into.Deliveries.add(h)
			if id != nil {
				into.Failing = append(into.Failing, FailingEndpoint{*id, *url, *held, *since, *oldest, h.Failed})
			}
			return nil
		})
		return err
	})
}

// failing adds the registrations that are marked as failing. They are named even when none of their deliveries is
// of the last day, such as on hold.
func (q summaryQuery) failing(into *Summary) {
	q.batch.Queue(`
		SELECT w.id, w.url, w.status = 'disabled', f.since FROM webhook_endpoint_failure f
		JOIN webhook_endpoint w ON w.id = f.endpoint_id
		WHERE w.merchant_id = $1 AND w.mode = $2 AND w.deleted_at IS NULL AND f.marked_at IS NOT NULL
		ORDER BY w.url, w.id`, q.merchantID, q.mode).Query(func(rows pgx.Rows) error {
		var e FailingEndpoint
		_, err := pgx.ForEachRow(rows, []any{&e.ID, &e.URL, &e.Held, &e.Since}, func() error {
			at := slices.IndexFunc(into.Failing, func(o FailingEndpoint) bool { return o.ID == e.ID })
			if at >= 0 {
				into.Failing[at].Since = e.Since
				return nil
			}
			e.Oldest = e.Since
			into.Failing = append(into.Failing, e)
			return nil
		})
		return err
	})
}

func (q summaryQuery) payouts(since time.Time, into *Summary) {
	q.queue(checkout.PrefixPayout, "p", since, `
		SELECT count(*) FILTER (WHERE p.status = 'sent'),
			count(*) FILTER (WHERE p.status = 'pending'),
			count(*) FILTER (WHERE p.status = 'failed'),
			EXISTS (SELECT FROM checkout_session WHERE merchant_id = $1 AND mode = $2)
		FROM payout p`, ``).QueryRow(func(row pgx.Row) error {
		return row.Scan(&into.Payouts.Sent, &into.Payouts.Pending, &into.Payouts.Failed, &into.Sessions)
	})
}
