package activities

import (
	"context"
	"errors"

	"example.com/checkout/storage"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/contract"
	"example.com/checkout/workflows/webhook"
)

// SendRefundResult is what became of a refund.
type SendRefundResult struct {
	Status     checkout.RefundStatus `json:"status,omitempty"`
	Waits      contract.RefundWaits  `json:"waits,omitempty"` // why a pending refund is followed later
	EventType  webhook.EventType     `json:"event_type,omitempty"`
	Deliveries []webhook.Dispatch    `json:"deliveries,omitempty"` // ordered by id
}

// SendRefund sends a refund to the card network of its charge, or reads how it stands there, and records the answer
// with its event and deliveries. A repeat refunds nothing twice: the refund's id is the network's idempotency key. A
// refund that failed is not sent again. It fails with RefundNotFound.
func (a *Payments) SendRefund(ctx context.Context, in checkout.Ref) (SendRefundResult, error) {
	r, err := a.Refunds.RefundToSend(ctx, in)
	if errors.Is(err, storage.ErrFrozen) || errors.Is(err, storage.ErrNotCompared) {
		logger(ctx).InfoContext(ctx, "a refund waits", "id", in.ID, "error", err)
		return a.postponed(ctx, in, r.Status, contract.RefundWaitsTreasury)
	}
	if err != nil {
		return SendRefundResult{}, asFinal(ctx, err, contract.ErrTypeRefundNotFound)
	}
	if r.Status == checkout.RefundFailed || r.Status == checkout.RefundSucceeded && r.NetworkRef == "" {
		return SendRefundResult{Status: r.Status}, nil // one that the network refused, or with nothing to send
	}
	cards, ok := a.networks(in.Mode).Cards[r.Acquirer]
	if !ok {
		return SendRefundResult{}, asFinal(ctx, ErrNoNetwork, "")
	}
	got, err := cards.Refund(ctx, checkout.RefundRequest{
		ID: r.ID, Reference: r.Reference, Amount: r.Amount, Reason: r.Reason,
	})
	if err != nil {
		return SendRefundResult{}, asFinal(ctx, err, "")
	}
	update, err := a.Refunds.RecordRefund(ctx, r.Refund, got)
	if err != nil {
		return SendRefundResult{}, asFinal(ctx, err, contract.ErrTypeRefundNotFound)
	}
	logFindings(ctx, update.Found)
	if update.Status == checkout.RefundPending {
		return a.postponed(ctx, in, update.Status, contract.RefundWaitsBank)
	}
	return SendRefundResult{Status: update.Status, EventType: update.EventType, Deliveries: update.Deliveries}, nil
}

func (a *Payments) postponed(
	ctx context.Context, in checkout.Ref, status checkout.RefundStatus, why contract.RefundWaits,
) (SendRefundResult, error) {
	return SendRefundResult{Status: status, Waits: why}, a.PostponeRefund(ctx, in)
}

// PostponeRefund sets when a pending refund is followed again.
func (a *Payments) PostponeRefund(ctx context.Context, in checkout.Ref) error {
	return asFinal(ctx, a.Refunds.PostponeRefund(ctx, in), "")
}
