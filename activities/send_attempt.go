package activities

import (
	"context"
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
}

// lane returns what bounds the attempts in flight: a registration, or for
// sessions' own URLs the merchant's host, however many sessions name it.
func (in SendAttemptInput) lane() string {
	if in.EndpointID == "" {
		return strings.Join([]string{in.MerchantID, string(in.Mode), in.Host}, " ")
	}
	return in.EndpointID + " " + in.Host
}

// DeliveryStanding is how a delivery stands after an activity.
type DeliveryStanding struct {
	Status webhook.DeliveryStatus `json:"status"`           // pending: it goes on
	RunID  string                 `json:"run_id,omitempty"` // of Temporal's run that began the log's last one; "": none
	Made   int                    `json:"made,omitempty"`   // attempts of this run so far; while pending
}

// Reason is why SendAttempt made no attempt. None is used up by it.
type Reason string

// Reasons.
const (
	ReasonHeld  Reason = "on hold"            // until the signal resume
	ReasonBusy  Reason = "busy endpoint"      // until its turn comes
	ReasonEarly Reason = "not due"            // until it is
	ReasonReset Reason = "activity reset"     // an operator did: a new run of the log begins
	ReasonAway  Reason = "PostgreSQL is away" // nothing can be noted, so nothing is sent
)

// SendAttemptResult says how a delivery ended that did not fail or, while its
// status is pending, why no attempt was made.
type SendAttemptResult struct {
	DeliveryStanding
	Unrecorded *AttemptResult `json:"unrecorded,omitempty"` // the receiver accepted it, and RecordAttempt must note that
	Reason     Reason         `json:"reason,omitempty"`
	Wait       time.Duration  `json:"wait,omitempty"` // with ReasonBusy and ReasonEarly
}

// SendAttempt makes one attempt: notes it, posts, notes how it ended. It fails
// with ReceiverRefused and the delay to the next attempt, and with
// DeliveryNotFound. As a local activity it makes the first attempt of a run, which
// Temporal does not count: the activity that is scheduled after it fails once as
// that attempt did, so that the retry policy has the whole schedule.
// Source: interface document, "Delivery and retries".
func (d *Deliveries) SendAttempt(ctx context.Context, in SendAttemptInput) (SendAttemptResult, error) {
	turn := d.turn(ctx, in)
	pending := DeliveryStanding{Status: webhook.DeliveryPending, Made: turn.Made + turn.Try - 1}
	notSent := SendAttemptResult{DeliveryStanding: pending}

	if turn.Try == 1 && !turn.Local { // a report is not for the lane
		out, err := d.Store.ReportAttempt(ctx, in.Ref, turn)
		if err == nil && out.Step == webhook.StepReport {
			return SendAttemptResult{}, reported(out)
		}
	}

	notSent.Wait = d.lanes.enter(in.lane())
	if notSent.Wait > 0 {
		notSent.Reason = ReasonBusy
		if err := d.Store.DeferAttempt(ctx, in.Ref, notSent.Wait); err != nil {
			logger(ctx).WarnContext(ctx, "wait of an attempt not noted", "error", err) // only shown
		}
		return notSent, nil
	}
	began, timedOut := time.Now(), false
	defer func() { d.lanes.leave(in.lane(), time.Since(began), timedOut) }()

	out, err := d.Store.BeginAttempt(ctx, in.Ref, turn)
	switch {
	case errors.Is(err, checkout.ErrNotFound):
		return SendAttemptResult{}, asFinal(ctx, err, ErrTypeDeliveryNotFound)
	case err != nil:
		d.logNotBegun(ctx, err)
		notSent.Reason = ReasonAway
		return notSent, nil
	case out.Step != webhook.StepBegin:
		return d.notBegun(ctx, in, out, notSent)
	}

	a := d.send(ctx, in.DeliveryInput, out)
	timedOut = a.ErrorKind == webhook.ErrorTimeout
	return d.sent(ctx, in.DeliveryInput, out, a)
}

func (d *Deliveries) turn(ctx context.Context, in SendAttemptInput) webhook.Turn {
	info := activity.GetInfo(ctx)
	return webhook.Turn{
		RunID: in.runID(ctx), Made: in.Made, Try: int(info.Attempt), Local: info.IsLocalActivity, Now: d.now(),
	}
}

// now is zero for PostgreSQL's clock.
func (d *Deliveries) now() time.Time {
	if d.Now == nil {
		return time.Time{}
	}
	return d.Now()
}

func (d *Deliveries) logNotBegun(ctx context.Context, err error) {
	level := slog.LevelError
	if storage.Unavailable(err) {
		level = slog.LevelWarn
	}
	logger(ctx).Log(ctx, level, "attempt not begun", "error", err)
}

// notBegun tells Temporal of a step that sends nothing.
func (d *Deliveries) notBegun(
	ctx context.Context, in SendAttemptInput, out storage.Outgoing, notSent SendAttemptResult,
) (SendAttemptResult, error) {
	switch out.Step {
	case webhook.StepReport:
		return SendAttemptResult{}, reported(out)
	case webhook.StepPark:
		notSent.Reason = ReasonHeld
	case webhook.StepAgain:
		notSent.Reason, notSent.Made = ReasonReset, 0
	case webhook.StepEarly:
		logger(ctx).WarnContext(ctx, "attempt came before its time",
			"delivery_id", in.ID, "made", notSent.Made, "early", out.Wait)
		notSent.Reason, notSent.Wait = ReasonEarly, out.Wait
	default: // it has ended
		return SendAttemptResult{DeliveryStanding: DeliveryStanding{Status: out.Status, RunID: in.runID(ctx)}}, nil
	}
	return notSent, nil
}

// sent notes how an attempt ended and tells Temporal.
func (d *Deliveries) sent(
	ctx context.Context, in DeliveryInput, out storage.Outgoing, a webhook.Attempt,
) (SendAttemptResult, error) {
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
		return SendAttemptResult{}, refused(failureText(a), delay)
	}

	is := SendAttemptResult{DeliveryStanding: DeliveryStanding{Status: webhook.DeliveryDelivered, RunID: in.runID(ctx)}}
	if recordErr != nil {
		// A 2xx is never turned into an error because PostgreSQL is away: the
		// receiver would get the event again for an outage of ours.
		is.Unrecorded = &AttemptResult{Run: a.Run, Number: a.Number, StatusCode: a.StatusCode, Duration: a.Duration}
	}
	return is, nil
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

// AttemptLost is what operators read of an attempt whose worker died in it.
const AttemptLost = "the worker died"

// reported fails as the attempt did that Temporal has not counted.
func reported(out storage.Outgoing) error {
	delay := max(out.Wait, time.Millisecond) // 0 would be the policy's own
	if !out.Last.Finished {
		return refused(AttemptLost, delay)
	}
	return refused(failureText(out.Last), delay)
}

// refused reports a failed attempt. Do not wrap it: with fmt.Errorf("…%w") around
// it the server sees neither type, delay nor category.
func refused(text string, delay time.Duration) error {
	return temporal.NewApplicationErrorWithOptions(text, ErrTypeReceiverRefused, temporal.ApplicationErrorOptions{
		NextRetryDelay: delay, Category: temporal.ApplicationErrorCategoryBenign,
	})
}

// HurryDelivery notes that the next attempt is wanted now.
func (d *Deliveries) HurryDelivery(ctx context.Context, in DeliveryInput) error {
	return d.Store.HurryAttempt(ctx, in.Ref, in.runID(ctx), d.now())
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

// FailDelivery marks a delivery whose run has used up its attempts permanently
// failed, and returns how it stands: also pending, when Temporal has counted tries
// that no worker began, and delivered, when the report of an attempt that was
// accepted was lost.
func (d *Deliveries) FailDelivery(ctx context.Context, in DeliveryInput) (DeliveryStanding, error) {
	end, err := d.Store.FailDelivery(ctx, in.Ref, in.runID(ctx))
	return in.standing(ctx, end), asFinal(ctx, err, ErrTypeDeliveryNotFound)
}

// CancelDelivery marks the delivery canceled, by an operator, and returns how it
// stands.
func (d *Deliveries) CancelDelivery(ctx context.Context, in DeliveryInput) (DeliveryStanding, error) {
	end, err := d.Store.EndDelivery(ctx, in.Ref, in.runID(ctx), webhook.DeliveryCanceled)
	return in.standing(ctx, end), asFinal(ctx, err, ErrTypeDeliveryNotFound)
}

func (in DeliveryInput) standing(ctx context.Context, end storage.DeliveryEnd) DeliveryStanding {
	is := DeliveryStanding{Status: end.Status, RunID: end.RunID}
	if end.Status == webhook.DeliveryPending && end.RunID == in.runID(ctx) {
		is.Made = end.Attempts
	}
	return is
}
