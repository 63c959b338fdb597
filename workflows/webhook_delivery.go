package workflows

import (
	"time"

	"go.temporal.io/sdk/workflow"

	"example.com/checkout/activities"
	"example.com/checkout/workflows/webhook"
)

// WebhookDelivery brings one event to one address in at most six attempts, on
// the schedule of the interface document ("Delivery and retries"). A run that
// used them all up fails with DeliveryPermanentlyFailed. A new run of the same
// workflow id, however it is started, is a replay; so is a reset to any event.
// Only a run that continues as new goes on with its attempts.
//
// PostgreSQL decides what each attempt does; webhook.Standing.Decide has the rules.
// Signals: retry_now makes the next attempt at once, resume wakes a delivery that
// is on hold.
func WebhookDelivery(ctx workflow.Context, in WebhookDeliveryInput) (WebhookDeliveryResult, error) {
	var (
		a *activities.Deliveries
		d = newDelivery(ctx, in)
	)
	for {
		d.readSignals(ctx)
		if historyIsLong(ctx) && ctx.Err() == nil {
			return WebhookDeliveryResult{}, d.continueAsNew(ctx)
		}

		sent, refused := d.send(ctx)
		is, err := sent.DeliveryStanding, error(nil)
		switch {
		case isNotFound(refused):
			return WebhookDeliveryResult{}, errWithoutRow
		case refused != nil && ctx.Err() != nil: // canceled, perhaps while an attempt was under way that failed
			err = record(ctx, a.CancelDelivery, d.ref, &is)
			return WebhookDeliveryResult{canceledUnlessDelivered(is.Status)}, err
		case refused != nil: // the row knows whether that was the last attempt
			err = record(ctx, a.FailDelivery, d.ref, &is)
		case sent.Unrecorded != nil: // the receiver has the event, PostgreSQL was away
			accepted := activities.RecordAttemptInput{DeliveryInput: d.ref, Attempt: *sent.Unrecorded}
			err = record(ctx, a.RecordAttempt, accepted, nil)
		case is.Status == webhook.DeliveryPending:
			d.wait(ctx, sent)
		}

		switch {
		case err != nil:
			return WebhookDeliveryResult{}, err
		case is.Status == webhook.DeliveryPending:
			d.made = is.Made
		case wasReset(ctx) && is.RunID != d.runID(ctx): // the end of the run that was reset
			d.made, d.scheduled = 0, false
		case is.Status == webhook.DeliveryFailed && refused != nil:
			return WebhookDeliveryResult{}, permanentlyFailed(ctx, refused)
		default:
			return WebhookDeliveryResult{is.Status}, nil
		}
	}
}

// delivery is the state of a run between its attempts.
type delivery struct {
	in               WebhookDeliveryInput
	ref              activities.DeliveryInput
	retryNow, resume workflow.ReceiveChannel
	made             int  // attempts so far
	scheduled        bool // the first attempt was made: the retry policy has the others
	away             int  // times in a row that PostgreSQL was away
}

// send makes attempts until one is accepted, none is left, none can be made now,
// or retry_now comes. The first is a local activity: most deliveries need no other,
// and are spared the dispatch of an activity.
func (d *delivery) send(ctx workflow.Context) (sent activities.SendAttemptResult, err error) {
	if ctx.Err() != nil {
		return sent, ctx.Err()
	}
	var a *activities.Deliveries
	in := activities.SendAttemptInput{DeliveryInput: d.ref, EndpointID: d.in.EndpointID, Host: d.in.Host, Made: d.made}
	if !d.scheduled {
		whole, _ := workflow.NewDisconnectedContext(ctx) // an attempt under way is awaited, whoever cancels
		local := workflow.WithLocalActivityOptions(whole, firstAttemptOptions(d.in.Host))
		err = workflow.ExecuteLocalActivity(local, a.SendAttempt, in).Get(ctx, &sent)
		if err == nil || isNotFound(err) {
			return sent, err
		}
		d.scheduled = true
	}

	sending, hurry := workflow.WithCancel(workflow.WithActivityOptions(ctx, sendOptions(d.made, d.in.Host)))
	attempts := workflow.ExecuteActivity(sending, a.SendAttempt, in)
	_ = workflow.Await(ctx, func() bool { return attempts.IsReady() || d.retryNow.Len() > 0 }) // canceled: so are they
	if !attempts.IsReady() {
		hurry() // ends the waiting; an attempt under way is awaited
	}
	err = attempts.Get(ctx, &sent)
	return sent, err
}

// readSignals notes a retry_now in the row, and forgets the resumes that came while
// nothing waited for one: else each would wake the delivery once it is on hold.
func (d *delivery) readSignals(ctx workflow.Context) {
	drop(d.resume)
	if drop(d.retryNow) {
		var a *activities.Deliveries
		local := workflow.WithLocalActivityOptions(ctx, decideOptions)
		_ = workflow.ExecuteLocalActivity(local, a.HurryDelivery, d.ref).Get(ctx, nil) // only a cancellation ends it
	}
}

// wait waits until it makes sense to try again what could not be sent, or until the
// run is canceled.
func (d *delivery) wait(ctx workflow.Context, sent activities.SendAttemptResult) {
	if sent.Reason == activities.ReasonAway {
		d.away++
		sent.Wait = min(time.Second<<min(d.away, 10), maxAwayDelay)
	} else {
		d.away = 0
	}
	switch sent.Reason {
	case activities.ReasonReset: // nothing to wait for
	case activities.ReasonHeld:
		workflow.SetCurrentDetails(ctx, "on hold: waits for the signal "+SignalResume)
		_ = workflow.Await(ctx, func() bool { return d.resume.Len() > 0 })
		workflow.SetCurrentDetails(ctx, "")
	default:
		_, _ = workflow.AwaitWithTimeout(ctx, sent.Wait, func() bool { return d.retryNow.Len() > 0 })
	}
}
