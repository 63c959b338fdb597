package invariant

import (
	"cmp"
	"net/url"
	"slices"
	"strconv"
	"time"

	"example.com/checkout/deploy/standin/devstack"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/webhook"
)

// Facts are the data of all witnesses.
type Facts struct {
	At time.Time // time of PostgreSQL's snapshot, by its clock; later events are not judged

	// Schedule is the retry schedule of test deliveries; live ones keep
	// webhook.RetrySchedule.
	Schedule webhook.Schedule
	// How long PostgreSQL keeps finished deliveries and Temporal closed runs. Older ones may be
	// gone.
	DeliveryRetention, RunRetention time.Duration

	Sessions     []*Session
	Transactions []Transaction
	Charges      []Charge
	Payouts      []Payout
	KeptRequests []KeptRequest
	Balances     []Balance
	Refunds      []Refund
	Verdicts     map[int][]Verdict // by the number of their invariant
	Constraints  []string          // valid constraints and unique indexes of sessions and what belongs to them
	Histories    []History

	Ledger     []LedgerBalance // of live mode
	Unbalanced []string        // ledger entries whose postings do not add up to 0, in words
	Transfers  []Transfer      // of live payouts, by nonce
	Live       *Live           // nil: nobody says what happened outside

	// Facts that only the chaos run knows.
	Called bool // Calls holds every call that was made
	Calls  []Call
	Told   []Statement // at rest
	Rest   *Rest
	// Searched is the number of logs and tables that were searched for canaries. Leaks lists the
	// canaries in wrong places.
	Searched int
	Leaks    []Leak

	Counted    map[string]Tally // Temporal's counts, by workflow type
	Events     []Event
	Endpoints  []Endpoint
	Deliveries []*Delivery
	Runs       []Run // of sessions and deliveries
	Logged     bool  // there is a receivers' log
	Requests   []devstack.LoggedRequest
}

// Event is a row of the table event.
type Event struct {
	ID, MerchantID  string
	Mode            checkout.Mode
	Type            webhook.EventType
	SubjectID       string
	SessionID       string // "": no session caused it
	CreatedAt       time.Time
	BodySHA256      string // hexadecimal
	WebhookURL      string // webhook_url of its session; "": the event goes to the registrations
	SigningEndpoint string // the endpoint whose secret signs for WebhookURL
}

// Endpoint is a row of the table webhook_endpoint.
type Endpoint struct {
	ID, MerchantID string
	Mode           checkout.Mode
	URL            string
	Events         []webhook.EventType
	OfSession      bool // it only holds the secret of one session's webhook_url
	CreatedAt      time.Time
	ChangedAt      *time.Time // the last change; the earlier values are not known
	DeletedAt      *time.Time
}

// Delivery is a row of the table webhook_delivery with its attempts.
type Delivery struct {
	ID, EventID, MerchantID string
	Mode                    checkout.Mode
	EndpointID, URL         string
	SessionURL              bool // URL is a session's own
	Status                  webhook.DeliveryStatus
	Run                     int
	HurriedAt               *time.Time // the last request for retry_now
	CreatedAt               time.Time
	FinishedAt              *time.Time
	Attempts                []webhook.Attempt `db:"-"` // by run and number, without the answers' bodies

	// Moved says that the row changed while Gather read Temporal, so the two do not describe the
	// same moment.
	Moved bool `db:"-"`
	// Version changes with every change of the row.
	Version string
}

// Tolerances of the witnesses.
const (
	clockSkew = 50 * time.Millisecond // between PostgreSQL's clock, Temporal's and the receivers'
	// A registration becomes visible when it is committed, a little after its time of creation. An
	// event's deliveries are chosen after the event's time, later by at most the time-out of a
	// statement.
	commitTime  = 250 * time.Millisecond
	publishTime = 5 * time.Second
	// An attempt is noted before it is sent, but its duration counts from the sending. On a broken
	// link, PostgreSQL's answer may take as long as the activity may.
	noteTime = webhook.AttemptTimeout
)

// world is Facts with indexes.
type world struct {
	*Facts
	sessions       map[string]*Session
	transactions   map[string]Transaction
	transactionsOf map[string][]Transaction // by session
	callsOf        map[string][]Call        // by the id in the call
	transferOf     map[string]Transfer      // by the hash of each version

	events     map[string]Event
	endpoints  map[string]Endpoint
	deliveries map[string]*Delivery
	ofEvent    map[string][]*Delivery
	runs       map[string][]Run     // by workflow id, oldest first
	listeners  map[string]time.Time // start of each receiver's log, by the receiver's URL
	arrivals   []arrival            // requests to judge, in the order of the log
	byAttempt  map[attemptKey][]arrival
}

// arrival is a request with the attempt that made it.
type arrival struct {
	devstack.LoggedRequest
	delivery *Delivery        // nil: no row has its id
	attempt  *webhook.Attempt // nil: no attempt was noted before the request came
}

type attemptKey struct {
	delivery    string
	run, number int
}

func newWorld(f *Facts) *world {
	w := &world{
		Facts:          f,
		sessions:       by(f.Sessions, func(s *Session) string { return s.ID }),
		transactions:   by(f.Transactions, func(t Transaction) string { return t.ID }),
		transactionsOf: grouped(f.Transactions, func(t Transaction) string { return t.SessionID }),
		callsOf:        grouped(f.Calls, func(c Call) string { return c.ID }),
		transferOf:     map[string]Transfer{},
		events:         by(f.Events, func(e Event) string { return e.ID }),
		endpoints:      by(f.Endpoints, func(e Endpoint) string { return e.ID }),
		deliveries:     by(f.Deliveries, func(d *Delivery) string { return d.ID }),
		ofEvent:        grouped(f.Deliveries, func(d *Delivery) string { return d.EventID }),
		runs:           grouped(f.Runs, func(r Run) string { return r.WorkflowID }),
		listeners:      map[string]time.Time{},
		byAttempt:      map[attemptKey][]arrival{},
	}
	delete(w.callsOf, "")
	for _, t := range f.Transfers {
		for _, hash := range t.Versions {
			w.transferOf[hash] = t
		}
	}
	for id, runs := range w.runs {
		slices.SortStableFunc(runs, Run.compare)
		w.runs[id] = joined(runs)
	}
	w.indexRequests()
	return w
}

func by[T any](items []T, key func(T) string) map[string]T {
	found := map[string]T{}
	for _, item := range items {
		found[key(item)] = item
	}
	return found
}

// grouped returns the items of each key, in their order.
func grouped[T any](items []T, key func(T) string) map[string][]T {
	found := map[string][]T{}
	for _, item := range items {
		found[key(item)] = append(found[key(item)], item)
	}
	return found
}

// count returns how many of the items are so.
func count[T any](items []T, is func(T) bool) (n int) {
	for _, item := range items {
		if is(item) {
			n++
		}
	}
	return n
}

func (w *world) indexRequests() {
	for _, r := range w.Requests {
		if r.Started {
			if since, ok := w.listeners[r.Listener]; !r.Canary && (!ok || r.At.Before(since)) {
				w.listeners[r.Listener] = r.At
			}
			continue
		}
		if r.At.After(w.At) {
			continue // it may have come after PostgreSQL's snapshot
		}
		a := arrival{LoggedRequest: r, delivery: w.deliveries[r.Delivery]}
		if a.delivery != nil && !r.Canary { // the arrival at a canary is itself the violation
			a.attempt = a.delivery.attemptOf(r)
		}
		if a.attempt != nil {
			key := attemptKey{a.delivery.ID, a.attempt.Run, a.attempt.Number}
			w.byAttempt[key] = append(w.byAttempt[key], a)
		}
		w.arrivals = append(w.arrivals, a)
	}
}

// attemptOf returns the attempt that made a request: the newest attempt with the request's number
// that began before the request came.
func (d *Delivery) attemptOf(r devstack.LoggedRequest) *webhook.Attempt {
	number, err := strconv.Atoi(r.Attempt)
	if err != nil {
		return nil
	}
	var before, about *webhook.Attempt
	for i := range d.Attempts {
		a := &d.Attempts[i]
		switch {
		case a.Number != number:
		case !a.StartedAt.After(r.At):
			before = a
		case !a.StartedAt.After(r.At.Add(clockSkew)) && about == nil:
			about = a // by its clock
		}
	}
	return cmp.Or(before, about)
}

func (d *Delivery) ofRun(run int) []webhook.Attempt {
	return slices.DeleteFunc(slices.Clone(d.Attempts), func(a webhook.Attempt) bool { return a.Run != run })
}

// ended returns the time when an attempt ended; for an unfinished one, the time when it began.
func ended(a webhook.Attempt) time.Time { return a.StartedAt.Add(a.Duration) }

func (w *world) retryDelay(d *Delivery, n int) time.Duration {
	s := w.Schedule
	if d.Mode.Live() || s == nil {
		s = webhook.RetrySchedule
	}
	delay, _ := s.RetryDelay(n) // 0 after the last
	return delay
}

// logged reports whether the attempt's receiver kept a log at that time. It is false if the
// registration's address has changed since, because the earlier address is not known.
func (w *world) logged(d *Delivery, a webhook.Attempt) bool {
	since, ok := w.listeners[listenerOf(d.URL)]
	return ok && a.StartedAt.After(since) && w.addressKnown(d, a.StartedAt)
}

// addressKnown reports whether a request at t went to the delivery's present address.
func (w *world) addressKnown(d *Delivery, t time.Time) bool {
	changed := w.endpoints[d.EndpointID].ChangedAt
	return d.SessionURL || changed == nil || t.After(changed.Add(webhook.AttemptTimeout))
}

// listenerOf returns the name under which a receiver logs requests to address.
func listenerOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return u.Scheme + "://" + u.Host + u.Path
}

// lost reports whether the attempts first to last of a run may have died with their worker before
// they were noted. Temporal then gives up each attempt after its time-out and waits for the retry
// policy's own back-off.
func lost(from, to time.Time, first, last int) bool {
	for n := first; n <= last; n++ {
		from = from.Add(webhook.AttemptTimeout)
		if n < webhook.MaxAttempts {
			from = from.Add(webhook.FallbackDelay(n))
		}
	}
	return !to.Before(from.Add(-time.Second))
}

// rowless returns the last run of each workflow of a type that has no row, by its id.
func (w *world) rowless(workflowType string) map[string]Run {
	last := map[string]Run{}
	for id, runs := range w.runs {
		if runs[0].Type == workflowType && w.sessions[id] == nil && w.deliveries[id] == nil {
			last[id] = runs[len(runs)-1]
		}
	}
	return last
}
