package invariant

import (
	"cmp"
	"net/url"
	"slices"
	"strconv"
	"time"

	enumspb "go.temporal.io/api/enums/v1"

	"example.com/checkout/deploy/devstack"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/webhook"
)

// Facts is what the witnesses said.
type Facts struct {
	At time.Time // when PostgreSQL spoke, by its clock; what happened later is not judged

	// Schedule is the retry schedule of test deliveries; live ones keep
	// webhook.RetrySchedule.
	Schedule webhook.Schedule
	// Strict also calls an attempt that came too late a violation.
	Strict bool
	// How long PostgreSQL keeps finished deliveries and Temporal closed runs:
	// what is older may be gone.
	DeliveryRetention, RunRetention time.Duration

	Sessions     []Session
	Transactions []Transaction
	Charges      []Charge
	Payouts      []Payout
	KeptRequests []KeptRequest
	Constraints  []string // valid constraints and unique indexes of sessions and what belongs to them
	SessionRuns  []Run
	Histories    []History

	// What only who broke the service knows.
	Called bool // Calls are all the calls that there were
	Calls  []Call
	Rest   *Rest
	// Searched is in how many logs and tables it was looked for a canary, and Leaks
	// where one was that does not belong there.
	Searched int
	Leaks    []Leak

	Counted    map[string]Tally // by workflow type, what Temporal counts
	Events     []Event
	Endpoints  []Endpoint
	Deliveries []Delivery
	Runs       []Run
	Logged     bool // there is a receivers' log
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
	WebhookURL      string // of its session; "": the registrations get it
	SigningEndpoint string // whose secret signs for WebhookURL
}

// Endpoint is a row of the table webhook_endpoint.
type Endpoint struct {
	ID, MerchantID string
	Mode           checkout.Mode
	URL            string
	Events         []webhook.EventType
	OfSession      bool // only the secret of one session's webhook_url
	CreatedAt      time.Time
	ChangedAt      *time.Time // the last time; what it was before is not known
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
	HurriedAt               *time.Time // retry_now was asked for last
	CreatedAt               time.Time
	FinishedAt              *time.Time
	Attempts                []webhook.Attempt // by run and number, without what was answered

	// Moved: the row changed while Temporal was asked, so the two answers are
	// not of the same moment.
	Moved bool
	// version tells one state of the row from another.
	version string
}

// Times that measure how exact the witnesses are.
const (
	clockSkew = 50 * time.Millisecond // between PostgreSQL's clock, Temporal's and the receivers'
	// A registration is visible to an event a little after its time of
	// creation, when it is committed; an event's own time lies before the
	// moment at which its deliveries are chosen, by no more than a statement may take.
	commitTime  = 250 * time.Millisecond
	publishTime = 5 * time.Second
	// An attempt is noted before it is sent, and its duration counts from the
	// sending: on a link that passes nothing for a while, the answer of PostgreSQL may
	// take as long as the activity may.
	noteTime = webhook.AttemptTimeout
)

// world is the facts, indexed.
type world struct {
	*Facts
	sessions       map[string]*Session
	transactions   map[string]Transaction
	transactionsOf map[string][]Transaction // by session
	sessionRuns    map[string][]Run         // by session, oldest first
	callsOf        map[string][]Call        // by what they are about

	events     map[string]Event
	endpoints  map[string]Endpoint
	deliveries map[string]*Delivery
	ofEvent    map[string][]*Delivery
	runs       map[string][]Run     // by workflow id, oldest first
	listeners  map[string]time.Time // since when a receiver's log is kept, by its URL
	arrivals   []arrival            // that are to be judged, in the order of the log
	byAttempt  map[attemptKey][]arrival
}

// arrival is a request with the attempt that made it.
type arrival struct {
	devstack.LoggedRequest
	delivery *Delivery        // nil: no such row
	attempt  *webhook.Attempt // nil: none was noted before it came
}

type attemptKey struct {
	delivery    string
	run, number int
}

func newWorld(f *Facts) *world {
	w := &world{
		Facts: f, events: map[string]Event{}, endpoints: map[string]Endpoint{}, deliveries: map[string]*Delivery{},
		ofEvent: map[string][]*Delivery{}, runs: map[string][]Run{}, listeners: map[string]time.Time{}, byAttempt: map[attemptKey][]arrival{},
	}
	w.indexSessions()
	for _, e := range f.Events {
		w.events[e.ID] = e
	}
	for _, e := range f.Endpoints {
		w.endpoints[e.ID] = e
	}
	for i := range f.Deliveries {
		d := &f.Deliveries[i]
		w.deliveries[d.ID] = d
		w.ofEvent[d.EventID] = append(w.ofEvent[d.EventID], d)
	}
	for _, r := range f.Runs {
		w.runs[r.WorkflowID] = append(w.runs[r.WorkflowID], r)
	}
	for id, runs := range w.runs {
		slices.SortStableFunc(runs, Run.compare)
		w.runs[id] = joined(runs)
	}
	for _, r := range f.Requests {
		if r.Started {
			if since, ok := w.listeners[r.Listener]; !r.Canary && (!ok || r.At.Before(since)) {
				w.listeners[r.Listener] = r.At
			}
			continue
		}
		if r.At.After(f.At) {
			continue // PostgreSQL may not have known of it
		}
		a := arrival{LoggedRequest: r, delivery: w.deliveries[r.Delivery]}
		if a.delivery != nil && !r.Canary { // a canary's are nobody's: that they came is the violation
			a.attempt = a.delivery.attemptOf(r)
		}
		if a.attempt != nil {
			key := attemptKey{a.delivery.ID, a.attempt.Run, a.attempt.Number}
			w.byAttempt[key] = append(w.byAttempt[key], a)
		}
		w.arrivals = append(w.arrivals, a)
	}
	return w
}

func (w *world) indexSessions() {
	w.sessions, w.transactions, w.transactionsOf = map[string]*Session{}, map[string]Transaction{}, map[string][]Transaction{}
	w.sessionRuns, w.callsOf = map[string][]Run{}, map[string][]Call{}
	for i := range w.Sessions {
		w.sessions[w.Sessions[i].ID] = &w.Sessions[i]
	}
	for _, t := range w.Transactions {
		w.transactions[t.ID] = t
		w.transactionsOf[t.SessionID] = append(w.transactionsOf[t.SessionID], t)
	}
	for _, r := range w.SessionRuns {
		w.sessionRuns[r.WorkflowID] = append(w.sessionRuns[r.WorkflowID], r)
	}
	for _, runs := range w.sessionRuns {
		slices.SortStableFunc(runs, Run.compare)
	}
	for _, c := range w.Calls {
		if c.ID != "" {
			w.callsOf[c.ID] = append(w.callsOf[c.ID], c)
		}
	}
}

// attemptOf returns the attempt that made a request: the last run's with its
// number that began before it came.
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
	if before == nil {
		return about
	}
	return before
}

// ofRun returns the attempts of one run, by number.
func (d *Delivery) ofRun(run int) []webhook.Attempt {
	var of []webhook.Attempt
	for _, a := range d.Attempts {
		if a.Run == run {
			of = append(of, a)
		}
	}
	return of
}

// ended returns when an attempt was over; of one that did not finish, when it
// began.
func ended(a webhook.Attempt) time.Time { return a.StartedAt.Add(a.Duration) }

// retryDelay returns the delay after attempt n of a delivery.
func (w *world) retryDelay(d *Delivery, n int) time.Duration {
	s := w.Schedule
	if d.Mode.Live() || s == nil {
		s = webhook.RetrySchedule
	}
	delay, _ := s.RetryDelay(n) // 0 after the last
	return delay
}

// logged reports whether the log of the receiver that an attempt went to was
// kept then. A registration's address before it was changed is not known.
func (w *world) logged(d *Delivery, a webhook.Attempt) bool {
	since, ok := w.listeners[listenerOf(d.URL)]
	return ok && a.StartedAt.After(since) && w.addressKnown(d, a.StartedAt)
}

// addressKnown reports whether what was sent at t went to the delivery's
// address of today.
func (w *world) addressKnown(d *Delivery, t time.Time) bool {
	changed := w.endpoints[d.EndpointID].ChangedAt
	return d.SessionURL || changed == nil || t.After(changed.Add(webhook.AttemptTimeout))
}

// listenerOf returns the name under which a receiver logs what comes to address.
func listenerOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return u.Scheme + "://" + u.Host + u.Path
}

// lost reports whether attempts first to last of a run may have died with their
// worker before they were noted: the server then gives up each after a while, and
// waits for the retry policy's own back-off.
func lost(from, to time.Time, first, last int) bool {
	for n := first; n <= last; n++ {
		from = from.Add(webhook.AttemptTimeout)
		if n < webhook.MaxAttempts {
			from = from.Add(webhook.FallbackDelay(n))
		}
	}
	return !to.Before(from.Add(-time.Second))
}

// abandoned reports whether a run was ended from outside, so that its attempts
// say nothing about why.
func (r Run) abandoned() bool {
	return r.Status == enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED || r.Status == enumspb.WORKFLOW_EXECUTION_STATUS_CANCELED ||
		r.Result == string(webhook.DeliveryCanceled)
}

// joined makes one run of those that continued as new and what they continued as:
// together they are one run of the delivery's log.
func joined(runs []Run) []Run {
	var all []Run
	for _, r := range runs {
		if n := len(all); n > 0 && all[n-1].Status == enumspb.WORKFLOW_EXECUTION_STATUS_CONTINUED_AS_NEW {
			before := all[n-1]
			r.StartedAt, r.Parent = before.StartedAt, before.Parent
			r.Sent = r.Sent || before.Sent
			r.RetryNow = slices.Concat(before.RetryNow, r.RetryNow)
			all[n-1] = r
			continue
		}
		all = append(all, r)
	}
	return all
}

func compare(a, b string) int { return cmp.Compare(a, b) }
