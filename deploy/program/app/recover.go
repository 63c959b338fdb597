package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	treasurer "example.com/checkout/activities/treasury"
	"example.com/checkout/api/action"
	"example.com/checkout/deploy/program/config"
	"example.com/checkout/deploy/program/service"
	"example.com/checkout/storage"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
	"example.com/checkout/workflows/runs"
)

func (c *call) treasuryRecoverCommand() *cobra.Command {
	var (
		o      treasurer.RecoveryOrder
		from   int64
		chosen map[string]string
	)
	command := &cobra.Command{
		Use:   "recover tre_…",
		Short: "Find payouts that were paid on chain but not in the database",
		Long: `Compares a frozen account's outflows with the transfers in the database, for example after restoring an
old backup. It shows each unexplained outflow with the payout that it paid: the only one that matches by
destination, currency and amount. Without --apply it is a dry run. With --apply, each unambiguous payout
becomes sent, with its transfer, event and booking. The command is idempotent.

If several payouts match, choose one with --paid. A transaction of several payouts is written as a whole. If one of
its payments paid no payout in the database, name it with --loss: then the others are written. The account stays
frozen: run checkout treasury thaw when every outflow is explained.`,
		Example: `  checkout treasury recover tre_06gztkasqmwac4tmdh4b4ta89w
  checkout treasury recover tre_06gztkasqmwac4tmdh4b4ta89w --paid 0x88df…=po_06gztkb4d1xr0m2wve7kq5n9hc --apply
  checkout treasury recover tre_06gztkasqmwac4tmdh4b4ta89w --loss 4f2a…:2 --apply`,
		Args: idAnd(checkout.PrefixTreasury, listsTreasury),
		RunE: c.configured(ends, func(ctx context.Context, cfg config.Config, account string) error {
			o.AccountID, o.Chosen = account, map[string]string{}
			o.By = merchant.AuditEntry{Actor: action.Operator.Actor, Action: "payout.recovered"}
			for payment, id := range chosen {
				o.Chosen[strings.ToLower(payment)] = id
			}
			for i, payment := range o.Losses {
				o.Losses[i] = strings.ToLower(payment)
			}
			if from >= 0 {
				o.From = new(uint64(from))
			}
			return c.recoverTreasury(ctx, cfg, o)
		}),
	}
	command.Flags().BoolVar(&o.Apply, "apply", false, "write the unambiguous matches")
	command.Flags().Int64Var(&from, "from-block", -1,
		"the first block to check (default: where the database is behind the chain)")
	command.Flags().StringToStringVar(&chosen, "paid", nil, "the payout that a payment paid, as PAYMENT=po_…")
	command.Flags().StringSliceVar(&o.Losses, "loss", nil, "a payment that paid no payout, such as 4f2a…:2")
	return command
}

func (c *call) recoverTreasury(ctx context.Context, cfg config.Config, o treasurer.RecoveryOrder) error {
	report, err := service.RecoverTreasury(ctx, cfg, o)
	switch {
	case errors.Is(err, storage.ErrNotFrozen):
		return fmt.Errorf(
			"%s is not frozen, so a worker could sign meanwhile: run checkout treasury freeze first", o.AccountID)
	case errors.Is(err, checkout.ErrNotFound):
		return noAccount(err, o.AccountID)
	case err != nil && report.Next == 0: // it looked at nothing
		return err
	}

	rows := [][]string{{"PAYMENT", "SLOT", "PAID", "TO", "PAYOUT", "NEXT STEP"}}
	clear, written := 0, 0
	for _, r := range report.Found {
		rows = append(rows, []string{
			cmp.Or(r.Payment(), "not shown"), strings.Join(r.Slot, " "), r.Amount.Named(), r.Destination, recoveredPayout(r),
			recoveryStep(r),
		})
		if r.Why == "" {
			clear++
		}
		if r.Done {
			written++
		}
	}
	err = errors.Join(err, c.printTable(rows...))
	said := fmt.Sprintf("from block %d up to %d: %d unexplained, %d clear, %d written", report.From, report.Next,
		len(report.Found), clear, written)
	if report.NotFinal > 0 {
		said += fmt.Sprintf("; %d more are not final yet: run this again when they are, about 15 minutes after they are "+
			"mined on Ethereum and an hour on Bitcoin", report.NotFinal)
	}
	if written > 0 {
		hurry(ctx, cfg, (*runs.Client).ReconcileNow)
	}
	_, printed := fmt.Fprintln(c.out, said)
	return errors.Join(err, printed)
}

// recoveredPayout names what an outflow paid, or may have paid.
func recoveredPayout(r treasurer.Recovery) string {
	switch {
	case r.Transfer != "":
		return "of " + r.Transfer
	case r.Payout != "":
		return r.Payout
	}
	return strings.Join(r.Fits, " ")
}

func recoveryStep(r treasurer.Recovery) string {
	switch {
	case r.Why != "":
		return r.Why
	case r.Done:
		return "written"
	}
	return "unambiguous: --apply writes it"
}
