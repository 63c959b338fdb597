package workflows

import (
	"errors"

	"go.temporal.io/sdk/workflow"

	"example.com/checkout/activities"
	"example.com/checkout/workflows/contract"
)

// BooksResult is what a run of Books found and did.
type BooksResult struct {
	Reports  int `json:"reports"`  // of the card network, that are new
	Looked   int `json:"looked"`   // charges whose risks were asked
	Charges  int `json:"charges"`  // compared with the card network
	Found    int `json:"found"`    // new findings
	Refunded int `json:"refunded"` // by builds in which refunds had no run of their own
}

// Books reads what the card network of a mode reports, compares its charges with the transactions, and asks about old
// charges that the network had not booked. A part that fails stops no other. A schedule for each mode runs it.
func Books(ctx workflow.Context, in contract.ModeInput) (BooksResult, error) {
	var (
		b      *activities.Books
		found  activities.ReconcileChargesResult
		late   int
		result BooksResult
	)
	ctx = workflow.WithActivityOptions(ctx, housekeepingOptions)
	reading := workflow.ExecuteActivity(ctx, b.ReadReports, in)
	comparing := workflow.ExecuteActivity(ctx, b.ReconcileCharges, in)
	refunding := func() error { return nil }
	if workflow.GetVersion(ctx, "refunds have runs", workflow.DefaultVersion, 1) == workflow.DefaultVersion {
		sent := workflow.ExecuteActivity(ctx, b.SendRefunds, in)
		refunding = func() error { return sent.Get(ctx, &result.Refunded) }
	}
	booking := workflow.ExecuteActivity(ctx, b.BookOldCharges, in)
	err := reading.Get(ctx, &result.Reports)
	err = errors.Join(err,
		workflow.ExecuteActivity(ctx, b.LookAtCharges, in).Get(ctx, &result.Looked),
		refunding(),
		comparing.Get(ctx, &found),
		booking.Get(ctx, &late),
	)
	result.Charges, result.Found = found.Charges, found.Found+late
	return result, err
}
