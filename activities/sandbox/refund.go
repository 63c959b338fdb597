package sandbox

import (
	"context"
	"errors"

	"example.com/checkout/storage"
	"example.com/checkout/workflows/books"
	"example.com/checkout/workflows/checkout"
)

// fates are the statuses of a card's refunds: at first, and after SettleAfter. Refunds of other cards succeed at once.
var fates = map[behavior][2]checkout.RefundStatus{
	refundPends:    {checkout.RefundPending, checkout.RefundSucceeded},
	refundReturned: {checkout.RefundSucceeded, checkout.RefundFailed},
}

// Refund implements checkout.CardNetwork. A repeat returns the refund as it is now. The sandbox refuses more than what
// is left of the charge, an amount that is not above 0, a disputed charge, and a charge that it does not have any more.
func (n *CardNetwork) Refund(ctx context.Context, req checkout.RefundRequest) (checkout.RefundResult, error) {
	refused := checkout.RefundResult{Status: checkout.RefundFailed}
	c, err := n.Sandbox.SandboxCharge(ctx, req.Reference)
	switch {
	case errors.Is(err, checkout.ErrNotFound), err == nil && c.Outcome != checkout.OutcomeSucceeded,
		behavior(c.Behavior) == refundRefused:
		refused.Why = "charge_not_refundable"
		return refused, nil
	case err != nil:
		return checkout.RefundResult{}, err
	case req.Amount <= 0:
		refused.Why = "parameter_invalid_integer"
		return refused, nil
	}

	fate, special := fates[behavior(c.Behavior)]
	if !special {
		fate = [2]checkout.RefundStatus{checkout.RefundSucceeded, checkout.RefundSucceeded}
	}
	r, err := n.Sandbox.CreateSandboxRefund(ctx, storage.SandboxRefund{
		ID: req.ID, TransactionID: req.Reference, Amount: req.Amount, Status: fate[0],
	}, fate[1], n.SettleAfter)
	if errors.Is(err, checkout.ErrNotFound) {
		refused.Why = "amount_too_large"
		d, _ := n.Sandbox.SandboxDispute(ctx, req.Reference) // of an unknown one no money is held
		if where := riskStatuses[d.Status]; where == books.RiskOpen || where == books.RiskLost {
			refused.Why = "charge_disputed"
		}
		return refused, nil
	}
	if err != nil {
		return checkout.RefundResult{}, err
	}
	if special {
		n.signalDueIn(n.SettleAfter)
	}
	got := checkout.RefundResult{Status: r.Status, Reference: r.ID, Amount: r.Amount}
	if r.Status == checkout.RefundFailed {
		got.Why = "expired_or_canceled_card"
	}
	return got, nil
}
