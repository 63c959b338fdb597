package runs

import (
	"context"

	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/contract"
)

// StartPictureFetch starts the run that fetches a picture. A repeat changes nothing. It returns
// ErrOutcomeUnknown.
func (c *Client) StartPictureFetch(ctx context.Context, ref checkout.Ref) error {
	_, err := c.Restart(ctx, contract.Orphan{Ref: ref}, false)
	return err
}
