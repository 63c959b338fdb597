package runs

import (
	"context"

	"example.com/checkout/activities"
	"example.com/checkout/workflows/checkout"
)

// StartPictureFetch starts the run that fetches a picture. A repeat changes nothing. It returns
// ErrOutcomeUnknown.
func (c *Client) StartPictureFetch(ctx context.Context, ref checkout.Ref) error {
	_, err := c.Restart(ctx, activities.Orphan{Ref: ref}, false)
	return err
}
