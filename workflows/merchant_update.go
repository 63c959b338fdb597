package workflows

import (
	"go.temporal.io/sdk/workflow"

	"example.com/checkout/activities"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/webhook"
)

// MerchantUpdate starts a delivery to each registration that gets merchant.updated. The caller has already committed
// the change, its event and the deliveries. Source: api/interface.md, "Event types".
func MerchantUpdate(ctx workflow.Context, in checkout.Ref) error {
	var (
		a    *activities.Payments
		refs []webhook.Dispatch
	)
	err := workflow.ExecuteLocalActivity(workflow.WithLocalActivityOptions(ctx, decideOptions),
		a.EventDeliveries, in).Get(ctx, &refs)
	if err != nil {
		return err
	}
	return awaitStarts(ctx, startDeliveries(ctx, in.Owner, webhook.MerchantUpdated, refs))
}
