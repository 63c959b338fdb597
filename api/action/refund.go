package action

import (
	"context"

	"example.com/checkout/storage"
	"example.com/checkout/workflows/checkout"
)

// RefundSession orders a refund of a session's payment and starts its run. A repeat with the same id returns the refund
// as it is now. Errors: those of storage.Refunds.OrderRefund.
func (a Actions) RefundSession(ctx context.Context, o storage.RefundOrder, by By) (checkout.Refund, error) {
	detail := "of " + o.Session.ID
	if o.Amount > 0 {
		detail = o.Amount.String() + " " + detail
	}
	ref := o.Session.Owner.Ref(o.ID)
	got, err := a.Store.Refunds.OrderRefund(ctx, o, by.Entry(ref, "payment.refunded", detail))
	if err != nil {
		return got, err
	}
	a.logLeftover(ctx, a.Runs.Start(ctx, ref))
	return got, nil
}
