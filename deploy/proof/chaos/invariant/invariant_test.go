package invariant

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"

	"example.com/checkout/deploy/standin/devstack"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/contract"
	"example.com/checkout/workflows/webhook"
)

var (
	noon    = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	address = "http://127.0.0.1:9/webhook"
)

// newFacts returns a service at rest. One hour ago, two deliveries to the one registration ended,
// on the real schedule: whd_ok succeeded at the second attempt, and whd_bad failed after six. There
// was no retry_now.
func newFacts() *Facts {
	f := &Facts{
		At: noon.Add(48 * time.Hour), DeliveryRetention: 720 * time.Hour, RunRetention: 168 * time.Hour, Logged: true,
		Endpoints: []Endpoint{{
			ID: "wh_1", MerchantID: "mer_1", Mode: checkout.ModeTest, URL: address, CreatedAt: noon.Add(-time.Hour),
			Events: []webhook.EventType{webhook.CheckoutCompleted, webhook.CheckoutFailed},
		}},
		Requests: []devstack.LoggedRequest{{At: noon.Add(-time.Hour), Listener: address, Started: true}},
	}
	f.event("evt_ok", webhook.CheckoutCompleted)
	f.delivery("whd_ok", "evt_ok", webhook.DeliveryDelivered)
	f.attempt("whd_ok", 1, 1, noon, 500)
	f.attempt("whd_ok", 1, 2, noon.Add(30200*time.Millisecond), 200)
	f.run("whd_ok", noon, completed)
	f.event("evt_bad", webhook.CheckoutFailed)
	f.delivery("whd_bad", "evt_bad", webhook.DeliveryFailed)
	start := noon
	for n := 1; n <= 6; n++ {
		f.attempt("whd_bad", 1, n, start, 500)
		if n < 6 {
			start = start.Add(100*time.Millisecond + []time.Duration{30 * time.Second, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 12 * time.Hour}[n-1])
		}
	}
	f.of("whd_bad").FinishedAt = new(start.Add(time.Second))
	f.run("whd_bad", noon, failed)
	f.addSessions()
	f.addLive()
	f.addBalances()
	return f
}

func (f *Facts) event(id string, typ webhook.EventType) {
	f.Events = append(f.Events, Event{
		ID: id, MerchantID: "mer_1", Mode: checkout.ModeTest, Type: typ, SubjectID: "txn_" + id, SessionID: "cs_1", CreatedAt: noon, BodySHA256: "sha of " + id,
	})
}

func (f *Facts) eventOf(id string) *Event {
	return &f.Events[slices.IndexFunc(f.Events, func(e Event) bool { return e.ID == id })]
}

func (f *Facts) delivery(id, event string, status webhook.DeliveryStatus) {
	d := &Delivery{
		ID: id, EventID: event, MerchantID: "mer_1", Mode: checkout.ModeTest, EndpointID: "wh_1", URL: address, Status: status, Run: 1, CreatedAt: noon,
	}
	if status != webhook.DeliveryPending {
		d.FinishedAt = new(noon.Add(time.Minute))
	}
	f.Deliveries = append(f.Deliveries, d)
}

func (f *Facts) of(id string) *Delivery {
	return f.Deliveries[slices.IndexFunc(f.Deliveries, func(d *Delivery) bool { return d.ID == id })]
}

// attempt adds an attempt of 100 ms with the answer status, and its request.
func (f *Facts) attempt(id string, run, number int, at time.Time, status int) {
	d := f.of(id)
	a := webhook.Attempt{Run: run, Number: number, StartedAt: at, Finished: true, Duration: 100 * time.Millisecond, StatusCode: status}
	if status != http.StatusOK {
		a.ErrorKind = webhook.ErrorHTTP
	}
	d.Attempts = append(d.Attempts, a)
	e := f.eventOf(d.EventID)
	f.Requests = append(f.Requests, devstack.LoggedRequest{
		At: at.Add(10 * time.Millisecond), Listener: d.URL, Method: http.MethodPost, Delivery: id, Attempt: strconv.Itoa(number), HeaderEvent: e.ID, EventID: e.ID,
		Type: string(e.Type), T: at.Unix(), SignatureOK: true, BodySHA256: e.BodySHA256, Status: status, AnsweredAt: new(at.Add(50 * time.Millisecond)),
	})
}

// attemptOf and requestOf return an attempt of run 1 and its request.
func (f *Facts) attemptOf(id string, number int) *webhook.Attempt {
	return &f.of(id).Attempts[number-1]
}

func (f *Facts) requestOf(id string, number int) *devstack.LoggedRequest {
	return &f.Requests[slices.IndexFunc(f.Requests, func(r devstack.LoggedRequest) bool { return r.Delivery == id && r.Attempt == strconv.Itoa(number) })]
}

// unlog removes the request of an attempt from the log.
func (f *Facts) unlog(id string, number int) {
	f.Requests = slices.DeleteFunc(f.Requests, func(r devstack.LoggedRequest) bool { return r.Delivery == id && r.Attempt == strconv.Itoa(number) })
}

// removeAttempt removes an attempt and its request.
func (f *Facts) removeAttempt(id string, number int) {
	f.of(id).Attempts = slices.DeleteFunc(f.of(id).Attempts, func(a webhook.Attempt) bool { return a.Number == number })
	f.unlog(id, number)
}

// shift moves the attempts with at least that number, and their requests.
func (f *Facts) shift(id string, number int, by time.Duration) {
	for i := range f.of(id).Attempts {
		a := &f.of(id).Attempts[i]
		if a.Number < number {
			continue
		}
		r := f.requestOf(id, a.Number)
		a.StartedAt, r.At, r.AnsweredAt = a.StartedAt.Add(by), r.At.Add(by), new(r.AnsweredAt.Add(by))
		r.T = r.At.Unix()
	}
}

// neverFinished makes the worker die in an attempt.
func (f *Facts) neverFinished(id string, number int) {
	a := f.attemptOf(id, number)
	a.Finished, a.Duration, a.StatusCode, a.ErrorKind = false, 0, 0, ""
	f.requestOf(id, number).AnsweredAt = nil
}

func (f *Facts) run(id string, at time.Time, status enumspb.WorkflowExecutionStatus) {
	r := Run{Type: contract.TypeWebhookDelivery, WorkflowID: id, RunID: fmt.Sprint("run-", len(f.Runs)), Status: status, StartedAt: at, Last: true}
	if status != running {
		r.ClosedAt = at.Add(time.Hour)
	}
	switch status {
	case completed:
		r.Result = string(webhook.DeliveryDelivered)
	case failed:
		r.Failure = "DeliveryPermanentlyFailed"
	}
	for i := range f.Runs {
		f.Runs[i].Last = f.Runs[i].Last && f.Runs[i].WorkflowID != id
	}
	f.Runs = append(f.Runs, r)
}

func (f *Facts) lastRun(id string) *Run {
	return &f.Runs[slices.IndexFunc(f.Runs, func(r Run) bool { return r.WorkflowID == id && r.Last })]
}

// removeRun removes all runs of an id.
func (f *Facts) removeRun(id string) {
	f.Runs = slices.DeleteFunc(f.Runs, func(r Run) bool { return r.WorkflowID == id })
}

// endpoint adds a registration of the first one's merchant, mode, address and age, unless e has others.
func (f *Facts) endpoint(e Endpoint) {
	e.ID, e.MerchantID, e.Mode = cmp.Or(e.ID, "wh_2"), cmp.Or(e.MerchantID, "mer_1"), cmp.Or(e.Mode, checkout.ModeTest)
	e.URL, e.CreatedAt = address, cmp.Or(e.CreatedAt, noon.Add(-time.Hour))
	if e.Events == nil {
		e.Events = webhook.EventTypes
	}
	f.Endpoints = append(f.Endpoints, e)
}

func registered(e Endpoint) func(*Facts) { return func(f *Facts) { f.endpoint(e) } }

// foundByReconcile lets Reconcile start whd_ok at noon, some time after its session's run closed.
func (f *Facts) foundByReconcile(closed time.Duration) {
	f.lastRun("whd_ok").Parent, f.lastRun("cs_1").ClosedAt = "reconcile-2026-01-01T00:00:00Z", noon.Add(closed)
}

// hurryTwice lets two attempts of whd_bad come a minute early. The row has the wish for the second one.
func (f *Facts) hurryTwice() {
	f.shift("whd_bad", 3, -time.Minute)
	f.shift("whd_bad", 4, -time.Minute)
	f.of("whd_bad").HurriedAt = new(f.attemptOf("whd_bad", 4).StartedAt.Add(-time.Second))
}

// requestAgain adds a request like the first one of whd_ok.
func (f *Facts) requestAgain(change func(*devstack.LoggedRequest)) {
	r := *f.requestOf("whd_ok", 1)
	change(&r)
	f.Requests = append(f.Requests, r)
}

// deliverLive makes whd_bad a delivery of live mode, of no session.
func (f *Facts) deliverLive() {
	f.eventOf("evt_bad").Mode, f.of("whd_bad").Mode, f.eventOf("evt_bad").SessionID = checkout.ModeLive, checkout.ModeLive, ""
	f.endpoint(Endpoint{ID: "wh_live", Mode: checkout.ModeLive})
	f.of("whd_bad").EndpointID = "wh_live"
}

type brokenCase struct {
	name   string
	change func(f *Facts)
	want   string // violations as "number id", sorted; "" marks an allowed change
}

// TestCheck_NamesExactlyWhatIsBroken changes a correct service in each case.
func TestCheck_NamesExactlyWhatIsBroken(t *testing.T) {
	t.Parallel()
	for _, c := range append([]brokenCase{
		{"everything is in order", func(*Facts) {}, ""},

		// 6
		{"6: a registration got nothing", registered(Endpoint{}), "6 evt_bad, 6 evt_ok"},
		{"6: one that was deleted later had to", registered(Endpoint{DeletedAt: new(noon.Add(time.Minute))}), "6 evt_bad, 6 evt_ok"},
		{"6: one that was changed before had to", registered(Endpoint{ChangedAt: new(noon.Add(-time.Minute))}), "6 evt_bad, 6 evt_ok"},
		{"6: a registration that was not there got one", func(f *Facts) { f.Endpoints[0].CreatedAt = noon.Add(time.Minute) }, "6 evt_bad, 6 evt_ok"},
		{"6: one that does not list the type got it", func(f *Facts) { f.Endpoints[0].Events = []webhook.EventType{webhook.CheckoutCompleted} }, "6 evt_bad"},
		{"6: another merchant's got it", func(f *Facts) { f.eventOf("evt_ok").MerchantID = "mer_2" }, "18 evt_ok, 6 evt_ok"},
		{"6: the same registration got it twice", func(f *Facts) {
			f.delivery("whd_two", "evt_ok", webhook.DeliveryPending)
			f.of("whd_two").Run = 0
			f.run("whd_two", noon, running)
			f.lastRun("whd_two").Unsent = true
		}, "6 evt_ok"},
		{"6: an opt-in event of a session with an address goes to no registration that lists others", func(f *Facts) {
			f.Endpoints[0].Events = webhook.EventTypes[:5]
			f.event("evt_refund", webhook.RefundSucceeded)
			f.eventOf("evt_refund").WebhookURL = "http://127.0.0.1:1/"
		}, ""},
		{"6: the session's own address is not where it went", func(f *Facts) { f.eventOf("evt_ok").WebhookURL = "http://127.0.0.1:1/" }, "6 evt_ok"},
		{"6: a test event went to two", func(f *Facts) {
			for _, id := range []string{"wh_2", "wh_3"} {
				f.endpoint(Endpoint{ID: id, CreatedAt: noon.Add(time.Minute)})
			}
			f.event("evt_test", webhook.MerchantUpdated)
			f.eventOf("evt_test").SubjectID, f.eventOf("evt_test").SessionID = "test_1", ""
			for i, id := range []string{"wh_2", "wh_3"} {
				d := fmt.Sprint("whd_test", i)
				f.delivery(d, "evt_test", webhook.DeliveryPending)
				f.of(d).EndpointID, f.of(d).Run = id, 0
				f.run(d, noon, running)
				f.lastRun(d).Unsent = true
			}
		}, "6 evt_test"},
		{"6: an event that is older than the log may have lost some", func(f *Facts) {
			f.endpoint(Endpoint{})
			f.DeliveryRetention = 24 * time.Hour
		}, ""},

		// 7
		{"7: a delivery without a workflow", func(f *Facts) { f.removeRun("whd_ok") }, "7 whd_ok"},
		{"7: whose history may be gone", func(f *Facts) { f.Runs, f.RunRetention = nil, 24*time.Hour }, ""},
		{"7: a workflow without a row", func(f *Facts) { f.run("whd_x", noon, failed) }, "7 whd_x"},
		{"7: whose row may be gone", func(f *Facts) { f.run("whd_x", noon, failed); f.DeliveryRetention = 24 * time.Hour }, ""},
		{"7: a run that the row does not count", func(f *Facts) { f.run("whd_ok", noon.Add(time.Hour), completed) }, "7 whd_ok"},
		{"7: one that continued as new is one with what it continued as", func(f *Facts) {
			f.Runs = slices.Insert(f.Runs, 0, Run{Type: contract.TypeWebhookDelivery, WorkflowID: "whd_ok", RunID: "before", StartedAt: noon.Add(-time.Second), Status: continued})
		}, ""},
		{"7: one whose history shows no attempt is not counted", func(f *Facts) {
			f.run("whd_ok", noon.Add(time.Hour), completed)
			f.lastRun("whd_ok").Unsent = true
		}, ""},
		{"7: a replay that Temporal does not know", func(f *Facts) {
			f.of("whd_bad").Run = 2
			for n := 1; n <= 6; n++ {
				f.attempt("whd_bad", 2, n, noon.Add(20*time.Hour+time.Duration(n)*13*time.Hour), 500)
			}
			f.At = f.At.Add(100 * time.Hour)
		}, "7 whd_bad"},
		{"7: the attempts began anew in the same run: a reset of the activity", func(f *Facts) {
			f.of("whd_ok").Run = 2
			f.of("whd_ok").Attempts[1].Run, f.of("whd_ok").Attempts[1].Number = 2, 1
			f.requestOf("whd_ok", 2).Attempt = "1"
		}, ""},
		{"7: deleted before it was started", func(f *Facts) {
			f.Endpoints[0].DeletedAt = new(noon.Add(time.Minute))
			f.event("evt_2", webhook.CheckoutFailed)
			f.delivery("whd_2", "evt_2", webhook.DeliveryCanceled)
			f.of("whd_2").Run = 0
		}, ""},

		// 8
		{"8: the run goes on", func(f *Facts) { f.lastRun("whd_ok").Status = running }, "8 whd_ok"},
		{"8: the run goes on, because the report of the delivery was lost", func(f *Facts) {
			f.lastRun("whd_ok").Status, f.lastRun("whd_ok").ReportLost = running, true
		}, ""},
		{"8: the run failed otherwise", func(f *Facts) { f.lastRun("whd_bad").Failure = "PanicError" }, "8 whd_bad"},
		{"8: the run timed out", func(f *Facts) { f.lastRun("whd_bad").Status = enumspb.WORKFLOW_EXECUTION_STATUS_TIMED_OUT }, "8 whd_bad"},
		{"8: the run was terminated", func(f *Facts) { f.lastRun("whd_ok").Status = terminated }, "8 whd_ok"},
		{"8: the run says canceled", func(f *Facts) { f.lastRun("whd_ok").Result = string(webhook.DeliveryCanceled) }, "8 whd_ok"},
		{"8: the row is pending, the run over", func(f *Facts) { f.of("whd_ok").Status = webhook.DeliveryPending }, "8 whd_ok"},
		{"8: nothing is said about a row that moved", func(f *Facts) { f.of("whd_ok").Status, f.of("whd_ok").Moved = webhook.DeliveryPending, true }, ""},
		{"8: terminated, and then its registration was deleted", func(f *Facts) {
			f.of("whd_ok").Status, f.lastRun("whd_ok").Status = webhook.DeliveryCanceled, terminated
			f.Endpoints[0].DeletedAt = new(noon.Add(time.Hour))
		}, ""},

		// 9
		{"9: delivered, and nobody saw it", func(f *Facts) { f.unlog("whd_ok", 2) }, "9 whd_ok"},
		{"9: the receiver said 500", func(f *Facts) { f.requestOf("whd_ok", 2).Status = 500 }, "9 whd_ok"},
		{"9: the answer was not taken", func(f *Facts) { f.requestOf("whd_ok", 2).AnsweredAt = nil }, "9 whd_ok"},
		{"9: failed, and one was accepted", func(f *Facts) {
			f.requestOf("whd_bad", 3).Status, f.attemptOf("whd_bad", 3).StatusCode = 200, 200
		}, "9 whd_bad"},
		{"9: failed after five", func(f *Facts) {
			f.removeAttempt("whd_bad", 6)
			f.of("whd_bad").FinishedAt = new(noon.Add(3 * time.Hour))
		}, "9 whd_bad"},
		{"9: the sixth died before it was noted", func(f *Facts) {
			f.removeAttempt("whd_bad", 6)
			f.of("whd_bad").FinishedAt = new(noon.Add(20 * time.Hour))
		}, ""},
		{"9: accepted, and the worker died", func(f *Facts) {
			answered := f.requestOf("whd_bad", 6).AnsweredAt
			f.neverFinished("whd_bad", 6)
			f.requestOf("whd_bad", 6).Status, f.requestOf("whd_bad", 6).AnsweredAt = 200, answered
		}, ""},
		{"9: an answer that is not HTTP must have come from somewhere", func(f *Facts) {
			f.attemptOf("whd_bad", 2).StatusCode = 0
			f.unlog("whd_bad", 2)
		}, "9 whd_bad"},
		{"9: nor about what came before its log", func(f *Facts) {
			f.Requests = []devstack.LoggedRequest{{At: noon.Add(40 * time.Hour), Listener: address, Started: true}}
		}, ""},

		{"7: Reconcile hid that it was not started", func(f *Facts) { f.foundByReconcile(-time.Minute) }, "7 whd_ok"},
		{"7: Reconcile overtook a slow run", func(f *Facts) { f.foundByReconcile(time.Minute) }, ""},
		{"7: Reconcile mended what an operator did", func(f *Facts) {
			f.foundByReconcile(-time.Minute)
			f.Calls = append([]Call{{Op: OpTerminate, ID: "cs_1", Status: http.StatusAccepted}}, f.Calls...)
		}, ""},
		{"8: terminated by nobody", func(f *Facts) { f.lastRun("whd_ok").Status, f.lastRun("whd_ok").Result = terminated, "" }, "8 whd_ok"},

		// 10
		{"10: a retry one second early", func(f *Facts) { f.shift("whd_bad", 3, -time.Second) }, "10 whd_bad"},
		{"10: early twice, and the history knows both", func(f *Facts) {
			f.hurryTwice()
			f.lastRun("whd_bad").RetryNow = []time.Time{f.attemptOf("whd_bad", 3).StartedAt.Add(-time.Second)}
		}, ""},
		{"10: early twice, and retry_now was asked for once", func(f *Facts) { f.hurryTwice() }, "10 whd_bad"},
		{"10: early twice, and both wishes came before the first", func(f *Facts) {
			f.shift("whd_bad", 3, -time.Minute)
			f.shift("whd_bad", 4, 3*time.Second-f.attemptOf("whd_bad", 4).StartedAt.Sub(f.attemptOf("whd_bad", 3).StartedAt))
			third := f.attemptOf("whd_bad", 3).StartedAt
			f.lastRun("whd_bad").RetryNow = []time.Time{third.Add(-2 * time.Second), third.Add(-time.Second)}
		}, ""},
		{"10: the worker died, and the server's own back-off followed", func(f *Facts) {
			f.neverFinished("whd_bad", 3)
			f.shift("whd_bad", 4, -11*time.Minute)
		}, ""},
		{"10: the worker died, and the next came too soon", func(f *Facts) {
			f.neverFinished("whd_bad", 3)
			f.shift("whd_bad", 4, -12*time.Minute)
		}, "10 whd_bad"},
		{"10: an attempt was sent twice", func(f *Facts) { f.Requests = append(f.Requests, *f.requestOf("whd_ok", 1)) }, "10 whd_ok"},
		{"10: a seventh attempt", func(f *Facts) { f.attempt("whd_bad", 1, 7, noon.Add(40*time.Hour), 500) }, "10 whd_bad"},
		{"10: live ones keep the schedule", func(f *Facts) {
			f.Schedule = webhook.Schedule{time.Second, time.Second, time.Second, time.Second, time.Second}
			f.shift("whd_bad", 3, -time.Minute)
		}, ""},
		{"10: a request came after its attempt", func(f *Facts) {
			f.requestOf("whd_ok", 1).At, f.requestOf("whd_ok", 1).T = noon.Add(20*time.Second), noon.Add(20*time.Second).Unix()
		}, "10 whd_ok"},

		// 11
		{"11: signed by another secret", func(f *Facts) { f.requestOf("whd_ok", 1).SignatureOK = false }, "11 whd_ok"},
		{"11: signed before the attempt", func(f *Facts) { f.requestOf("whd_ok", 2).T -= 25 }, "11 whd_ok"},
		{"11: signed in the future", func(f *Facts) { f.requestOf("whd_ok", 2).T += 4 }, "11 whd_ok"},
		{"11: on its way for long", func(f *Facts) {
			f.attemptOf("whd_ok", 1).Duration = 8 * time.Second
			f.requestOf("whd_ok", 1).At = noon.Add(7 * time.Second)
			f.shift("whd_ok", 2, 8*time.Second)
		}, ""},
		{"11: other bytes", func(f *Facts) { f.requestOf("whd_ok", 2).BodySHA256 = "other" }, "11 whd_ok"},
		{"11: another event's id", func(f *Facts) { f.requestOf("whd_ok", 2).EventID = "evt_bad" }, "11 whd_ok"},
		{"11: a header of another event", func(f *Facts) { f.requestOf("whd_ok", 2).HeaderEvent = "evt_bad" }, "11 whd_ok"},
		{"11: at another receiver", func(f *Facts) { f.requestOf("whd_ok", 1).Listener = "http://127.0.0.1:10/webhook" }, "11 whd_ok"},
		{"11: at the address of before a change", func(f *Facts) {
			f.requestOf("whd_ok", 1).Listener = "http://127.0.0.1:10/webhook"
			f.Endpoints[0].ChangedAt = new(noon.Add(5 * time.Second))
		}, ""},
		{"11: of a delivery that is not there", func(f *Facts) { f.requestAgain(func(r *devstack.LoggedRequest) { r.Delivery = "whd_x" }) }, "11 whd_x"},
		{"11: of no delivery", func(f *Facts) {
			f.Requests = append(f.Requests, devstack.LoggedRequest{At: noon, Listener: address, Method: http.MethodPost})
		}, "11 " + address},
		{"11: nothing is said about what came while PostgreSQL was read", func(f *Facts) {
			f.Requests = append(f.Requests, devstack.LoggedRequest{At: f.At.Add(time.Second), Listener: address, Method: http.MethodPost})
		}, ""},

		// 12
		{"12: a canary was called", func(f *Facts) {
			f.Requests = append(f.Requests, devstack.LoggedRequest{At: noon, Listener: "http://10.0.0.1:80", Canary: true, Method: http.MethodGet, Delivery: "whd_ok"})
		}, "12 whd_ok"},
		{"12: a canary was connected to", func(f *Facts) {
			f.Requests = append(f.Requests, devstack.LoggedRequest{At: noon, Listener: "http://10.0.0.1:80", Canary: true})
		}, "12 http://10.0.0.1:80"},
		{"12: a redirect was followed with GET", func(f *Facts) { f.requestOf("whd_ok", 1).Method = http.MethodGet }, "12 whd_ok"},
		{"12: live over plain HTTP", func(f *Facts) { f.deliverLive() }, "12 whd_bad"},
		{"12: live over TLS", func(f *Facts) {
			f.deliverLive()
			for n := 1; n <= 6; n++ {
				f.requestOf("whd_bad", n).TLS = true
			}
		}, ""},

		// 13
		{"13: a number is missing", func(f *Facts) { f.removeAttempt("whd_bad", 3); f.shift("whd_bad", 4, -33*time.Minute) }, "13 whd_bad"},
		{"13: its attempt died before it was noted", func(f *Facts) { f.removeAttempt("whd_bad", 3) }, ""},
		{"13: the first is missing", func(f *Facts) { f.removeAttempt("whd_ok", 1) }, "13 whd_ok"},
		{"13: a number appears twice", func(f *Facts) { f.attempt("whd_bad", 1, 6, noon.Add(40*time.Hour), 500) }, "10 whd_bad, 13 whd_bad"},
		{"13: a run is not counted", func(f *Facts) { f.attempt("whd_ok", 2, 1, noon.Add(time.Hour), 200) }, "13 whd_ok"},
		{"13: delivered without attempts in its run", func(f *Facts) {
			f.of("whd_ok").Run = 2
			f.run("whd_ok", noon.Add(time.Hour), completed)
		}, "13 whd_ok, 9 whd_ok"},
		{"13: on hold before the first attempt of a replay", func(f *Facts) {
			f.of("whd_ok").Run, f.of("whd_ok").Status = 2, webhook.DeliveryPending
			f.run("whd_ok", noon.Add(time.Hour), running)
		}, ""},
		{"13: a run without attempts that nothing ended", func(f *Facts) {
			f.of("whd_ok").Run = 3
			f.run("whd_ok", noon.Add(time.Hour), completed)
			f.run("whd_ok", noon.Add(2*time.Hour), completed)
			f.attempt("whd_ok", 3, 1, noon.Add(2*time.Hour), 200)
		}, "13 whd_ok"},
		{"13: a request without an attempt", func(f *Facts) { f.requestAgain(func(r *devstack.LoggedRequest) { r.Attempt = "5" }) }, "13 whd_ok"},
		{"13: a request came before its attempt was noted", func(f *Facts) {
			f.requestOf("whd_ok", 1).At, f.requestOf("whd_ok", 1).T = noon.Add(-time.Second), noon.Unix()-1
		}, "13 whd_ok, 9 whd_ok"},
	}, slices.Concat(sessionCases, liveCases, balanceCases)...) {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := newFacts()
			c.change(f)
			var found []string
			for _, r := range Check(f) {
				for _, v := range r.Violations {
					require.NotEmpty(t, v.Text)
					found = append(found, fmt.Sprint(r.Number, " ", v.ID))
					t.Log(r.Number, v.ID, v.Text)
				}
			}
			slices.Sort(found)
			require.Equal(t, c.want, strings.Join(slices.Compact(found), ", "))
		})
	}
}

func TestCheck_WithoutAWitnessSaysWhatWasNotChecked(t *testing.T) {
	t.Parallel()
	f := newFacts()
	f.Logged, f.Requests, f.Called, f.Calls, f.Rest, f.Histories, f.Searched = false, nil, false, nil, nil, nil, 0
	f.Told = nil
	for _, r := range Check(f) {
		require.Empty(t, r.Violations)
		require.Equal(t, slices.Contains([]int{9, 11, 12, 14, 15, 19, 20, 21, 22, 32, 40}, r.Number), r.NotChecked != "", r.Number)
		require.Equal(t, r.NotChecked == "", r.Checked > 0, r.Number)
	}
}
