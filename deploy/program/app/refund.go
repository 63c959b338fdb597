package app

import (
	"context"
	"errors"
	"fmt"

	"example.com/checkout/api/action"
	"example.com/checkout/deploy/program/config"
	"example.com/checkout/deploy/program/service"
	"example.com/checkout/storage"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/runs"
)

var refundCommand = command{
	use:   "refund txn_…",
	short: "Refund a live payment to the customer instead of paying the merchant",
	long: `Refunds what is left of a live payment to the customer, if no transfer of its payout is signed yet. The
payout fails, the merchant gets payout.failed, and nothing is signed for it unless the refund fails. The
session stays completed. The worker sends the refund to the card network and follows it.

The command first compares the chain with the database, so it needs the settings of live mode. It refuses
while a treasury account of the chain is frozen: the database may not know the latest payments. It refuses
while a dispute of the charge is open, because the card network then makes no refunds.

The command is idempotent and shows the refund's status. A failed refund is ordered again.`,
	example: "  checkout refund txn_06gztkasqmwac4tmdh4b4ta89w",
	args:    idAnd(checkout.PrefixTransaction, "the dashboard"),
	run:     withStore(storeCall.refund),
}

func (c storeCall) refund(ctx context.Context) (result, error) {
	err := service.CompareTreasury(ctx, c.cfg.Live, c.Store)
	if errors.Is(err, storage.ErrNotCompared) {
		return nil, fmt.Errorf("nothing is refunded: %w; a worker that has started follows its accounts within a minute. "+
			"Start one with this account, or give this command the settings of the workers", err)
	}
	if err != nil {
		return nil, fmt.Errorf("nothing is refunded: the chain may have paid the merchant, and it cannot be asked: %w", err)
	}
	r, err := c.orderRefund(ctx, c.args[0])
	if err != nil {
		return nil, err
	}
	return result{fmt.Sprintf("the refund %s of %s %s", r.ID, c.args[0], refundState(ctx, c.cfg, r))}, nil
}

func refundState(ctx context.Context, cfg config.Config, r checkout.Refund) string {
	switch {
	case r.Status == checkout.RefundFailed:
		return "has failed; checkout finding list says why"
	case r.Status == checkout.RefundSucceeded && r.Amount == 0:
		return "is not needed: the customer already has the whole payment; the payout has failed"
	case r.Status == checkout.RefundSucceeded:
		return "is made"
	case r.NetworkRef != "":
		return "was sent: the card network has it as " + r.NetworkRef + ", and the bank has not decided it yet"
	}
	ordered := "is ordered, at " + showTime(&r.CreatedAt) + ", and not sent yet; the worker sends it "
	if startRefund(ctx, cfg, r.Ref) {
		return ordered + "now"
	}
	return ordered + "within 2 minutes"
}

// orderRefund stores the refund, unless one stands.
func (c storeCall) orderRefund(ctx context.Context, transactionID string) (checkout.Refund, error) {
	payout, err := c.Refunds.LivePayoutOf(ctx, transactionID)
	var r checkout.Refund
	if err == nil {
		entry := action.Operator.Entry(payout.Owner.Ref(transactionID), "transaction.refunded", "")
		r, err = c.Refunds.RefundPayout(ctx, payout, entry)
	} else if errors.Is(err, checkout.ErrNotFound) {
		r, err = c.Refunds.RefundUnmatched(ctx, transactionID)
	}
	switch {
	case errors.Is(err, checkout.ErrNotFound):
		return r, fmt.Errorf("there is no paid live transaction %s", transactionID)
	case errors.Is(err, checkout.ErrTransferStands):
		return r, fmt.Errorf("nothing is refunded: a transfer of %s is signed, and it may still pay the merchant", payout.ID)
	case errors.Is(err, checkout.ErrDisputeOpen):
		return r, errors.New("nothing is refunded: a dispute of the charge is open, and the card network makes no refunds" +
			" meanwhile; answer the dispute there, and run this again when it is won")
	case errors.Is(err, storage.ErrFrozen):
		return r, fmt.Errorf("nothing is refunded, because the chain may have paid %s: %w; run checkout treasury recover,"+
			" then checkout treasury thaw", payout.ID, err)
	case errors.Is(err, storage.ErrNotComparedLately):
		return r, fmt.Errorf("nothing is refunded, because the chain may have paid %s: %w; workers compare it every 15 s, "+
			"and after an outage read the missing blocks first: run this again in a minute", payout.ID, err)
	case errors.Is(err, storage.ErrNotCompared):
		return r, fmt.Errorf("nothing is refunded, because the chain may have paid %s: %w; compare by hand, see"+
			" \"An old backup\" in the documents", payout.ID, err)
	}
	return r, err
}

// startRefund starts the run of a refund and the deliveries of its payout's event.
func startRefund(ctx context.Context, cfg config.Config, ref checkout.Ref) bool {
	start := func(client *runs.Client, ctx context.Context) error { return client.Start(ctx, ref) }
	return startSchedules(ctx, cfg, start, (*runs.Client).ReconcileNow)
}

// startSchedules starts schedules. It returns false when Temporal does not answer: they run anyway.
func startSchedules(
	ctx context.Context, cfg config.Config, schedules ...func(*runs.Client, context.Context) error,
) bool {
	temporal, err := service.DialTemporal(ctx, cfg.Temporal)
	if err != nil {
		return false
	}
	defer temporal.Close()
	for _, start := range schedules {
		err = errors.Join(err, start(&runs.Client{Temporal: temporal}, ctx))
	}
	return err == nil
}
