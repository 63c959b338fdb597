package activities

import (
	"context"
	"errors"

	"example.com/checkout/storage"
	"example.com/checkout/workflows/checkout"
)

// Respondent is a card network that takes evidence about disputes.
type Respondent interface {
	// Respond answers a dispute for good. A repeat does nothing. It returns a *checkout.EvidenceError,
	// checkout.ErrNotFound, and checkout.ErrConflict when the bank takes no evidence, or none any more. Any other error
	// means that the outcome is unknown.
	Respond(ctx context.Context, disputeID string, e checkout.Evidence) error
}

// SendEvidence sends the evidence about a dispute to the card network of its charge, and records that the network has
// it or why not. A repeat sends nothing twice, and without evidence there is nothing to do.
func (a *Payments) SendEvidence(ctx context.Context, in checkout.Ref) (failure checkout.EvidenceFailure, err error) {
	e, err := a.Disputes.EvidenceToSend(ctx, in)
	if errors.Is(err, checkout.ErrNotFound) {
		return "", nil
	}
	if err != nil {
		return "", asFinal(ctx, err, "")
	}
	cards, ok := a.networks(in.Mode).Cards[e.Acquirer].(Respondent)
	if !ok {
		return "", asFinal(ctx, ErrNoNetwork, "")
	}
	err = cards.Respond(ctx, e.RiskID, e.Content)
	if refused(e, err) {
		logger(ctx).WarnContext(ctx, "the card network does not take evidence", "id", in.ID, "error", err)
		failure, err = checkout.EvidenceNotAccepted, nil
	}
	if err == nil {
		err = a.Disputes.FinishEvidence(ctx, in.Owner, e, failure)
	}
	return failure, asFinal(ctx, err, "")
}

// refused reports whether no repeat helps. A dispute that the network does not know may belong to an account that is
// not configured at present: that counts while the bank takes evidence.
func refused(e storage.EvidenceToSend, err error) bool {
	_, unfit := errors.AsType[*checkout.EvidenceError](err)
	return unfit || errors.Is(err, checkout.ErrConflict) || e.Over && errors.Is(err, checkout.ErrNotFound)
}
