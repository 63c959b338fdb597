package action

import (
	"context"

	"example.com/checkout/storage"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/runs"
)

// Payouts acts on payouts. The transaction of a change writes its entry to the audit log.
type Payouts struct {
	Store     *storage.Store
	Workflows *runs.Client
	// LeftToReconcile receives an error of a step that Reconcile repeats within a minute.
	LeftToReconcile func(ctx context.Context, err error)
}

// RetryPayout makes a failed payout pending again and starts its run. It returns the payout as it was
// made pending, with the errors of storage.Store.RetryPayout.
func (p Payouts) RetryPayout(
	ctx context.Context, ref checkout.Ref, by checkout.AuditEntry,
) (checkout.Payout, error) {
	got, err := p.Store.RetryPayout(ctx, ref, by)
	if err != nil {
		return got, err
	}
	if err := p.Workflows.StartPayout(ctx, ref); err != nil {
		p.LeftToReconcile(ctx, err)
	}
	return got, nil
}
