package workflows

import (
	"go.temporal.io/sdk/workflow"

	"example.com/checkout/activities"
)

// TreasurySync follows the signed transfers of live payouts for one round: it sends them again, raises
// fees, notes what is final, and freezes an account with an outflow that is not ours. A schedule runs
// it every few seconds, one run at a time.
func TreasurySync(ctx workflow.Context) (activities.TreasuryReport, error) {
	var (
		t      *activities.Treasury
		report activities.TreasuryReport
	)
	ctx = workflow.WithActivityOptions(ctx, followOptions)
	if err := workflow.ExecuteActivity(ctx, t.SyncTreasury).Get(ctx, &report); err != nil {
		return report, err
	}
	var started []workflow.ChildWorkflowFuture
	for _, p := range report.Failed {
		started = append(started, startDeliveries(ctx, p.Owner, p.EventType, p.Deliveries)...)
	}
	return report, awaitStarts(ctx, started)
}

// BooksResult says what a run of Books found and did.
type BooksResult struct {
	Charges  int `json:"charges"`  // compared with the card network
	Found    int `json:"found"`    // new findings
	Refunded int `json:"refunded"` // refunds that were decided
}

// Books compares the live charges with the card network and makes the refunds that are stored. A
// schedule runs it.
func Books(ctx workflow.Context) (BooksResult, error) {
	var (
		b      *activities.Books
		found  activities.ReconcileChargesResult
		result BooksResult
	)
	ctx = workflow.WithActivityOptions(ctx, housekeepingOptions)
	comparing := workflow.ExecuteActivity(ctx, b.ReconcileCharges)
	if err := workflow.ExecuteActivity(ctx, b.SendRefunds).Get(ctx, &result.Refunded); err != nil {
		return result, err
	}
	err := comparing.Get(ctx, &found)
	result.Charges, result.Found = found.Charges, found.Found
	return result, err
}
