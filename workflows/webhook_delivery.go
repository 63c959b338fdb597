package workflows

import (
	"cmp"
	"errors"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"example.com/checkout/activities"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/webhook"
)

// WebhookDeliveryInput names the delivery; what is sent and where is read from
// PostgreSQL, so that a new run with the same input is a replay.
type WebhookDeliveryInput struct {
	checkout.Ref

	EventType  webhook.EventType `json:"event_type"`
	EndpointID string            `json:"endpoint_id,omitempty"`
	Host       string            `json:"host"` // of the address, for operators' eyes
	// Continued is where an earlier run left off whose history had grown long;
	// nil: this one begins with attempt 1.
	Continued *ContinuedDelivery `json:"continued,omitempty"`
}

// ContinuedDelivery is what a run needs to go on with the attempts of another.
type ContinuedDelivery struct {
	RunID   string `json:"run_id"` // that began the run of the delivery's log
	Made    int    `json:"made,omitempty"`
	Hurried bool   `json:"hurried,omitempty"`
	Reset   bool   `json:"reset,omitempty"`
	Away    int    `json:"away,omitempty"`
}

// Summary is what lists in Temporal's UI show of the run.
func (in WebhookDeliveryInput) Summary() string { return string(in.EventType) + " to " + in.Host }

// SearchAttribute is what the run is found by besides its owner.
func (in WebhookDeliveryInput) SearchAttribute() temporal.SearchAttributeUpdate {
	return SearchAttributeEventType.ValueSet(string(in.EventType))
}

// begun returns the input for this run: a copy that an operator starts of a run
// that went on with another is a replay.
func (in WebhookDeliveryInput) begun(ctx workflow.Context) WebhookDeliveryInput {
	if workflow.GetInfo(ctx).ContinuedExecutionRunID == "" {
		in.Continued = nil
	}
	return in
}

func (in WebhookDeliveryInput) delivery(ctx workflow.Context) activities.DeliveryInput {
	input := activities.DeliveryInput{Ref: in.Ref}
	if in.Continued != nil {
		// After a reset the run has another id than the one that it began with.
		input.Continues = &activities.ContinuedRun{RunID: in.Continued.RunID, By: originalRunID(ctx)}
	}
	return input
}

// logRun names the run of the delivery's log that this run makes.
func (in WebhookDeliveryInput) logRun(ctx workflow.Context) string {
	if in.Continued != nil && !wasReset(ctx) {
		return in.Continued.RunID
	}
	return workflow.GetInfo(ctx).WorkflowExecution.RunID
}

// wasReset reports whether an operator reset a run, and this is the new one.
func wasReset(ctx workflow.Context) bool {
	return originalRunID(ctx) != workflow.GetInfo(ctx).WorkflowExecution.RunID
}

// originalRunID is of the run that this one was before it was reset.
func originalRunID(ctx workflow.Context) string {
	info := workflow.GetInfo(ctx)
	return cmp.Or(info.OriginalRunID, info.WorkflowExecution.RunID)
}

// inherited reports whether the end that the log's run had is that of the run
// that an operator reset, at an event after its last attempt.
func (in WebhookDeliveryInput) inherited(ctx workflow.Context, runID string) bool {
	return wasReset(ctx) && runID != "" && runID != in.logRun(ctx)
}

// again is a replay: a new run that begins with attempt 1.
func (in WebhookDeliveryInput) again(ctx workflow.Context) error {
	in.Continued = nil
	return workflow.NewContinueAsNewError(ctx, TypeWebhookDelivery, in)
}

// WebhookDeliveryResult says how a run ended that did not fail.
type WebhookDeliveryResult struct {
	Status webhook.DeliveryStatus `json:"status"` // delivered or canceled; of a replay whose endpoint is gone, what it was
}

// WebhookDelivery brings one event to one address in at most six attempts, on
// the schedule of the interface document ("Delivery and retries"). A run that
// used them all up fails with DeliveryPermanentlyFailed. A new run of the same
// workflow id, however it is started, is a replay; also a reset to an event after
// the last attempt. Only a run that continues as new goes on with its attempts.
// Signals: retry_now makes the next attempt at once, resume wakes a delivery that
// is parked.
func WebhookDelivery(ctx workflow.Context, in WebhookDeliveryInput) (WebhookDeliveryResult, error) {
	var a *activities.Deliveries
	record := func(activity, input, result any) error {
		ctx, _ := workflow.NewDisconnectedContext(ctx) // what happened is noted even when an operator cancels
		return workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, recordOptions), activity, input).Get(ctx, result)
	}

	in = in.begun(ctx)
	sent, err := sendAttempts(ctx, in)
	var (
		failure *temporal.ApplicationError
		ended   activities.DeliveryEnd // other than thought when the report of an attempt that was accepted is lost
	)
	switch {
	case workflow.IsContinueAsNewError(err):
		return WebhookDeliveryResult{}, err
	case err == nil && in.inherited(ctx, sent.RunID):
		return WebhookDeliveryResult{}, in.again(ctx)
	case err == nil && sent.Recorded:
		return WebhookDeliveryResult{sent.Status}, nil
	case err == nil: // the receiver has it, PostgreSQL was away
		return WebhookDeliveryResult{sent.Status}, record(a.RecordAttempt, activities.RecordAttemptInput{DeliveryInput: in.delivery(ctx), Attempt: sent.Attempt}, nil)
	case errors.As(err, &failure) && failure.Type() == activities.ErrTypeDeliveryNotFound:
		return WebhookDeliveryResult{}, temporal.NewNonRetryableApplicationError("no such delivery", ErrTypeDeliveryWithoutRow, nil)
	case temporal.IsCanceledError(err), ctx.Err() != nil: // also when an attempt was under way then, and failed
		err := record(a.CancelDelivery, in.delivery(ctx), &ended)
		if ended.Status != webhook.DeliveryDelivered {
			ended.Status = webhook.DeliveryCanceled
		}
		return WebhookDeliveryResult{ended.Status}, err
	}
	if err := record(a.FailDelivery, in.delivery(ctx), &ended); err != nil {
		return WebhookDeliveryResult{}, err
	}
	if in.inherited(ctx, ended.RunID) {
		return WebhookDeliveryResult{}, in.again(ctx)
	}
	if ended.Status == webhook.DeliveryDelivered || ended.Status == webhook.DeliveryCanceled {
		return WebhookDeliveryResult{ended.Status}, nil
	}
	if err := workflow.UpsertTypedSearchAttributes(ctx, SearchAttributeDeliveryStatus.ValueSet(string(webhook.DeliveryFailed))); err != nil {
		return WebhookDeliveryResult{}, err
	}
	return WebhookDeliveryResult{}, temporal.NewNonRetryableApplicationError("every attempt failed", ErrTypeDeliveryPermanentlyFailed, err)
}

// sendAttempts returns how the delivery ended, or the error of its last
// attempt. Its first round is one local attempt, its second has the activity
// whose retry policy is the schedule. Another follows when no attempt could be
// made, because of a hold, of a busy endpoint or of PostgreSQL, and when
// retry_now cut the waiting short. Signals can make it wait as often as they like;
// when its history has grown long by that, the run continues as new.
func sendAttempts(ctx workflow.Context, in WebhookDeliveryInput) (activities.SendAttemptResult, error) {
	d := delivery{in: in, retryNow: workflow.GetSignalChannel(ctx, SignalRetryNow), resume: workflow.GetSignalChannel(ctx, SignalResume)}
	if c := in.Continued; c != nil {
		d.made, d.hurried, d.reset, d.away = c.Made, c.Hurried, c.Reset, c.Away
	}
	for {
		if d.refused == "" && historyIsLong(ctx) {
			return activities.SendAttemptResult{}, d.continued(ctx)
		}
		sent, err := d.send(ctx)
		switch {
		case err == nil && sent.Status != webhook.DeliveryPending:
			return sent, nil
		case err == nil:
			d.made = sent.Made
			if err := d.wait(ctx, sent); err != nil {
				return sent, err
			}
		case ctx.Err() != nil, !d.hurried && last(err):
			return sent, err
		default:
			if countErr := d.count(ctx); countErr != nil {
				return sent, countErr
			}
			if d.made >= webhook.MaxAttempts {
				return sent, err
			}
		}
	}
}

// last reports whether an error of the activity ends the delivery. It does not
// when Temporal's count of attempts has those that a killed worker never began.
func last(err error) bool {
	var (
		failure *temporal.ApplicationError
		number  = webhook.MaxAttempts
	)
	if !errors.As(err, &failure) { // the last one timed out
		return false
	}
	return failure.Type() != activities.ErrTypeReceiverRefused || failure.Details(&number) != nil || number >= webhook.MaxAttempts
}

// delivery is the state of a run between its attempts.
type delivery struct {
	in               WebhookDeliveryInput
	retryNow, resume workflow.ReceiveChannel
	made             int       // attempts so far
	refused          string    // why the local attempt failed, until the activity has reported it
	due              time.Time // when the next follows then
	hurried          bool      // retry_now came, and no attempt has followed
	reset            bool      // an operator reset the activity, and no attempt has followed
	away             int       // times in a row that PostgreSQL was away
}

// drain reads the signals that came before an attempt: what comes now is the
// attempt that was asked for, and a hold that is put after them needs another
// resume. Else each resume that came while nothing was parked would wake the
// delivery once it is.
func (d *delivery) drain(ctx workflow.Context) {
	for d.retryNow.ReceiveAsync(nil) {
		d.hurried = true
	}
	if d.resume.Len() == 0 || workflow.GetVersion(ctx, changeDropResumes, workflow.DefaultVersion, 1) == workflow.DefaultVersion {
		return
	}
	for d.resume.ReceiveAsync(nil) {
	}
}

// continued lets a new run of Temporal's go on with the same run of the log.
func (d *delivery) continued(ctx workflow.Context) error {
	d.drain(ctx)
	in := d.in
	in.Continued = &ContinuedDelivery{RunID: in.logRun(ctx), Made: d.made, Hurried: d.hurried, Reset: d.reset, Away: d.away}
	return workflow.NewContinueAsNewError(ctx, TypeWebhookDelivery, in)
}

// send makes attempts until one succeeds, none is left, none can be made, or
// retry_now comes.
func (d *delivery) send(ctx workflow.Context) (sent activities.SendAttemptResult, err error) {
	if ctx.Err() != nil {
		return sent, ctx.Err()
	}
	d.drain(ctx)
	asked, in := d.hurried, activities.SendAttemptInput{
		DeliveryInput: d.in.delivery(ctx), EndpointID: d.in.EndpointID, Host: d.in.Host, Made: d.made, Hurried: d.hurried, NewRun: d.reset,
	}
	d.hurried = false
	if d.made == 0 && d.refused == "" && !d.reset {
		sent, err = d.sendFirst(ctx, in)
	} else {
		sent, err = d.sendOnSchedule(ctx, in)
	}
	if err == nil && sent.Status == webhook.DeliveryPending {
		d.hurried = d.hurried || asked // it has not been made yet
		d.reset = d.reset || sent.Reset
	} else {
		d.reset = false
	}
	return sent, err
}

// sendFirst makes the first attempt of a run within a workflow task, mostly its
// first: most deliveries need no other, and are spared the dispatch of an
// activity. After a reset of the activity it is not for this: a local activity
// whose worker died does not know whether it began a new run.
func (d *delivery) sendFirst(ctx workflow.Context, in activities.SendAttemptInput) (sent activities.SendAttemptResult, err error) {
	var a *activities.Deliveries
	whole, _ := workflow.NewDisconnectedContext(ctx) // an attempt under way is awaited, whoever cancels
	options := workflow.WithLocalActivityOptions(whole, firstAttemptOptions(d.in.Host))
	err = workflow.ExecuteLocalActivity(options, a.SendAttempt, in).Get(ctx, &sent)
	var failure *temporal.ApplicationError
	if errors.As(err, &failure) {
		d.refused, d.due = failure.Message(), workflow.Now(ctx).Add(failure.NextRetryDelay())
	}
	return sent, err
}

// sendOnSchedule makes attempts, each when the schedule says.
func (d *delivery) sendOnSchedule(ctx workflow.Context, in activities.SendAttemptInput) (sent activities.SendAttemptResult, err error) {
	var a *activities.Deliveries
	if d.refused != "" && !in.Hurried { // else there is nothing to wait for
		in.Made, in.Refused, in.Due = 0, d.refused, d.due
	}
	d.refused = ""
	sending, hurry := workflow.WithCancel(workflow.WithActivityOptions(ctx, sendOptions(in.Made, "attempt to "+d.in.Host)))
	attempts := workflow.ExecuteActivity(sending, a.SendAttempt, in)
	selector := workflow.NewSelector(ctx)
	selector.AddFuture(attempts, func(workflow.Future) {})
	selector.AddReceive(d.retryNow, func(c workflow.ReceiveChannel, _ bool) {
		c.Receive(ctx, nil)
		d.hurried = true
		hurry() // ends the waiting; an attempt under way is awaited
	})
	for !attempts.IsReady() {
		selector.Select(ctx)
	}
	err = attempts.Get(ctx, &sent)
	return sent, err
}

// wait waits until it makes sense to try again what could not be sent.
func (d *delivery) wait(ctx workflow.Context, sent activities.SendAttemptResult) error {
	if sent.Reset {
		return ctx.Err()
	}
	if sent.Parked {
		workflow.SetCurrentDetails(ctx, "on hold: waits for the signal "+SignalResume)
		defer workflow.SetCurrentDetails(ctx, "")
		waiting(ctx, d.resume, new(bool)).Select(ctx)
		return ctx.Err()
	}
	wait := sent.Wait
	if wait == 0 {
		d.away++
		wait = min(time.Second<<min(d.away, 10), maxAwayDelay)
	} else {
		d.away = 0
	}
	timer, stop := workflow.WithCancel(ctx)
	defer stop()
	selector := waiting(ctx, d.retryNow, &d.hurried)
	selector.AddFuture(workflow.NewTimer(timer, wait), func(workflow.Future) {})
	selector.Select(ctx)
	return ctx.Err()
}

// waiting selects a signal, which it notes, and the cancellation of the run.
func waiting(ctx workflow.Context, signal workflow.ReceiveChannel, came *bool) workflow.Selector {
	return workflow.NewSelector(ctx).
		AddReceive(ctx.Done(), func(workflow.ReceiveChannel, bool) {}).
		AddReceive(signal, func(c workflow.ReceiveChannel, _ bool) {
			c.Receive(ctx, nil)
			*came = true
		})
}

// count finds out how many attempts were made: a canceled activity does not say.
func (d *delivery) count(ctx workflow.Context) error {
	var a *activities.Deliveries
	return workflow.ExecuteLocalActivity(workflow.WithLocalActivityOptions(ctx, decideOptions), a.CountAttempts, d.in.delivery(ctx)).Get(ctx, &d.made)
}
