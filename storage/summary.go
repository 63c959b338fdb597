package storage

import (
	"context"
	"fmt"
	"slices"
	"strings"
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
	of, yesterday := spans[span], now.Add(-24*time.Hour)
	got := Summary{Periods: periods(now.Truncate(of.length), of.length, of.number)}
	var (
		batch      pgx.Batch
		sessions   []countedSessions
		deliveries []countedDeliveries
		marked     []FailingEndpoint
		payouts    []countedPayouts
	)
	queueSince(&batch, &sessions, owner, checkout.PrefixSession, "s", got.Periods[0].From,
		fmt.Sprintf(sessionCounts, of.unit))
	queueSince(&batch, &deliveries, owner, checkout.PrefixDelivery, "d", yesterday, deliveryCounts)
	pg.Queue(&batch, &marked, markedEndpoints, owner.MerchantID, owner.Mode)
	queueSince(&batch, &payouts, owner, checkout.PrefixPayout, "p", yesterday, payoutCounts)
	if err := s.pool.SendBatch(ctx, &batch).Close(); err != nil { // fills all four
		return Summary{}, pg.Wrap("summary", err)
	}
	got.addSessions(sessions)
	got.addDeliveries(deliveries)
	got.addMarked(marked)
	got.Payouts, got.Sessions = payouts[0].PayoutHealth, payouts[0].Sessions
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

// queueSince queues a query over the rows of a table since a time. The condition stands for @rows in it.
func queueSince[T any](
	batch *pgx.Batch, into *[]T, owner checkout.Owner, prefix, table string, since time.Time, query string,
) {
	rows := strings.ReplaceAll("t.merchant_id = $1 AND t.mode = $2 AND t.id >= $3 AND t.created_at >= $4", "t.", table+".")
	pg.Queue(batch, into, strings.Replace(query, "@rows", rows, 1), owner.MerchantID, owner.Mode,
		checkout.FirstID(prefix, since.Add(-checkout.ClockSkew)), since)
}

// countedSessions are the sessions of a period, a status and a currency.
type countedSessions struct {
	From     time.Time
	Shown    checkout.Status
	Currency money.Currency
	Count    int
	Sum      money.Amount
}

// sessionCounts has %s for the length of a period: "hour" or "day".
const sessionCounts = `
	SELECT date_trunc('%s', s.created_at, 'UTC') AS from,
		CASE WHEN ` + pastItsTime + ` THEN 'expired' ELSE s.status END AS shown,
		s.currency, count(*) AS count, sum(s.amount)::bigint AS sum
	FROM checkout_session s WHERE @rows GROUP BY 1, 2, 3`

func (s *Summary) addSessions(all []countedSessions) {
	for _, of := range all {
		i := slices.IndexFunc(s.Periods, func(p Period) bool { return p.From.Equal(of.From) })
		if i < 0 { // PostgreSQL's clock is ahead: its period has not begun here
			continue
		}
		s.Periods[i].Sessions[of.Shown] += of.Count
		if of.Shown == checkout.StatusCompleted {
			s.Periods[i].Paid[of.Currency] += of.Sum
		}
	}
}

// countedDeliveries are the deliveries to a registration, which is named if it fails.
type countedDeliveries struct {
	DeliveryHealth
	ID, URL       *string
	Disabled      *bool
	Since, Oldest *time.Time
}

// deliveryCounts counts by registration. Deliveries to a session's own URL have "" as their registration. The
// last attempts of a registration all failed when no delivery has arrived since the first of them.
var deliveryCounts = fmt.Sprintf(`
	WITH recent AS MATERIALIZED (
		SELECT d.id, CASE WHEN d.session_url THEN '' ELSE d.endpoint_id END AS endpoint_id, d.status, d.run,
			d.attempts, d.created_at, d.finished_at, coalesce(d.next_attempt_at, d.created_at) AS due,
			d.held OR (NOT d.session_url AND w.status = 'disabled') AS held,
			d.status = 'failed' OR d.status = 'pending' AND EXISTS (
				SELECT FROM webhook_attempt a WHERE a.delivery_id = d.id AND a.run = d.run AND a.duration_ms IS NOT NULL) AS tried
		FROM webhook_delivery d JOIN webhook_endpoint w ON w.id = d.endpoint_id WHERE @rows
	), counted AS (
		SELECT endpoint_id, max(finished_at) FILTER (WHERE status = 'delivered') AS arrived_at,
			count(*) FILTER (WHERE status = 'delivered') AS delivered, count(*) FILTER (WHERE status = 'failed') AS failed,
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
		c.waiting, w.id, w.url, w.status = 'disabled' AS disabled, f.since, f.oldest
	FROM counted c LEFT JOIN failing f ON f.endpoint_id = c.endpoint_id
		LEFT JOIN webhook_endpoint w ON w.id = f.endpoint_id AND w.deleted_at IS NULL
	ORDER BY w.url, w.id`, int(overdueMargin.Seconds()), failingAttempts)

func (s *Summary) addDeliveries(all []countedDeliveries) {
	for _, of := range all {
		s.Deliveries.add(of.DeliveryHealth)
		if of.ID != nil {
			s.Failing = append(s.Failing, FailingEndpoint{*of.ID, *of.URL, *of.Disabled, *of.Since, *of.Oldest, of.Failed})
		}
	}
}

// markedEndpoints selects the registrations that are marked as failing. They are named even when none of their
// deliveries is of the last day, such as on hold.
const markedEndpoints = `
	SELECT w.id, w.url, w.status = 'disabled' AS held, f.since, f.since AS oldest, 0 AS missed
	FROM webhook_endpoint_failure f JOIN webhook_endpoint w ON w.id = f.endpoint_id
	WHERE w.merchant_id = $1 AND w.mode = $2 AND w.deleted_at IS NULL AND f.marked_at IS NOT NULL
	ORDER BY w.url, w.id`

func (s *Summary) addMarked(all []FailingEndpoint) {
	for _, e := range all {
		if i := slices.IndexFunc(s.Failing, func(o FailingEndpoint) bool { return o.ID == e.ID }); i >= 0 {
			s.Failing[i].Since = e.Since
			continue
		}
		s.Failing = append(s.Failing, e)
	}
}

// countedPayouts are the payouts, and whether the merchant has ever had a session.
type countedPayouts struct {
	PayoutHealth
	Sessions bool
}

const payoutCounts = `
	SELECT count(*) FILTER (WHERE p.status = 'sent') AS sent, count(*) FILTER (WHERE p.status = 'pending') AS pending,
		count(*) FILTER (WHERE p.status = 'failed') AS failed,
		EXISTS (SELECT FROM checkout_session WHERE merchant_id = $1 AND mode = $2) AS sessions
	FROM payout p WHERE @rows`
