package app

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"example.com/checkout/deploy/config"
	"example.com/checkout/deploy/service"
	"example.com/checkout/storage"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/runs"
)

func (c *call) refundCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "refund txn_…",
		Short: "Give a live payment back to the customer, not to the merchant",
		Long: `Gives a live payment back to the customer, whole, as long as no transfer of its payout is signed. The
payout fails, the merchant gets payout.failed, and nothing is ever signed for it. The session stays
completed. The worker sends the refund to the card network, and asks until it is decided.

A repeat changes nothing and says how the refund stands.`,
		Example: "  checkout refund txn_06gztkasqmwac4tmdh4b4ta89w",
		Args:    idAnd(checkout.PrefixTransaction, "the dashboard"),
		RunE: c.configured(ends, func(args []string) serviceAction {
			return storing(func(ctx context.Context, cfg config.Config, store *storage.Store) error {
				return c.refund(ctx, cfg, store, args[0])
			})
		}),
	}
}

func (c *call) refund(ctx context.Context, cfg config.Config, store *storage.Store, transactionID string) error {
	r, err := orderRefund(ctx, store, transactionID)
	if err != nil {
		return err
	}
	said := map[checkout.RefundStatus]string{
		checkout.RefundPending:   "is ordered; the worker sends it within 5 minutes",
		checkout.RefundSucceeded: "is made",
		checkout.RefundFailed:    "was refused by the card network; checkout treasury show has the finding",
	}[r.Status]
	if r.Status == checkout.RefundPending && hurryRefunds(ctx, cfg) {
		said = "is ordered; the worker sends it now"
	}
	_, err = fmt.Fprintf(c.out, "the refund %s of %s %s\n", r.ID, transactionID, said)
	return err
}

// orderRefund stores the refund, once.
func orderRefund(ctx context.Context, store *storage.Store, transactionID string) (checkout.Refund, error) {
	payout, err := store.LivePayoutOf(ctx, transactionID)
	if errors.Is(err, checkout.ErrNotFound) {
		return checkout.Refund{}, fmt.Errorf("there is no paid live transaction %s", transactionID)
	}
	if err != nil {
		return checkout.Refund{}, err
	}
	entry := operatorsEntry(payout.MerchantID, &payout.Mode, "transaction.refunded", transactionID, "")
	r, err := store.RefundPayout(ctx, payout, entry)
	if errors.Is(err, checkout.ErrTransferStands) {
		err = fmt.Errorf("nothing is refunded: a transfer of %s is signed, and it may still pay the merchant", payout.ID)
	}
	if errors.Is(err, checkout.ErrChainAhead) {
		err = fmt.Errorf("nothing is refunded: the chain knows transfers that the database lacks, and one may have paid %s;"+
			" see checkout treasury recover", payout.ID)
	}
	return r, err
}

// hurryRefunds starts the schedules that send refunds and deliveries.
func hurryRefunds(ctx context.Context, cfg config.Config) bool {
	return hurry(ctx, cfg, (*runs.Client).BooksNow, (*runs.Client).ReconcileNow)
}

// hurry starts schedules. It returns false when Temporal does not answer: they run anyway.
func hurry(ctx context.Context, cfg config.Config, schedules ...func(*runs.Client, context.Context) error) bool {
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
