package workflows

import (
	"go.temporal.io/sdk/workflow"

	"example.com/checkout/activities"
	"example.com/checkout/workflows/checkout"
)

// PictureFetch gets our copy of the picture of a line item, or notes that it cannot be had. The page works
// without it. The picture's URL may hold a token, so only the row has it.
func PictureFetch(ctx workflow.Context, in checkout.Ref) error {
	var p *activities.Pictures
	return workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, fetchOptions), p.FetchPicture, in).Get(ctx, nil)
}
