package stripe

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"

	"github.com/stripe/stripe-go/v85"

	"example.com/checkout/workflows/checkout"
)

var disputeShape = regexp.MustCompile(`^d[up]_[0-9A-Za-z_]{1,250}$`)

// Respond answers a dispute or an inquiry with evidence, for good. A repeat does nothing: the state of the dispute
// shows that evidence was sent. It returns a *checkout.EvidenceError, checkout.ErrNotFound, and checkout.ErrConflict
// when the bank takes no evidence, or none any more, or Stripe refuses it for good.
func (n *Network) Respond(ctx context.Context, disputeID string, e checkout.Evidence) error {
	if err := e.Check(); err != nil {
		return err
	}
	d, err := n.dispute(ctx, disputeID)
	if err != nil || answered(d) {
		return err
	}
	if !wantsEvidence(d) {
		return fmt.Errorf("%w: the bank takes no evidence about %s", checkout.ErrConflict, disputeID)
	}

	params, err := n.evidence(ctx, e)
	if err != nil {
		return fmt.Errorf("evidence about %s: %w", disputeID, err)
	}
	_, refusal := n.api.V1Disputes.Update(ctx, disputeID, params)
	if refusal == nil {
		return nil
	}
	// The state decides: the evidence may be there although the answer says otherwise.
	d, err = n.dispute(ctx, disputeID)
	if err != nil || answered(d) {
		return err
	}
	return fmt.Errorf("evidence about %s: %w", disputeID, asConflict(publicError(refusal)))
}

// evidence uploads the files and returns the whole form. A repeat uploads them again, and the first ones are not used.
func (n *Network) evidence(ctx context.Context, e checkout.Evidence) (*stripe.DisputeUpdateParams, error) {
	params := &stripe.DisputeUpdateParams{Submit: stripe.Bool(true)}
	for field, text := range e.Texts {
		params.AddExtra("evidence["+field+"]", text)
	}
	for field, content := range e.Files {
		file, err := n.api.V1Files.Create(ctx, &stripe.FileCreateParams{
			FileReader: bytes.NewReader(content), Filename: stripe.String(field + checkout.FileExtension(content)),
			Purpose: stripe.String(string(stripe.FilePurposeDisputeEvidence)),
		})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", field, asConflict(publicError(err)))
		}
		params.AddExtra("evidence["+field+"]", file.ID)
	}
	return params, nil
}

// dispute reads a dispute. It returns checkout.ErrNotFound.
func (n *Network) dispute(ctx context.Context, id string) (*stripe.Dispute, error) {
	if !disputeShape.MatchString(id) {
		return nil, fmt.Errorf("%w: %q is not the id of a dispute", checkout.ErrNotFound, id)
	}
	d, err := n.api.V1Disputes.Retrieve(ctx, id, nil)
	if refusal, ok := errors.AsType[*stripe.Error](err); ok && refusal.HTTPStatusCode == http.StatusNotFound {
		return nil, checkout.ErrNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("dispute %s: %w", id, publicError(err))
	}
	return d, nil
}

// answered reports whether evidence was sent. An answered inquiry that has become a dispute wants evidence anew.
func answered(d *stripe.Dispute) bool {
	return d.EvidenceDetails != nil && d.EvidenceDetails.SubmissionCount > 0 && !wantsEvidence(d)
}

// asConflict adds checkout.ErrConflict to a refusal that no repeat mends.
func asConflict(err error) error {
	if refusal, ok := errors.AsType[*Error](err); ok && refusal.definite() {
		return fmt.Errorf("%w: %w", checkout.ErrConflict, err)
	}
	return err
}
