package app

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"example.com/checkout/api/action"
	"example.com/checkout/storage"
	"example.com/checkout/workflows/checkout"
)

// showsPayouts is where the ids of payouts are seen.
const showsPayouts = "the dashboard's page of a session"

func (c *call) payoutShowCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "show po_…",
		Short: "Show a payout, its holds and the risks of its charge",
		Args:  idAnd(checkout.PrefixPayout, showsPayouts),
		RunE:  c.stored(c.showPayout),
	}
}

func (c *call) payoutReleaseCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "release po_…",
		Short: "Release a payout that is held for risk or size",
		Long: `Releases a payout that only a person may release. Check it first with checkout payout show.

HELD risk: the charge may be reversed, because of a dispute, a fraud warning, or a refund made at the
card network. The loss is then ours. A later change at the card network holds the payout again.

HELD large: the payout is above CHECKOUT_LIVE_MAX_PAYOUT or the daily limit. A release overrides both
limits. If the payout fails and is retried, it must be released again.

Every other hold ends automatically. The merchant's audit log gets an entry.`,
		Example: "  checkout payout release po_06gztkasqmwac4tmdh4b4ta89w",
		Args:    idAnd(checkout.PrefixPayout, showsPayouts),
		RunE:    c.stored(c.releasePayout),
	}
}

func (c *call) showPayout(ctx context.Context, store *storage.Store, id string) error {
	p, err := anyPayout(ctx, store, id)
	if err != nil {
		return err
	}
	risks, err := store.Payouts.PayoutRisks(ctx, p.Ref)
	if err != nil {
		return err
	}
	rows := [][]string{
		{"PAYOUT", "TRANSACTION", "AMOUNT", "STATUS", "HELD", "NEXT TRY"},
		{
			p.ID, p.TransactionID, fmt.Sprintf("%s %s", p.SourceAmount, p.SourceCurrency), string(p.Status),
			string(p.Hold), showTime(p.NextActionAt),
		},
	}
	dangers := [][]string{{"RISK", "KIND", "STATUS", "AMOUNT"}}
	for _, r := range risks {
		dangers = append(dangers, []string{
			r.ID, string(r.Kind), string(r.Status), fmt.Sprintf("%s %s", r.Amount, r.Currency),
		})
	}
	return errors.Join(c.printTable(rows...), c.printTable(dangers...))
}

func (c *call) releasePayout(ctx context.Context, store *storage.Store, id string) error {
	p, err := anyPayout(ctx, store, id)
	if err != nil {
		return err
	}
	err = store.Payouts.ReleasePayout(ctx, p.Ref,
		action.Operator.Entry(p.Ref, "payout.released", "it was held: "+string(p.Hold)))
	err = explained(err, checkout.ErrConflict,
		"payout %s is not held for risk or size; see checkout payout show %s", id, id)
	return c.said(err, "%s is released; the worker tries it again within two minutes\n", id)
}

// anyPayout finds a payout of any merchant.
func anyPayout(ctx context.Context, store *storage.Store, id string) (checkout.Payout, error) {
	p, err := store.Payouts.AnyPayout(ctx, id)
	return p, explained(err, checkout.ErrNotFound, "there is no payout %s", id)
}
