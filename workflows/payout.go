package workflows

import (
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"example.com/checkout/activities"
	"example.com/checkout/workflows/checkout"
)

// PayoutInput names the payout.
type PayoutInput struct {
	Owner
	PayoutID string `json:"payout_id"`
}

// PayoutResult says how the payout ended.
type PayoutResult struct {
	Failure checkout.PayoutFailure `json:"failure,omitempty"` // "" when it was sent
}

// Payout sends the crypto payout of one completed session and tells the
// merchant: payout.sent or payout.failed. Source: interface document, "Event
// types".
func Payout(ctx workflow.Context, in PayoutInput) (PayoutResult, error) {
	var (
		a    *activities.Payments
		ref  = activities.PayoutInput{MerchantID: in.MerchantID, Mode: in.Mode, PayoutID: in.PayoutID}
		sent activities.BroadcastPayoutResult
	)
	// A transfer that is signed must be followed to its end: an operator's
	// cancel comes too late.
	ctx, _ = workflow.NewDisconnectedContext(ctx)
	// Most transfers are taken at once, and are spared the dispatch of an activity.
	err := workflow.ExecuteLocalActivity(workflow.WithLocalActivityOptions(ctx, firstBroadcastOptions), a.BroadcastPayout, ref).Get(ctx, &sent)
	if err != nil && !isType(err, activities.ErrTypePayoutNotFound) {
		err = workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, broadcastOptions), a.BroadcastPayout, ref).Get(ctx, &sent)
	}
	if isType(err, activities.ErrTypePayoutNotFound) {
		return PayoutResult{}, temporal.NewNonRetryableApplicationError("no such payout", ErrTypePayoutWithoutRow, nil)
	}
	if err != nil {
		return PayoutResult{}, err
	}
	var settled activities.Settlement
	finish := activities.FinishPayoutInput{PayoutInput: ref, Failure: sent.Failure}
	if err := workflow.ExecuteLocalActivity(workflow.WithLocalActivityOptions(ctx, decideOptions), a.FinishPayout, finish).Get(ctx, &settled); err != nil {
		return PayoutResult{}, err
	}
	return PayoutResult{sent.Failure}, awaitStarts(ctx, startDeliveries(ctx, in.Owner, settled.EventType, settled.Deliveries))
}
