package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	treasurer "example.com/checkout/activities/treasury"
	"example.com/checkout/api/action"
	"example.com/checkout/deploy/program/config"
	"example.com/checkout/deploy/program/service"
	"example.com/checkout/storage"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
	"example.com/checkout/workflows/runs"
)

var recoverCommand = command{
	use:   "recover tre_…",
	short: "Find payouts that were paid on chain but not in the database",
	long: `Compares a frozen account's outflows with the transfers in the database, for example after restoring an
old backup. It shows each unexplained outflow with the payout that it paid: the only one that matches by
destination, currency and amount. Without --apply it is a dry run. With --apply, each unambiguous payout
becomes sent, with its transfer, event and booking. The command is idempotent.

If several payouts match, choose one with --paid. A transaction of several payouts is written as a whole. If one of
its payments paid no payout in the database, name it with --loss: then the others are written. The account stays
frozen: run checkout treasury thaw when every outflow is explained.`,
	example: `  checkout treasury recover tre_06gztkasqmwac4tmdh4b4ta89w
  checkout treasury recover tre_06gztkasqmwac4tmdh4b4ta89w --paid 0x88df…=po_06gztkb4d1xr0m2wve7kq5n9hc --apply
  checkout treasury recover tre_06gztkasqmwac4tmdh4b4ta89w --loss 4f2a…:2 --apply`,
	args: idAnd(checkout.PrefixTreasury, listsTreasury),
	flags: func(f *pflag.FlagSet) {
		f.Bool("apply", false, "write the unambiguous matches")
		f.Int64("from-block", -1, "the first block to check (default: where the database is behind the chain)")
		f.StringToString("paid", nil, "the payout that a payment paid, as PAYMENT=po_…")
		f.StringSlice("loss", nil, "a payment that paid no payout, such as 4f2a…:2")
	},
	run: withConfig(ends, (*call).recover),
}

// recoveryOrder reads the words and flags of treasury recover.
func (c *call) recoveryOrder() treasurer.RecoveryOrder {
	o := treasurer.RecoveryOrder{
		AccountID: c.args[0], Apply: c.isSet("apply"), Losses: each(c.list("loss"), strings.ToLower),
		Chosen: map[string]string{},
		By:     merchant.AuditEntry{Actor: action.Operator.Actor, Action: "payout.recovered"},
	}
	paid, _ := c.flags.GetStringToString("paid")
	for payment, id := range paid {
		o.Chosen[strings.ToLower(payment)] = id
	}
	if from, _ := c.flags.GetInt64("from-block"); from >= 0 {
		o.From = new(uint64(from))
	}
	return o
}

// recover also shows what it found before an error.
func (c *call) recover(ctx context.Context, cfg config.Config) (result, error) {
	o := c.recoveryOrder()
	report, err := service.RecoverTreasury(ctx, cfg, o)
	switch {
	case errors.Is(err, storage.ErrNotFrozen):
		return nil, fmt.Errorf(
			"%s is not frozen, so a worker could sign meanwhile: run checkout treasury freeze first", o.AccountID)
	case errors.Is(err, checkout.ErrNotFound):
		return nil, noAccount(err, o.AccountID)
	case err != nil && report.Next == 0: // it looked at nothing
		return nil, err
	}

	list := newTable(":PAYMENT", ":SLOT", ":PAID", ":TO", ":PAYOUT", ":NEXT STEP")
	clear, written := 0, 0
	for _, r := range report.Found {
		list.add(cmp.Or(r.Payment(), "not shown"), strings.Join(r.Slot, " "), r.Amount.Named(), r.Destination,
			recoveredPayout(r), recoveryStep(r))
		if r.Why == "" {
			clear++
		}
		if r.Done {
			written++
		}
	}
	total := fmt.Sprintf("from block %d up to %d: %d unexplained, %d clear, %d written", report.From, report.Next,
		len(report.Found), clear, written)
	if report.NotFinal > 0 {
		total += fmt.Sprintf("; %d more are not final yet: run this again when they are, about 15 minutes after they are "+
			"mined on Ethereum and an hour on Bitcoin", report.NotFinal)
	}
	if written > 0 {
		startSchedules(ctx, cfg, (*runs.Client).ReconcileNow)
	}
	return result{list, total}, err
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
