package workflows

import (
	"fmt"
	"time"

	"go.temporal.io/sdk/workflow"

	"example.com/checkout/activities"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/contract"
	"example.com/checkout/workflows/webhook"
)

// WebhookDelivery sends one event to one address in at most webhook.MaxAttempts attempts, on the schedule of
// api/interface.md, "Delivery and retries". After as many failed attempts, the run fails with
// DeliveryPermanentlyFailed. Every new run of the same workflow id is a replay with all attempts anew, and so is a
// reset to any event. The exception is a run that continues as new: it keeps the count of its attempts.
//
// Before each attempt, webhook.DeliverySnapshot.Decide decides on the row in PostgreSQL whether it may be made.
// Signals: retry_now makes the next attempt at once; resume wakes a delivery that was on hold.
func WebhookDelivery(ctx workflow.Context, in contract.WebhookDeliveryInput) (contract.WebhookDeliveryResult, error) {
	var (
		a *activities.Deliveries
		d = newDelivery(ctx, in)
	)
	for {
		d.readSignals(ctx)
		if historyIsLong(ctx) && ctx.Err() == nil {
			return contract.WebhookDeliveryResult{}, d.continueAsNew(ctx)
		}
		sent, refused := d.send(ctx)
		d.due = sent.Due
		state, err := sent.DeliveryState, error(nil)
		switch {
		case isType(refused, contract.ErrTypeDeliveryNotFound):
			return contract.WebhookDeliveryResult{}, errWithoutRow
		case refused != nil && ctx.Err() != nil: // canceled, perhaps while an attempt was failing
			err = record(ctx, a.CancelDelivery, d.ref, &state)
			return contract.WebhookDeliveryResult{Status: canceledUnlessDelivered(state.Status)}, err
		case refused != nil: // the row says whether this was the last attempt
			err = record(ctx, a.FailDelivery, d.ref, &state)
		case sent.Unrecorded != nil: // the receiver has the event, but PostgreSQL could not note it
			accepted := activities.RecordAttemptInput{DeliveryInput: d.ref, Attempt: *sent.Unrecorded}
			err = record(ctx, a.RecordAttempt, accepted, nil)
		case state.Status == webhook.DeliveryPending:
			d.wait(ctx, sent)
		}

		switch {
		case err != nil:
			return contract.WebhookDeliveryResult{}, err
		case state.Status == webhook.DeliveryPending:
			d.made = state.AttemptsMade
		case wasReset(ctx) && state.RunID != d.runID(ctx): // the row shows the end of the run before the reset
			d.made, d.scheduled = 0, false
		case state.Status == webhook.DeliveryFailed && refused != nil:
			return contract.WebhookDeliveryResult{}, permanentlyFailed(ctx, refused)
		default:
			return contract.WebhookDeliveryResult{Status: state.Status}, nil
		}
	}
}

// delivery is the state of a run between its attempts.
type delivery struct {
	in               contract.WebhookDeliveryInput
	ref              activities.DeliveryInput
	retryNow, resume workflow.ReceiveChannel
	made             int       // attempts so far
	scheduled        bool      // the first attempt was made; the retry policy makes the others
	away             int       // successive tries that found PostgreSQL unavailable
	due              time.Time // of an attempt that waits for its busy endpoint
}

// send makes attempts until one is accepted, none is left, none can be made now, or retry_now comes. The first attempt
// is a local activity. Most deliveries need only one attempt, and a local activity costs no dispatch.
func (d *delivery) send(ctx workflow.Context) (sent contract.SendAttemptResult, err error) {
	if ctx.Err() != nil {
		return sent, ctx.Err()
	}
	var a *activities.Deliveries
	in := activities.SendAttemptInput{
		DeliveryInput: d.ref,
		EndpointID:    d.in.EndpointID,
		Host:          d.in.Host,
		Made:          d.made,
		Due:           d.due,
	}

	if !d.scheduled {
		whole, _ := workflow.NewDisconnectedContext(ctx) // after a cancel, wait for the attempt under way
		local := workflow.WithLocalActivityOptions(whole, firstAttemptOptions(d.in.Receiver()))
		err = workflow.ExecuteLocalActivity(local, a.SendAttempt, in).Get(ctx, &sent)
		if err == nil || isType(err, contract.ErrTypeDeliveryNotFound) {
			return sent, err
		}
		d.scheduled = true
	}

	sending, hurry := workflow.WithCancel(workflow.WithActivityOptions(ctx, sendOptions(d.made, d.in.Receiver())))
	attempts := workflow.ExecuteActivity(sending, a.SendAttempt, in)
	// A cancel ends the attempts too.
	_ = workflow.Await(ctx, func() bool { return attempts.IsReady() || d.retryNow.Len() > 0 })
	if !attempts.IsReady() {
		hurry() // ends the wait between attempts; Get waits for an attempt under way
	}
	err = attempts.Get(ctx, &sent)
	return sent, err
}

// readSignals notes a retry_now in the row. It drops the resume signals that came while the
// delivery did not wait for one: each would wake the delivery when it is next on hold.
func (d *delivery) readSignals(ctx workflow.Context) {
	drop(d.resume)
	if drop(d.retryNow) {
		var a *activities.Deliveries
		local := workflow.WithLocalActivityOptions(ctx, decideOptions)
		_ = workflow.ExecuteLocalActivity(local, a.HurryDelivery, d.ref).Get(ctx, nil)
		// the only error is a cancellation
	}
}

// wait waits after a try that sent nothing: until the next try makes sense, or until the run is canceled.
func (d *delivery) wait(ctx workflow.Context, sent contract.SendAttemptResult) {
	if sent.Reason == contract.ReasonAway {
		d.away++
		sent.Wait = min(time.Second<<min(d.away, 10), maxAwayDelay)
	} else {
		d.away = 0
	}

	switch sent.Reason {
	case contract.ReasonReset: // nothing to wait for
	case contract.ReasonHeld:
		workflow.SetCurrentDetails(ctx, "on hold: waits for the signal "+contract.SignalResume)
		_ = workflow.Await(ctx, func() bool { return d.resume.Len() > 0 })
	default:
		workflow.SetCurrentDetails(ctx, fmt.Sprintf("%s; the next try is at %s",
			sent.Details(), checkout.FormatTime(workflow.Now(ctx).Add(sent.Wait))))
		_, _ = workflow.AwaitWithTimeout(ctx, sent.Wait, func() bool { return d.retryNow.Len() > 0 })
	}
	workflow.SetCurrentDetails(ctx, "")
}
