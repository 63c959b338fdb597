package app

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"example.com/checkout/api/action"
	"example.com/checkout/storage"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
)

// listsTreasury is the command that shows the ids of accounts.
const listsTreasury = "checkout treasury show"

var treasuryCommand = command{
	use:   "treasury",
	short: "Show, freeze and thaw the payout accounts",
	long: `The treasury's accounts sign the transfers of payouts; each mode has separate accounts. A frozen
account signs nothing more, in any process. Transfers that are already signed are still followed.`,
	children: []command{
		{
			use:   "show",
			short: "Show the accounts, transfers, holds and findings",
			args:  words(),
			flags: func(f *pflag.FlagSet) {
				f.String("mode", string(checkout.ModeLive), "live, or test for accounts on test networks")
			},
			values: map[string][]string{"mode": modes},
			check:  (*call).checkMode,
			run:    withStore(storeCall.showTreasury),
		},
		{
			use:     "freeze tre_…",
			short:   "Stop an account from signing",
			example: `  checkout treasury freeze tre_06gztkasqmwac4tmdh4b4ta89w --reason "the key may be known"`,
			args:    idAnd(checkout.PrefixTreasury, listsTreasury),
			flags: func(f *pflag.FlagSet) {
				f.String("reason", "an operator froze it", "the reason that treasury show displays")
			},
			run: withStore(func(c storeCall, ctx context.Context) (result, error) {
				err := c.Treasury.Freeze(ctx, c.args[0], c.text("reason"))
				return resultLine(noAccount(err, c.args[0]), "%s is frozen: nothing is signed", c.args[0])
			}),
		},
		thawCommand,
		{
			use:   "cancel tr_…",
			short: "Cancel a signed transfer that the network does not accept",
			long: `Cancels a transfer: the worker signs a replacement with the same slot that pays nothing. The network
accepts only one of the two. If it accepts the cancellation, the payout fails once that is final, and can
be retried or refunded. If it accepts an earlier version, the merchant is paid as usual.`,
			example: "  checkout treasury cancel tr_06gztkasqmwac4tmdh4b4ta89w",
			args:    idAnd(checkout.PrefixTransfer, listsTreasury),
			run:     withStore(storeCall.cancelTransfer),
		},
		recoverCommand,
	},
}

func noAccount(err error, id string) error {
	return explain(err, checkout.ErrNotFound, "there is no account %s; %s lists them", id, listsTreasury)
}

func (c storeCall) cancelTransfer(ctx context.Context) (got result, err error) {
	id := c.args[0]
	entry := merchant.AuditEntry{Actor: action.Operator.Actor, Action: "transfer.canceled", Subject: id}
	payouts, err := c.Treasury.CancelTransfer(ctx, id, entry)
	for _, p := range payouts {
		got = append(got, fmt.Sprintf("canceling %s of %s: the worker signs the replacement within a minute", id, p.ID))
	}
	err = explain(err, checkout.ErrNotFound, "there is no transfer %s; %s lists those under way", id, listsTreasury)
	err = explain(err, checkout.ErrConflict, "%s has already ended, so there is nothing to cancel", id)
	return resultOf(err, got...)
}

func (c storeCall) showTreasury(ctx context.Context) (result, error) {
	accounts, noAccounts := c.Treasury.TreasuryAccounts(ctx, c.mode())
	balances, noBalances := c.Books.LedgerBalances(ctx, c.mode())
	findings, noFindings := c.Books.OpenFindings(ctx, c.mode())
	transfers, noTransfers := c.liveTransfers(ctx, accounts)
	held, noHolds := c.Payouts.HeldPayouts(ctx, c.mode())
	floats, noFloats := c.Treasury.Floats(ctx, c.mode())
	if err := cmp.Or(noAccounts, noBalances, noFindings, noTransfers, noHolds, noFloats); err != nil {
		return nil, err
	}
	holds := newTable(":HELD", ":PAYOUTS", ":SINCE", ":NEXT TRY")
	for _, h := range held {
		holds.add(h.Hold, h.Count, h.Since, h.Next)
	}
	ledger := newTable(":LEDGER", ":ASSET", ":AMOUNT")
	for _, b := range balances {
		amount, credit, err := b.Decimal()
		if err != nil {
			return nil, err
		}
		if credit {
			amount = "-" + amount
		}
		ledger.add(b.Account, b.Asset, amount)
	}
	return result{accountsTable(accounts), floatTable(floats), transfers, holds, ledger, findingsTable(findings)}, nil
}

func accountsTable(accounts []storage.TreasuryAccount) *table {
	list := newTable(":ACCOUNT", ":CHAIN", ":ADDRESS", ":UNDER WAY", ":FROZEN")
	for _, a := range accounts {
		frozen := ""
		if a.FrozenAt != nil {
			frozen = showTime(a.FrozenAt) + ": " + a.FrozenWhy
		}
		if a.RetiredAt != nil {
			frozen += "; retired at " + showTime(a.RetiredAt)
		}
		list.add(a.ID, a.ChainID, a.Address, a.Live, frozen)
	}
	return list
}

// mostTransfers is how many transfers of an account are listed, the oldest first: they block the others.
const mostTransfers = 20

// liveTransfers returns a table of the transfers that are not final.
func (c storeCall) liveTransfers(ctx context.Context, accounts []storage.TreasuryAccount) (*table, error) {
	list := newTable(":TRANSFER", ":SLOT", ":VERSIONS", ":PAYS", ":TO", ":LAST SIGNED", ":CANCELED")
	for _, a := range accounts {
		live, err := c.Treasury.LiveTransfers(ctx, a.ID, mostTransfers)
		if err != nil {
			return nil, err
		}
		for _, t := range live {
			outputs, canceled, more := t.Versions[0].Outputs, "", ""
			if t.Canceling {
				canceled = "asked for"
			}
			if len(outputs) > 1 {
				more = fmt.Sprintf(" and %d more", len(outputs)-1)
			}
			list.add(t.ID, strings.Join(t.Slot, " "), len(t.Versions), outputs[0].Amount.Named()+more,
				outputs[0].Destination, t.Unchanged.Round(time.Second).String()+" ago", canceled)
		}
	}
	return list, nil
}
