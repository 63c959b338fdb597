package workflows

import (
	"go.temporal.io/sdk/workflow"

	"example.com/checkout/activities"
	"example.com/checkout/workflows/contract"
)

// PictureFetch gets our copy of the picture of a line item, or notes that it cannot be had. The page works
// without it.
func PictureFetch(ctx workflow.Context, in contract.PictureFetchInput) error {
	var p *activities.Pictures
	return workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, fetchOptions), p.FetchPicture, in.Ref).Get(ctx, nil)
}
