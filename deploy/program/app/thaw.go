package app

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/pflag"

	treasurer "example.com/checkout/activities/treasury"
	"example.com/checkout/api/action"
	"example.com/checkout/deploy/program/config"
	"example.com/checkout/deploy/program/service"
	"example.com/checkout/storage"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
	"example.com/checkout/workflows/money"
	"example.com/checkout/workflows/runs"
)

// thawPatience is twice what the slowest chain needs: Bitcoin's six blocks take an hour on average.
const thawPatience = 2 * time.Hour

var thawCommand = command{
	use:   "thaw tre_…",
	short: "Let an account sign again",
	long: `Lets an account sign again, with the slots that the chain has. Find out first why it was frozen. The command
refuses while an unknown transaction may have paid a payout: run checkout treasury recover first. It also
refuses while the chain has less than the ledger: it lists what is missing and the payouts that may have been
paid with it. Then pass --paid for each payout that the merchant has received, and --loss for the rest. It
queries the chain, so it needs the settings of the account's mode.

It compares the account with the chain's last final block. The block at which a new account was opened, and any
transaction that no transfer explains, must be final: about 15 minutes on Ethereum, an hour on Bitcoin. The command
waits for that, and says for what and how long. Ctrl-C and the end of --wait change nothing. It does not wait for
nodes that are behind the ledger: they lag, or they lost blocks.

With --retire it checks the same and leaves the account frozen: another account takes its place. A new account
of a chain signs nothing before the others are retired. When the chain cannot be asked any longer, as for a lost
wallet, --by-hand retires the account on your word. Stop the workers with its settings, and check in a block
explorer first that no payment without a transfer in the database, mined or not, went to the payee of a payout
that waits or has failed. Such a payout would be paid again, or refunded too.`,
	example: `  checkout treasury thaw tre_06gztkasqmwac4tmdh4b4ta89w
  checkout treasury thaw tre_06gztkasqmwac4tmdh4b4ta89w --paid po_06gztkb4d1xr0m2wve7kq5n9hc
  checkout treasury thaw tre_06gztkasqmwac4tmdh4b4ta89w --loss USDT=165.317450 --loss ETH=0.000123
  checkout treasury thaw tre_06gztkasqmwac4tmdh4b4ta89w --retire --by-hand "its wallet is lost"`,
	args: idAnd(checkout.PrefixTreasury, listsTreasury),
	flags: func(f *pflag.FlagSet) {
		f.Bool("retire", false, "leave it frozen: another account takes its place")
		f.String("by-hand", "", "retire it without its chain, for this reason")
		f.StringSlice("loss", nil,
			"what paid no payout: a payment, as recover lists it, or a missing amount, as CURRENCY=AMOUNT")
		f.StringSlice("paid", nil, "a payout that the missing amount paid; it becomes sent")
		f.Duration("wait", thawPatience, "how long to wait for blocks that are not final; 0s: not at all")
	},
	exclusive: []string{"by-hand loss", "by-hand paid"},
	run:       withConfig(ends, (*call).thaw),
}

func (c *call) thaw(ctx context.Context, cfg config.Config) (result, error) {
	id := c.args[0]
	if why := c.text("by-hand"); why != "" {
		return c.retireByHand(ctx, cfg, id, why)
	}
	o := treasurer.ThawOrder{
		AccountID: id, Retire: c.isSet("retire"), Paid: c.list("paid"), Missing: money.Purse{},
		By: merchant.AuditEntry{Actor: action.Operator.Actor, Action: "payout.recovered"},
	}
	for _, loss := range c.list("loss") {
		if err := addLoss(&o, loss); err != nil {
			return nil, err
		}
	}
	wait, _ := c.flags.GetDuration("wait")
	err := service.ThawTreasury(ctx, cfg, o, wait, func(progress string) { fmt.Fprintln(c.notes, progress) })
	if short, ok := errors.AsType[storage.ShortageError](err); ok {
		return explainShortage(short)
	}
	if err != nil {
		err = explainThaw(err, id, ctx.Err() != nil)
	} else {
		startSchedules(ctx, cfg, (*runs.Client).ReconcileNow)
	}
	if o.Retire {
		return retirement(err, id)
	}
	return resultLine(noAccount(err, id), "%s signs again", id)
}

// retireByHand does not query the chain.
func (c *call) retireByHand(ctx context.Context, cfg config.Config, id, why string) (result, error) {
	if !c.isSet("retire") {
		return nil, errors.New("--by-hand needs --retire: an account that signs is compared with its chain")
	}
	store, err := service.OpenStore(ctx, cfg)
	if err != nil {
		return nil, err
	}
	defer store.Close()
	return retirement(store.Treasury.RetireByHand(ctx, id, why), id)
}

// retirement is the result of an order to retire an account.
func retirement(err error, id string) (result, error) {
	err = explain(err, storage.ErrNotFrozen, "%s is not frozen: run checkout treasury freeze first", id)
	return resultLine(noAccount(err, id), "%s is retired: it stays frozen, and another account may sign", id)
}

// addLoss reads a value of --loss.
func addLoss(o *treasurer.ThawOrder, text string) error {
	name, amount, isAmount := strings.Cut(text, "=")
	if !isAmount {
		o.Losses = append(o.Losses, strings.ToLower(text))
		return nil
	}
	lost, err := money.ParseCrypto(amount, money.PayoutCurrency(strings.ToUpper(name)))
	if err != nil {
		return fmt.Errorf("--loss %s is not CURRENCY=AMOUNT, such as USDT=165.317450", text)
	}
	o.Missing[lost.Currency()] = lost
	return nil
}

// explainThaw adds to an error what an operator can do.
func explainThaw(err error, id string, interrupted bool) error {
	switch {
	case interrupted, errors.Is(err, service.ErrNotFinal):
		return fmt.Errorf("nothing is changed: %w", err)
	case errors.Is(err, storage.ErrBehind):
		return fmt.Errorf("nothing is changed: %w. Nodes that lag catch up within minutes: run this again then. If they do "+
			"not, they lost blocks, or the chain took them back: compare the account with a block explorer first", err)
	case errors.Is(err, treasurer.ErrUnrecovered):
		return fmt.Errorf("%w. Run checkout treasury recover %s. If the payment paid no payout, "+
			"thaw with --loss and its name", err, id)
	case errors.Is(err, storage.ErrOtherAccount):
		return fmt.Errorf("%w. Run checkout treasury freeze and thaw --retire with its id, and with its settings; "+
			"when its chain cannot be asked, add --by-hand", err)
	case errors.Is(err, checkout.ErrPaymentRefunded):
		return fmt.Errorf("%w: the customer and the merchant both have the money, as checkout finding list says. "+
			"Thaw with --loss and the amounts instead of --paid", err)
	}
	return err
}

// explainShortage shows the payouts that may have been paid with the missing amounts, and the next step.
func explainShortage(short storage.ShortageError) (result, error) {
	if len(short.Payments) == 0 {
		return nil, fmt.Errorf("%w. If it paid no payout, thaw with --loss and each amount", short)
	}
	list := newTable(":PAYOUT", ":IS", ":TRANSFER", ":PAYS", ":TO")
	for _, p := range short.Payments {
		list.add(p.PayoutID, p.Status, p.TransferID, p.Amount.Named(), p.Destination)
	}
	return result{list}, fmt.Errorf("%w. These payouts may have been paid with it. Ask the merchants, or another node. "+
		"Then thaw with --paid and each payout that was paid, and --loss for the rest", short)
}
