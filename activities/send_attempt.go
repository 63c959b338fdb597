package activities

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"

	"example.com/checkout/storage"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/webhook"
)

// Deliveries are the activities of webhook deliveries.
type Deliveries struct {
	Store *storage.Store
	// TestSchedule replaces webhook.RetrySchedule in test mode, for
	// demonstrations; nil leaves it. Live deliveries always keep the fixed one.
	TestSchedule webhook.Schedule
	// Now is the clock of tests that skip time; nil is PostgreSQL's.
	Now func() time.Time

	receivers receivers
	lanes     *lanes
}

// NewDeliveries returns activities whose every dial passes guard.
func NewDeliveries(store *storage.Store, guard *AddressGuard, testSchedule webhook.Schedule) *Deliveries {
	return &Deliveries{Store: store, TestSchedule: testSchedule, receivers: newReceivers(guard), lanes: newLanes()}
}

// ErrTypeReceiverRefused: the attempt failed; the server retries it after the
// delay that comes with the error.
const ErrTypeReceiverRefused = "ReceiverRefused"

// DeliveryInput names a delivery and who owns it.
type DeliveryInput struct {
	checkout.Ref

	// Continues is set when Temporal's run goes on with what an earlier one began.
	Continues *ContinuedRun `json:"continues,omitempty"`
}

// ContinuedRun says that Temporal's run By goes on with the run of the delivery's
// log that Temporal's run RunID began.
type ContinuedRun struct {
	RunID string `json:"run_id"`
	By    string `json:"by"`
}

// runID names the run of the delivery's log. One that an operator reset has the
// inputs of the run before, and is a new run all the same.
func (in DeliveryInput) runID(ctx context.Context) string {
	id := activity.GetInfo(ctx).WorkflowExecution.RunID
	if in.Continues != nil && in.Continues.By == id {
		return in.Continues.RunID
	}
	return id
}

// AttemptResult is an attempt without what the receiver wrote.
type AttemptResult struct {
	Run        int           `json:"run"`
	Number     int           `json:"number"`
	StatusCode int           `json:"status_code,omitempty"`
	Duration   time.Duration `json:"duration"`
}

// SendAttemptInput is the next attempt of a delivery's run.
type SendAttemptInput struct {
	DeliveryInput
	EndpointID string `json:"endpoint_id,omitempty"`
	Host       string `json:"host,omitempty"`
	// Made is how many attempts this run has made before this activity was
	// scheduled; its own are counted by Temporal.
	Made int `json:"made,omitempty"`
	// Hurried: retry_now asked for the first of these attempts.
	Hurried bool `json:"hurried,omitempty"`
	// NewRun: an operator reset the activity, so the first of these attempts
	// begins a new run in the log.
	NewRun bool `json:"new_run,omitempty"`
	// Refused is why attempt 1 failed, which was made as a local activity, and Due
	// when attempt 2 follows. The first try of the activity then only reports it,
	// so that the retry policy has the whole schedule and operators see it. "":
	// nothing to report.
	Refused string    `json:"refused,omitempty"`
	Due     time.Time `json:"due,omitzero"`
}

// lane returns what bounds the attempts in flight: a registration, or for
// sessions' own URLs the merchant's host, however many sessions name it.
func (in SendAttemptInput) lane() string {
	if in.EndpointID == "" {
		return strings.Join([]string{in.MerchantID, string(in.Mode), in.Host}, " ")
	}
	return in.EndpointID + " " + in.Host
}

// number returns the number of the attempt that is to be made.
func (in SendAttemptInput) number(ctx context.Context) int {
	return in.Made + int(activity.GetInfo(ctx).Attempt)
}

// SendAttemptResult says how a delivery ended that did not fail, or why no
// attempt was made.
type SendAttemptResult struct {
	Status   webhook.DeliveryStatus `json:"status"`
	Recorded bool                   `json:"recorded"` // false: RecordAttempt must note it
	Attempt  AttemptResult          `json:"attempt"`
	RunID    string                 `json:"run_id,omitempty"` // of the delivery's log

	// The others are for Status pending: no attempt was made, and none used up.
	Reset  bool          `json:"reset,omitempty"`  // an operator reset the activity: begin a new run
	Parked bool          `json:"parked,omitempty"` // on hold: wait for the signal resume
	Wait   time.Duration `json:"wait,omitempty"`   // the endpoint is busy, or it is not time yet: come back then; 0: PostgreSQL is away
	Made   int           `json:"made,omitempty"`   // attempts of this run so far
}

// SendAttempt makes one attempt: notes it, posts, notes how it ended. It fails
// with ReceiverRefused and the delay to the next attempt, and with
// DeliveryNotFound. As a local activity it makes the first attempt of a run.
// Source: interface document, "Delivery and retries".
func (d *Deliveries) SendAttempt(ctx context.Context, in SendAttemptInput) (SendAttemptResult, error) {
	if in.Refused != "" && activity.GetInfo(ctx).Attempt == 1 {
		if sent, err := d.report(ctx, in); err != nil || sent.Reset {
			return sent, err
		}
	}
	number := in.number(ctx)
	notMade := SendAttemptResult{Status: webhook.DeliveryPending, Made: number - 1}
	if notMade.Wait = d.lanes.enter(in.lane()); notMade.Wait > 0 {
		if err := d.Store.DeferAttempt(ctx, in.Ref, notMade.Wait); err != nil {
			logger(ctx).WarnContext(ctx, "wait of an attempt not noted", "error", err) // only shown
		}
		return notMade, nil
	}
	began, timedOut := time.Now(), false
	defer func() { d.lanes.leave(in.lane(), time.Since(began), timedOut) }()

	out, err := d.Store.BeginAttempt(ctx, in.Ref, d.turn(ctx, in))
	switch {
	case errors.Is(err, checkout.ErrNotFound):
		return SendAttemptResult{}, asFinal(ctx, err, ErrTypeDeliveryNotFound)
	case err != nil:
		level := slog.LevelError
		if storage.Unavailable(err) {
			level = slog.LevelWarn
		}
		logger(ctx).Log(ctx, level, "attempt not begun", "error", err)
		return notMade, nil // nothing was sent, so nothing is used up
	case out.Reset && activity.GetInfo(ctx).IsLocalActivity: // by a worker that died: Temporal does not count these
		notMade.Made, notMade.Wait = number, max(out.Early, time.Second)
		return notMade, nil
	case out.Reset:
		notMade.Reset, notMade.Made = true, 0
		return notMade, nil
	case out.Early > 0:
		logger(ctx).WarnContext(ctx, "attempt came before its time", "delivery_id", in.ID, "number", number, "early", out.Early)
		notMade.Wait = out.Early
		return notMade, nil
	case out.Parked:
		notMade.Parked = true
		return notMade, nil
	case out.Status != webhook.DeliveryPending: // canceled: the registration was deleted
		return SendAttemptResult{Status: out.Status, Recorded: true, RunID: in.runID(ctx)}, nil
	}
	a := d.send(ctx, in.DeliveryInput, out)
	timedOut = a.ErrorKind == webhook.ErrorTimeout
	return d.sent(ctx, in.DeliveryInput, out, a)
}

// report tells Temporal how attempt 1 failed, once: the heartbeat stays when an
// operator resets the activity. It tells nothing when the workflow was reset to
// after that attempt, which then is one of another run.
func (d *Deliveries) report(ctx context.Context, in SendAttemptInput) (SendAttemptResult, error) {
	if activity.HasHeartbeatDetails(ctx) {
		return SendAttemptResult{Status: webhook.DeliveryPending, Reset: true}, nil
	}
	activity.RecordHeartbeat(ctx, "attempt 1 is reported")
	if made, err := d.CountAttempts(ctx, in.DeliveryInput); err == nil && made == 0 {
		return SendAttemptResult{}, nil
	}
	return SendAttemptResult{}, refusedUntil(max(in.Due.Sub(d.now()), time.Millisecond), 1, in.Refused)
}

func (d *Deliveries) now() time.Time {
	if d.Now != nil {
		return d.Now()
	}
	return time.Now()
}

func (d *Deliveries) turn(ctx context.Context, in SendAttemptInput) storage.Turn {
	info := activity.GetInfo(ctx)
	turn := storage.Turn{
		RunID: in.runID(ctx), Number: in.number(ctx), Once: info.IsLocalActivity,
		Hurried: in.Hurried && info.Attempt == 1, NewRun: in.NewRun && info.Attempt == 1,
	}
	if d.Now != nil {
		turn.Now = d.Now()
	}
	return turn
}

// sent notes how an attempt ended and tells Temporal.
func (d *Deliveries) sent(ctx context.Context, in DeliveryInput, out storage.Outgoing, a webhook.Attempt) (SendAttemptResult, error) {
	measureAttempt(ctx, in.Mode, a)
	delay := time.Duration(0)
	if !a.Succeeded() {
		delay, _ = d.schedule(in.Mode).RetryDelay(a.Number)
	}
	recordErr := d.Store.FinishAttempt(ctx, in.Ref, a, delay)
	log := logger(ctx).With("delivery_id", in.ID, "event_type", out.EventType, "run", a.Run, "number", a.Number,
		"status_code", a.StatusCode, "error_kind", a.ErrorKind, "duration_ms", a.Duration.Milliseconds())
	if recordErr != nil {
		log = log.With("record_error", recordErr)
	}
	log.InfoContext(ctx, "webhook attempt")
	if !a.Succeeded() {
		return SendAttemptResult{}, d.refused(in.Mode, a.Number, failureText(a))
	}
	// A 2xx is never turned into an error because PostgreSQL is away: the
	// receiver would get the event again for an outage of ours.
	return SendAttemptResult{
		Status: webhook.DeliveryDelivered, Recorded: recordErr == nil, RunID: in.runID(ctx),
		Attempt: AttemptResult{Run: a.Run, Number: a.Number, StatusCode: a.StatusCode, Duration: a.Duration},
	}, nil
}

// send makes the POST. Every attempt carries the same bytes and a fresh
// timestamp. There is no Idempotency-Key header: with one, Go's transport would
// silently send a POST again.
func (d *Deliveries) send(ctx context.Context, in DeliveryInput, out storage.Outgoing) webhook.Attempt {
	started := time.Now()
	headers := http.Header{webhook.SignatureHeader: {webhook.Sign(out.Digests[0], started, out.Body, out.Digests[1:]...)}}
	for name, value := range webhook.RequestHeaders(in.ID, out.EventID, out.EventType, out.Number) {
		headers.Set(name, value)
	}
	status, kind, response := d.receivers.post(ctx, in.Mode, out.URL, headers, out.Body)
	return webhook.Attempt{
		Run: out.Run, Number: out.Number, StartedAt: started, Duration: time.Since(started),
		StatusCode: status, ErrorKind: kind, ResponseBody: response,
	}
}

// failureText tells operators what happened, without address or answer.
func failureText(a webhook.Attempt) string {
	if a.StatusCode != 0 {
		return fmt.Sprintf("%s: status %d", a.ErrorKind, a.StatusCode)
	}
	return string(a.ErrorKind)
}

func (d *Deliveries) schedule(mode checkout.Mode) webhook.Schedule {
	if d.TestSchedule != nil && !mode.Live() {
		return d.TestSchedule
	}
	return webhook.RetrySchedule
}

// refused reports that attempt number failed, with the number as detail. Do not
// wrap it: with fmt.Errorf("…%w") around it the server sees neither type, delay
// nor category.
func (d *Deliveries) refused(mode checkout.Mode, number int, text string) error {
	delay, _ := d.schedule(mode).RetryDelay(number)
	return refusedUntil(delay, number, text)
}

func refusedUntil(delay time.Duration, number int, text string) error {
	return temporal.NewApplicationErrorWithOptions(text, ErrTypeReceiverRefused, temporal.ApplicationErrorOptions{
		NextRetryDelay: delay, Category: temporal.ApplicationErrorCategoryBenign, Details: []any{number},
	})
}

// CountAttempts returns how many attempts this run has made.
func (d *Deliveries) CountAttempts(ctx context.Context, in DeliveryInput) (int, error) {
	return d.Store.CountAttempts(ctx, in.Ref, in.runID(ctx))
}

// RecordAttemptInput is a success that SendAttempt could not note.
type RecordAttemptInput struct {
	DeliveryInput
	Attempt AttemptResult `json:"attempt"`
}

// RecordAttempt notes a success that SendAttempt could not note.
func (d *Deliveries) RecordAttempt(ctx context.Context, in RecordAttemptInput) error {
	return asFinal(ctx, d.Store.FinishAttempt(ctx, in.Ref, webhook.Attempt{
		Run: in.Attempt.Run, Number: in.Attempt.Number, StatusCode: in.Attempt.StatusCode, Duration: in.Attempt.Duration,
	}, 0), ErrTypeDeliveryNotFound)
}

// DeliveryEnd is what a delivery's row says after its run has ended.
type DeliveryEnd struct {
	Status webhook.DeliveryStatus `json:"status"`
	RunID  string                 `json:"run_id,omitempty"` // of the log's last run; "": there was none, or an older build did not say
}

// UnmarshalJSON also reads the status alone, which older histories have.
func (e *DeliveryEnd) UnmarshalJSON(text []byte) error {
	if len(text) > 0 && text[0] == '"' {
		return json.Unmarshal(text, &e.Status)
	}
	type plain DeliveryEnd
	return json.Unmarshal(text, (*plain)(e))
}

// FailDelivery marks the delivery permanently failed and returns how it is then:
// a receiver may have accepted an attempt whose report was lost.
func (d *Deliveries) FailDelivery(ctx context.Context, in DeliveryInput) (DeliveryEnd, error) {
	return d.end(ctx, in, webhook.DeliveryFailed)
}

// CancelDelivery marks the delivery canceled, by an operator, and returns how it
// is then.
func (d *Deliveries) CancelDelivery(ctx context.Context, in DeliveryInput) (DeliveryEnd, error) {
	return d.end(ctx, in, webhook.DeliveryCanceled)
}

func (d *Deliveries) end(ctx context.Context, in DeliveryInput, status webhook.DeliveryStatus) (DeliveryEnd, error) {
	is, err := d.Store.EndDelivery(ctx, in.Ref, in.runID(ctx), status)
	if err != nil {
		return DeliveryEnd{}, asFinal(ctx, err, ErrTypeDeliveryNotFound)
	}
	runID, err := d.Store.DeliveryRunID(ctx, in.Ref)
	return DeliveryEnd{Status: is, RunID: runID}, asFinal(ctx, err, ErrTypeDeliveryNotFound)
}
