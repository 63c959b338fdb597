package workflows

import (
	"go.temporal.io/sdk/workflow"

	"example.com/checkout/activities"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/webhook"
)

// MerchantUpdateInput names the event of the change.
type MerchantUpdateInput struct {
	checkout.Ref
}

// MerchantUpdate tells a merchant's registrations that settings changed: it
// starts a delivery for each. The change, its event and the deliveries are
// committed before. Source: interface document, "Event types".
func MerchantUpdate(ctx workflow.Context, in MerchantUpdateInput) error {
	var (
		a    *activities.Payments
		refs []webhook.Dispatch
	)
	err := workflow.ExecuteLocalActivity(workflow.WithLocalActivityOptions(ctx, decideOptions), a.EventDeliveries, in.Ref).Get(ctx, &refs)
	if err != nil {
		return err
	}
	return awaitStarts(ctx, startDeliveries(ctx, in.Owner, webhook.MerchantUpdated, refs))
}
