package activities

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"

	"example.com/checkout/storage"
	"example.com/checkout/storage/pg"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/contract"
	"example.com/checkout/workflows/webhook"
)

// Deliveries are the activities of webhook deliveries.
type Deliveries struct {
	Webhooks *storage.Webhooks
	// TestSchedule replaces webhook.RetrySchedule in test mode, for demonstrations; nil means no
	// replacement. Live deliveries always use webhook.RetrySchedule.
	TestSchedule webhook.Schedule
	// Now is a clock for tests that skip time; nil means PostgreSQL's clock.
	Now func() time.Time

	receivers receivers
	lanes     *lanes
}

// Slots is how many attempts a worker makes at once. An attempt mostly waits for its receiver.
const Slots = 1000

// NewDeliveries returns the activities. guard checks every address before they connect to it. At most
// mostInFlight attempts to one endpoint are under way.
func NewDeliveries(
	webhooks *storage.Webhooks, guard *AddressGuard, testSchedule webhook.Schedule, mostInFlight int,
) *Deliveries {
	return &Deliveries{
		Webhooks: webhooks, TestSchedule: testSchedule, receivers: newReceivers(guard),
		lanes: newLanes(firstLimit, mostInFlight, Slots),
	}
}

// DeliveryInput names a delivery and its owner.
type DeliveryInput struct {
	checkout.Ref

	// Continues is set when Temporal's run continues an earlier one.
	Continues *ContinuedRun `json:"continues,omitempty"`
}

// ContinuedRun records that Temporal's run By continues a run of the delivery's log, which Temporal's run RunID began.
type ContinuedRun struct {
	RunID string `json:"run_id"`
	By    string `json:"by"`
}

// runID returns the id of the run of the delivery's log: the id of Temporal's run that began it. After a reset by an
// operator, the input still names the earlier run in By; the ids differ, so the reset run counts as a new one.
func (in DeliveryInput) runID(ctx context.Context) string {
	id := activity.GetInfo(ctx).WorkflowExecution.RunID
	if in.Continues != nil && in.Continues.By == id {
		return in.Continues.RunID
	}
	return id
}

// SendAttemptInput is the next attempt of a delivery's run.
type SendAttemptInput struct {
	DeliveryInput
	EndpointID string `json:"endpoint_id,omitempty"`
	Host       string `json:"host,omitempty"`
	// Made is the number of attempts that the run made before this activity was scheduled.
	// Temporal counts the attempts of the activity itself.
	Made int `json:"made,omitempty"`
	// Due is the Due of the result that made this attempt wait for its busy endpoint.
	Due time.Time `json:"due,omitzero"`
}

// visit returns the attempt's request for a place at its endpoint.
func (in SendAttemptInput) visit(turn webhook.Turn) visit {
	v := visit{lane: in.lane(), merchant: in.MerchantID, kind: kindRegistration}
	if in.EndpointID == "" {
		v.kind = kindSession
	}
	if turn.Try == 1 { // a retry of this activity became due later
		v.due = in.Due
	}
	return v
}

// lane returns the key by which attempts in flight are limited. For a registration, it is the endpoint and the host.
// For sessions' own URLs, it is the merchant and the host, so that many sessions with one host share one limit.
func (in SendAttemptInput) lane() string {
	if in.EndpointID == "" {
		return strings.Join([]string{in.MerchantID, string(in.Mode), in.Host}, " ")
	}
	return in.EndpointID + " " + in.Host
}

// SendAttempt makes one attempt: it notes the attempt, posts the event, and notes the outcome. It
// fails with ReceiverRefused and the delay to the next attempt, or with DeliveryNotFound.
//
// As a local activity, SendAttempt makes the first attempt of a run. Temporal does not count a local activity. So
// when the first attempt failed, the activity that is scheduled next reports the same failure once and sends nothing.
// The retry policy then counts every attempt. Source: api/interface.md, "Delivery and retries".
func (d *Deliveries) SendAttempt(ctx context.Context, in SendAttemptInput) (contract.SendAttemptResult, error) {
	turn := d.turn(ctx, in)
	pending := contract.DeliveryState{Status: webhook.DeliveryPending, AttemptsMade: turn.AttemptsMade + turn.Try - 1}
	notSent := contract.SendAttemptResult{DeliveryState: pending, Due: in.Due}

	if turn.Try == 1 && !turn.Local { // a report sends nothing, so it needs no place in the lane
		out, err := d.Webhooks.ReportAttempt(ctx, in.Ref, turn)
		if err == nil && out.Step == webhook.StepReport {
			return contract.SendAttemptResult{}, reportedError(out)
		}
	}

	visit := in.visit(turn)
	came := time.Now()
	if busy := d.lanes.enter(ctx, visit); busy.wait > 0 {
		return d.busy(ctx, in, busy, notSent), nil
	}
	inLine := time.Since(came)
	var shown outcome
	defer func() { d.lanes.leave(visit, shown) }()

	out, err := d.begin(ctx, in, visit, turn)
	switch {
	case errors.Is(err, checkout.ErrNotFound):
		return contract.SendAttemptResult{}, asFinal(ctx, err, contract.ErrTypeDeliveryNotFound)
	case err != nil:
		d.logNotBegun(ctx, err)
		notSent.Reason = contract.ReasonAway
		return notSent, nil
	case out.Step == webhook.StepBusy: // other workers have its places
		d.lanes.bound(visit, boundsOf(out))
		shown.pause = out.Wait
		return d.busy(ctx, in, turnAfter(visit, out.Wait), notSent), nil
	case out.Step != webhook.StepBegin:
		return d.notBegun(ctx, in, out, notSent)
	}

	if out.Late > 0 && in.Due.IsZero() {
		d.lanes.beganFresh(visit, out.Late-inLine)
	}
	d.lanes.bound(visit, boundsOf(out))
	a, pause := d.send(ctx, in.DeliveryInput, out)
	shown = outcome{effect: effectOf(a), began: a.StartedAt, pause: pause}
	defer d.freePlace(ctx, in, out, pause)
	return d.recordOutcome(ctx, in.DeliveryInput, out, a)
}

// begin notes the attempt. At a registration with limits, other attempts of this worker wait for it.
func (d *Deliveries) begin(
	ctx context.Context, in SendAttemptInput, v visit, turn webhook.Turn,
) (storage.AttemptDecision, error) {
	defer d.lanes.begin(ctx, v)()
	return d.Webhooks.BeginAttempt(ctx, in.Ref, turn)
}

func boundsOf(out storage.AttemptDecision) laneBounds {
	return laneBounds{maxInFlight: out.MaxInFlight, rateLimit: out.RateLimit}
}

// freePlace gives back the attempt's place among all workers, and holds back further attempts for the pause that the
// receiver requested. The attempt is recorded first, because its time may be over.
func (d *Deliveries) freePlace(
	ctx context.Context, in SendAttemptInput, out storage.AttemptDecision, pause time.Duration,
) {
	if out.MaxInFlight == 0 && pause == 0 {
		return
	}
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer stop()
	var err error
	if pause > 0 {
		err = d.Webhooks.PauseEndpoint(ctx, in.Ref, min(pause, longestPause))
	}
	if out.MaxInFlight > 0 {
		err = errors.Join(err, d.Webhooks.LeavePlace(ctx, in.Ref))
	}
	if err != nil { // the place is free a few seconds later
		logger(ctx).WarnContext(ctx, "other workers do not see the end of an attempt", "error", err)
	}
}

// busy returns the result of an attempt that waits for its turn at its endpoint.
func (d *Deliveries) busy(
	ctx context.Context, in SendAttemptInput, t admission, notSent contract.SendAttemptResult,
) contract.SendAttemptResult {
	notSent.Reason, notSent.Wait, notSent.Due, notSent.Ahead = contract.ReasonBusy, t.wait, t.due, t.ahead
	if err := d.Webhooks.DeferAttempt(ctx, in.Ref, t.wait, t.ahead); err != nil {
		logger(ctx).WarnContext(ctx, "wait of an attempt not noted", "error", err) // the note is only for display
	}
	return notSent
}

func (d *Deliveries) turn(ctx context.Context, in SendAttemptInput) webhook.Turn {
	info := activity.GetInfo(ctx)
	return webhook.Turn{
		RunID: in.runID(ctx), AttemptsMade: in.Made, Try: int(info.Attempt), Local: info.IsLocalActivity, Now: d.now(),
	}
}

// now returns the time of the test clock, or zero for PostgreSQL's clock.
func (d *Deliveries) now() time.Time {
	if d.Now == nil {
		return time.Time{}
	}
	return d.Now()
}

func (d *Deliveries) logNotBegun(ctx context.Context, err error) {
	level := slog.LevelError
	if pg.Unavailable(err) {
		level = slog.LevelWarn
	}
	logger(ctx).Log(ctx, level, "attempt not begun", "error", err)
}

// notBegun returns the result, or the error, of a step that sends nothing.
func (d *Deliveries) notBegun(
	ctx context.Context, in SendAttemptInput, out storage.AttemptDecision, notSent contract.SendAttemptResult,
) (contract.SendAttemptResult, error) {
	switch out.Step {
	case webhook.StepReport:
		return contract.SendAttemptResult{}, reportedError(out)
	case webhook.StepPark:
		notSent.Reason = contract.ReasonHeld
	case webhook.StepAgain:
		notSent.Reason, notSent.AttemptsMade = contract.ReasonReset, 0
	case webhook.StepEarly:
		logger(ctx).WarnContext(ctx, "attempt came before its time",
			"delivery_id", in.ID, "made", notSent.AttemptsMade, "early", out.Wait)
		notSent.Reason, notSent.Wait = contract.ReasonEarly, out.Wait
	default: // the delivery has ended
		return contract.SendAttemptResult{
			DeliveryState: contract.DeliveryState{Status: out.Status, RunID: in.runID(ctx)},
		}, nil
	}
	return notSent, nil
}

// recordOutcome notes how an attempt ended and returns the activity's result or error.
func (d *Deliveries) recordOutcome(
	ctx context.Context, in DeliveryInput, out storage.AttemptDecision, a webhook.Attempt,
) (contract.SendAttemptResult, error) {
	measureAttempt(ctx, in.Mode, a)
	delay := time.Duration(0)
	if !a.Succeeded() {
		delay, _ = d.schedule(in.Mode).RetryDelay(a.Number)
	}
	recordErr := d.Webhooks.FinishAttempt(ctx, in.Ref, a, delay)

	log := logger(ctx).With("delivery_id", in.ID, "event_type", out.EventType, "run", a.Run, "number", a.Number,
		"status_code", a.StatusCode, "error_kind", a.ErrorKind, "duration_ms", a.Duration.Milliseconds())
	if recordErr != nil {
		log = log.With("record_error", recordErr)
	}
	log.InfoContext(ctx, "webhook attempt")

	if !a.Succeeded() {
		return contract.SendAttemptResult{}, refusedError(a.Outcome(), delay)
	}

	result := contract.SendAttemptResult{
		DeliveryState: contract.DeliveryState{Status: webhook.DeliveryDelivered, RunID: in.runID(ctx)},
	}
	if recordErr != nil {
		// The receiver accepted the event, so return no error, although PostgreSQL is away:
		// a retry would send the event again.
		result.Unrecorded = &contract.AttemptResult{
			Run: a.Run, Number: a.Number, StatusCode: a.StatusCode, Duration: a.Duration,
		}
	}
	return result, nil
}

// send makes the POST. Every attempt carries the same body and a new timestamp. The request has
// no Idempotency-Key header: with that header, Go's transport would silently repeat the POST.
//
// It also returns how long the receiver asked to be left alone.
func (d *Deliveries) send(
	ctx context.Context, in DeliveryInput, out storage.AttemptDecision,
) (webhook.Attempt, time.Duration) {
	started := time.Now()
	headers := http.Header{webhook.SignatureHeader: {webhook.Sign(out.Digests[0], started, out.Body, out.Digests[1:]...)}}
	for name, value := range webhook.RequestHeaders(in.ID, out.EventID, out.EventType, out.Number) {
		headers.Set(name, value)
	}
	got := d.receivers.post(ctx, in.Mode, out.URL, headers, out.Body)
	return webhook.Attempt{
		Run: out.Run, Number: out.Number, StartedAt: started, Finished: true, Duration: time.Since(started),
		StatusCode: got.status, ErrorKind: got.kind, ResponseBody: got.body,
	}, got.pause
}

func (d *Deliveries) schedule(mode checkout.Mode) webhook.Schedule {
	if d.TestSchedule != nil && !mode.Live() {
		return d.TestSchedule
	}
	return webhook.RetrySchedule
}

// reportedError returns the error of an attempt that was already made but that Temporal has not counted.
func reportedError(out storage.AttemptDecision) error {
	delay := max(out.Wait, time.Millisecond) // 0 would mean the delay of the retry policy
	if !out.Last.Finished {
		return refusedError(contract.AttemptLost, delay)
	}
	return refusedError(out.Last.Outcome(), delay)
}

// refusedError returns the error of a failed attempt. Do not wrap it: from a wrapped error, Temporal
// reads neither type nor delay nor category.
func refusedError(text string, delay time.Duration) error {
	return temporal.NewApplicationErrorWithOptions(
		text,
		contract.ErrTypeReceiverRefused,
		temporal.ApplicationErrorOptions{NextRetryDelay: delay, Category: temporal.ApplicationErrorCategoryBenign},
	)
}

// HurryDelivery notes that retry_now came: the next attempt is due now.
func (d *Deliveries) HurryDelivery(ctx context.Context, in DeliveryInput) error {
	return d.Webhooks.HurryAttempt(ctx, in.Ref, in.runID(ctx), d.now())
}

// RecordAttemptInput is a success that SendAttempt could not note.
type RecordAttemptInput struct {
	DeliveryInput
	Attempt contract.AttemptResult `json:"attempt"`
}

// RecordAttempt notes a success that SendAttempt could not note.
func (d *Deliveries) RecordAttempt(ctx context.Context, in RecordAttemptInput) error {
	return asFinal(ctx, d.Webhooks.FinishAttempt(ctx, in.Ref, webhook.Attempt{
		Run: in.Attempt.Run, Number: in.Attempt.Number, StatusCode: in.Attempt.StatusCode, Duration: in.Attempt.Duration,
	}, 0), contract.ErrTypeDeliveryNotFound)
}

// FailDelivery marks the delivery permanently failed if its run has made all attempts. It returns
// the delivery's state, which can also be:
//   - pending: Temporal counted executions that no worker began, so attempts are left;
//   - delivered: an attempt was accepted, but its report to Temporal was lost.
//
// It fails with DeliveryNotFound.
func (d *Deliveries) FailDelivery(ctx context.Context, in DeliveryInput) (contract.DeliveryState, error) {
	end, err := d.Webhooks.FailDelivery(ctx, in.Ref, in.runID(ctx))
	return in.state(ctx, end), asFinal(ctx, err, contract.ErrTypeDeliveryNotFound)
}

// CancelDelivery marks the delivery canceled and returns its state. The workflow calls it when an
// operator cancels the run. It fails with DeliveryNotFound.
func (d *Deliveries) CancelDelivery(ctx context.Context, in DeliveryInput) (contract.DeliveryState, error) {
	end, err := d.Webhooks.EndDelivery(ctx, in.Ref, in.runID(ctx), webhook.DeliveryCanceled)
	return in.state(ctx, end), asFinal(ctx, err, contract.ErrTypeDeliveryNotFound)
}

func (in DeliveryInput) state(ctx context.Context, end storage.DeliveryEnd) contract.DeliveryState {
	state := contract.DeliveryState{Status: end.Status, RunID: end.RunID}
	if end.Status == webhook.DeliveryPending && end.RunID == in.runID(ctx) {
		state.AttemptsMade = end.Attempts
	}
	return state
}
