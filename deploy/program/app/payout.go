package app

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"example.com/checkout/api/action"
	"example.com/checkout/workflows/checkout"
)

// showsPayouts is where the ids of payouts are seen.
const showsPayouts = "the dashboard's page of a session or of the balance"

var payoutCommand = command{
	use:   "payout",
	short: "Show, release or retry a payout",
	long:  `Works on one payout of any merchant.`,
	children: []command{
		{
			use:   "show po_…",
			short: "Show a payout, its holds and the risks of its charge",
			args:  idAnd(checkout.PrefixPayout, showsPayouts),
			run:   withStore(storeCall.showPayout),
		},
		{
			use:   "release po_…",
			short: "Release a payout that is held for risk or size",
			long: `Releases a payout that only a person may release. Check it first with checkout payout show.

HELD risk: the charge may be reversed, because of a dispute, a fraud warning, or a refund made at the
card network. The merchant then owes the amount. A later change at the card network holds the payout
again.

HELD large: the payout is above CHECKOUT_LIVE_MAX_PAYOUT or the daily limit. A release overrides both
limits. If the payout fails and is retried, it must be released again.

Every other hold ends automatically. The merchant's audit log gets an entry.`,
			example: "  checkout payout release po_06gztkasqmwac4tmdh4b4ta89w",
			args:    idAnd(checkout.PrefixPayout, showsPayouts),
			run:     withStore(storeCall.releasePayout),
		},
		{
			use:   "retry po_…",
			short: "Retry a failed payout",
			long: `Makes a failed payout pending again and starts its run, with the same id and source amount and the
merchant's current payout address. Once the lock of its exchange rate has ended, the transfer uses the
lower of that rate and the rate at signing. The command refuses while a signed transfer may still pay
the payout, after a reverted transfer until the payout address has changed, and when refunds or other
deductions leave nothing of the payout. The merchant's audit log gets an entry.`,
			example: "  checkout payout retry po_06gztkasqmwac4tmdh4b4ta89w",
			args:    idAnd(checkout.PrefixPayout, showsPayouts),
			run:     withStore(storeCall.retryPayout),
		},
	},
}

// payout finds the payout of any merchant that the command is about.
func (c storeCall) payout(ctx context.Context) (checkout.Payout, error) {
	p, err := c.Payouts.AnyPayout(ctx, c.args[0])
	return p, explain(err, checkout.ErrNotFound, "there is no payout %s", c.args[0])
}

func (c storeCall) showPayout(ctx context.Context) (result, error) {
	p, err := c.payout(ctx)
	if err != nil {
		return nil, err
	}
	payout := newTable(":PAYOUT", ":TRANSACTION", ":AMOUNT", ":STATUS", ":HELD", ":NEXT TRY")
	amount := fmt.Sprintf("%s %s", p.SourceAmount, p.SourceCurrency)
	payout.add(p.ID, cmp.Or(p.TransactionID, "balance payout"), amount, p.Status, p.Hold, p.NextActionAt)
	risks, err := c.Payouts.PayoutRisks(ctx, p.Ref)
	list := newTable(":RISK", ":KIND", ":STATUS", ":AMOUNT")
	for _, r := range risks {
		list.add(r.ID, r.Kind, r.Status, fmt.Sprintf("%s %s", r.Amount, r.Currency))
	}
	return resultOf(err, payout, list)
}

func (c storeCall) releasePayout(ctx context.Context) (result, error) {
	p, err := c.payout(ctx)
	if err != nil {
		return nil, err
	}
	err = c.Payouts.ReleasePayout(ctx, p.Ref,
		action.Operator.Entry(p.Ref, "payout.released", "it was held: "+string(p.Hold)))
	err = explain(err, checkout.ErrConflict,
		"payout %s is not held for risk or size; see checkout payout show %s", p.ID, p.ID)
	return resultLine(err, "%s is released; the worker tries it again within two minutes", p.ID)
}

// retryPayout makes a failed payout pending and starts its run.
func (c storeCall) retryPayout(ctx context.Context) (result, error) {
	p, err := c.payout(ctx)
	if err != nil {
		return nil, err
	}
	begun := "its run has started"
	err = c.withActions(ctx, func(actions action.Actions) error {
		actions.LeftToReconcile = func(context.Context, error) {
			begun = "its run starts within two minutes, because Temporal did not answer"
		}
		p, err = actions.RetryPayout(ctx, p, action.Operator)
		return err
	})
	id := c.args[0]
	err = explain(err, checkout.ErrPayoutNotFailed, "payout %s has not failed", id)
	err = explain(err, checkout.ErrTransferStands, "a signed transfer of payout %s may still pay it; run this "+
		"again when "+listsTreasury+" lists it no longer", id)
	err = explain(err, checkout.ErrPaymentRefunded, "the payment of payout %s is refunded", id)
	err = explain(err, checkout.ErrNothingLeft, "nothing is left of payout %s: deductions take all of it", id)
	got, err := resultLine(err, "%s is pending again, to %s; %s", p.ID, p.Destination, begun)
	if err == nil && !p.RateHolds(time.Now()) {
		got = append(got, fmt.Sprintf("The lock of its exchange rate has ended: the transfer uses the rate %s, or a lower "+
			"one if the price is worse when it is signed.", p.ExchangeRate))
	}
	return got, err
}
