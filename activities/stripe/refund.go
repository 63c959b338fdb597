package stripe

import (
	"context"
	"errors"
	"fmt"

	"github.com/stripe/stripe-go/v85"

	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/money"
)

// metadataRefund names our refund in the refund's metadata.
const metadataRefund = "refund_id"

// Refund implements checkout.CardNetwork. It looks for a refund of that id first, because Stripe forgets idempotency
// keys after 24 hours. A refund that Stripe refuses for good is RefundFailed and has no reference. The customer's bank
// may return a refund days later, so a succeeded one may still fail: Risks returns its present state.
func (n *Network) Refund(ctx context.Context, req checkout.RefundRequest) (checkout.RefundResult, error) {
	if _, err := n.intent(ctx, req.Reference); err != nil {
		return checkout.RefundResult{}, err
	}
	if found, ok, err := n.findRefund(ctx, req.Reference, req.ID); ok || err != nil {
		return found, err
	}
	params := &stripe.RefundCreateParams{
		PaymentIntent: stripe.String(req.Reference),
		Amount:        stripe.Int64(int64(req.Amount)),
		Metadata:      map[string]string{metadataRefund: req.ID},
	}
	if req.Reason != "" {
		params.Reason = stripe.String(string(req.Reason))
	}
	params.SetIdempotencyKey(req.ID)
	if _, err := n.api.V1Refunds.Create(ctx, params); err != nil {
		reason := publicError(err)
		// The state decides: the refund may exist although the answer says otherwise.
		found, ok, err := n.findRefund(ctx, req.Reference, req.ID)
		var refusal *Error
		switch {
		case ok || err != nil:
			return found, err
		case errors.As(reason, &refusal) && refusal.definite():
			return checkout.RefundResult{Status: checkout.RefundFailed, Why: refusal.Code}, nil
		}
		return checkout.RefundResult{}, fmt.Errorf("refund %s of %s: %w", req.ID, req.Reference, reason)
	}
	found, ok, err := n.findRefund(ctx, req.Reference, req.ID)
	if err == nil && !ok {
		err = fmt.Errorf("refund %s of %s: %w", req.ID, req.Reference, ErrNoAnswer)
	}
	return found, err
}

// findRefund looks for our refund among the refunds of the intent.
func (n *Network) findRefund(ctx context.Context, reference, refundID string) (checkout.RefundResult, bool, error) {
	params := &stripe.RefundListParams{PaymentIntent: stripe.String(reference)}
	params.Limit = stripe.Int64(100)
	for r, err := range n.api.V1Refunds.List(ctx, params).All(ctx) {
		if err != nil {
			return checkout.RefundResult{}, false, fmt.Errorf("refunds of %s: %w", reference, publicError(err))
		}
		if r.Metadata[metadataRefund] == refundID {
			return checkout.RefundResult{
				Status: refundStatus(r.Status), Reference: r.ID, Amount: money.Amount(r.Amount),
				Why: safeWord(string(r.FailureReason)),
			}, true, nil
		}
	}
	return checkout.RefundResult{}, false, nil
}

// refundStatus maps the state of a refund. A refund that needs an action of the customer waits, and a canceled one has
// failed. An unknown status waits.
func refundStatus(s stripe.RefundStatus) checkout.RefundStatus {
	switch s {
	case stripe.RefundStatusSucceeded:
		return checkout.RefundSucceeded
	case stripe.RefundStatusFailed, stripe.RefundStatusCanceled:
		return checkout.RefundFailed
	}
	return checkout.RefundPending
}
