package action

import (
	"context"
	"fmt"

	"example.com/checkout/storage"
	"example.com/checkout/workflows/checkout"
)

// SubmitEvidence stores evidence that passes Check, and starts the run that sends it. A repeat with the same request
// returns the dispute as it is now. Errors: those of storage.Disputes.SubmitEvidence.
func (a Actions) SubmitEvidence(ctx context.Context, o storage.EvidenceOrder, by By) (checkout.Dispute, error) {
	o.SubmittedBy = by.Actor
	detail := fmt.Sprintf("texts: %d, files: %d", len(o.Evidence.Texts), len(o.Evidence.Files)) // they are the customer's
	got, err := a.Store.Disputes.SubmitEvidence(ctx, o, by.Entry(o.Dispute, "dispute.answered", detail))
	if err != nil {
		return got, err
	}
	// An earlier run may have sent evidence that the network refused.
	a.logLeftover(ctx, a.Runs.StartAgain(ctx, o.Dispute))
	return got, nil
}
