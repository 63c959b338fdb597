package app

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"example.com/checkout/api/action"
	"example.com/checkout/deploy/program/config"
	"example.com/checkout/storage"
	"example.com/checkout/workflows/checkout"
)

func (c *call) payoutCommand() *cobra.Command {
	return parentOf(&cobra.Command{
		Use:   "payout",
		Short: "Show, release or retry a payout",
		Long:  `Works on one payout of any merchant.`,
	}, c.payoutShowCommand(), c.payoutReleaseCommand(), c.payoutRetryCommand())
}

func (c *call) payoutRetryCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "retry po_…",
		Short: "Retry a failed payout",
		Long: `Makes a failed payout pending again and starts its run, with the same id and source amount and the
merchant's current payout address. Once the lock of its exchange rate has ended, the transfer uses the
lower of that rate and the rate at signing. The command refuses while a signed transfer may still pay
the payout, and after a reverted transfer until the payout address has changed. The merchant's audit
log gets an entry.`,
		Example: "  checkout payout retry po_06gztkasqmwac4tmdh4b4ta89w",
		Args:    idAnd(checkout.PrefixPayout, showsPayouts),
		RunE:    c.storing(c.retryPayout),
	}
}

// retryPayout makes a failed payout pending and starts its run.
func (c *call) retryPayout(ctx context.Context, cfg config.Config, store *storage.Store, payoutID string) error {
	p, err := anyPayout(ctx, store, payoutID)
	if err != nil {
		return err
	}

	begun := "its run has started"
	err = acting(ctx, cfg, store, func(actions action.Actions) error {
		actions.LeftToReconcile = func(context.Context, error) {
			begun = "its run starts within two minutes, because Temporal did not answer"
		}
		p, err = actions.RetryPayout(ctx, p, action.Operator)
		return err
	})
	err = explained(err, checkout.ErrPayoutNotFailed, "payout %s has not failed", payoutID)
	err = explained(err, checkout.ErrTransferStands, "a signed transfer of payout %s may still pay it; run this "+
		"again when "+listsTreasury+" lists it no longer", payoutID)
	err = explained(err, checkout.ErrPaymentRefunded, "the payment of payout %s is refunded", payoutID)
	err = c.said(err, "%s is pending again, to %s; %s\n", p.ID, p.Destination, begun)
	if err == nil && !p.RateHolds(time.Now()) {
		_, err = fmt.Fprintf(c.out, "The lock of its exchange rate has ended: the transfer uses the rate %s, or a lower one "+
			"if the price is worse when it is signed.\n", p.ExchangeRate)
	}
	return err
}
