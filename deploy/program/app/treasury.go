package app

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

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

// listsTreasury is the command that shows the ids of accounts.
const listsTreasury = "checkout treasury show"

func (c *call) treasuryCommand() *cobra.Command {
	return parentOf(&cobra.Command{
		Use:   "treasury",
		Short: "Show, freeze and thaw the payout accounts",
		Long: `The treasury's accounts sign the transfers of payouts; each mode has separate accounts. A frozen
account signs nothing more, in any process. Transfers that are already signed are still followed.`,
	}, c.treasuryShowCommand(), c.treasuryFreezeCommand(), c.treasuryThawCommand(),
		c.treasuryCancelCommand(), c.treasuryRecoverCommand())
}

func (c *call) treasuryShowCommand() *cobra.Command {
	var mode string
	command := &cobra.Command{
		Use:     "show",
		Short:   "Show the accounts, transfers, holds and findings",
		Args:    words(),
		PreRunE: checksMode(&mode),
		RunE: c.stored(func(ctx context.Context, store *storage.Store, _ string) error {
			return c.showTreasury(ctx, store, checkout.Mode(mode))
		}),
	}
	command.Flags().StringVar(&mode, "mode", string(checkout.ModeLive), "live, or test for accounts on test networks")
	completes(command, "mode", string(checkout.ModeTest), string(checkout.ModeLive))
	return command
}

func (c *call) treasuryFreezeCommand() *cobra.Command {
	var why string
	command := &cobra.Command{
		Use:     "freeze tre_…",
		Short:   "Stop an account from signing",
		Example: `  checkout treasury freeze tre_06gztkasqmwac4tmdh4b4ta89w --reason "the key may be known"`,
		Args:    idAnd(checkout.PrefixTreasury, listsTreasury),
		RunE: c.stored(func(ctx context.Context, store *storage.Store, id string) error {
			return c.said(noAccount(store.Treasury.Freeze(ctx, id, why), id), "%s is frozen: nothing is signed\n", id)
		}),
	}
	command.Flags().StringVar(&why, "reason", "an operator froze it", "the reason that treasury show displays")
	return command
}

// thawPatience is twice what the slowest chain needs: Bitcoin's six blocks take an hour on average.
const thawPatience = 2 * time.Hour

func (c *call) treasuryThawCommand() *cobra.Command {
	var (
		o      treasurer.ThawOrder
		losses []string
		byHand string
		wait   time.Duration
	)
	command := &cobra.Command{
		Use:   "thaw tre_…",
		Short: "Let an account sign again",
		Long: `Lets an account sign again, with the slots that the chain has. Find out first why it was frozen. The command
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
		Example: `  checkout treasury thaw tre_06gztkasqmwac4tmdh4b4ta89w
  checkout treasury thaw tre_06gztkasqmwac4tmdh4b4ta89w --paid po_06gztkb4d1xr0m2wve7kq5n9hc
  checkout treasury thaw tre_06gztkasqmwac4tmdh4b4ta89w --loss USDT=165.317450 --loss ETH=0.000123
  checkout treasury thaw tre_06gztkasqmwac4tmdh4b4ta89w --retire --by-hand "its wallet is lost"`,
		Args: idAnd(checkout.PrefixTreasury, listsTreasury),
		RunE: c.configured(ends, func(ctx context.Context, cfg config.Config, id string) error {
			if byHand != "" {
				return c.retireByHand(ctx, cfg, o, id, byHand)
			}
			o.AccountID, o.Missing = id, money.Purse{}
			o.By = merchant.AuditEntry{Actor: action.Operator.Actor, Action: "payout.recovered"}
			for _, loss := range losses {
				if err := addLoss(&o, loss); err != nil {
					return err
				}
			}
			return c.thawTreasury(ctx, cfg, o, wait)
		}),
	}
	command.Flags().BoolVar(&o.Retire, "retire", false, "leave it frozen: another account takes its place")
	command.Flags().StringVar(&byHand, "by-hand", "", "retire it without its chain, for this reason")
	command.Flags().StringSliceVar(&losses, "loss", nil,
		"what paid no payout: a payment, as recover lists it, or a missing amount, as CURRENCY=AMOUNT")
	command.Flags().StringSliceVar(&o.Paid, "paid", nil, "a payout that the missing amount paid; it becomes sent")
	command.Flags().DurationVar(&wait, "wait", thawPatience,
		"how long to wait for blocks that are not final; 0s: not at all")
	command.MarkFlagsMutuallyExclusive("by-hand", "loss")
	command.MarkFlagsMutuallyExclusive("by-hand", "paid")
	return command
}

// retireByHand asks no chain.
func (c *call) retireByHand(ctx context.Context, cfg config.Config, o treasurer.ThawOrder, id, why string) error {
	if !o.Retire {
		return errors.New("--by-hand needs --retire: an account that signs is compared with its chain")
	}
	store, err := service.OpenStore(ctx, cfg)
	if err != nil {
		return err
	}
	defer store.Close()
	return c.retired(store.Treasury.RetireByHand(ctx, id, why), id)
}

// retired says what became of an order to retire an account.
func (c *call) retired(err error, id string) error {
	if errors.Is(err, storage.ErrNotFrozen) {
		return fmt.Errorf("%s is not frozen: run checkout treasury freeze first", id)
	}
	return c.said(noAccount(err, id), "%s is retired: it stays frozen, and another account may sign\n", id)
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

func (c *call) thawTreasury(ctx context.Context, cfg config.Config, o treasurer.ThawOrder, wait time.Duration) error {
	err := service.ThawTreasury(ctx, cfg, o, wait, func(progress string) { fmt.Fprintln(c.notes, progress) })
	var short storage.ShortageError
	switch {
	case err != nil && ctx.Err() != nil, errors.Is(err, service.ErrNotFinal):
		return fmt.Errorf("nothing is changed: %w", err)
	case errors.Is(err, storage.ErrBehind):
		return fmt.Errorf("nothing is changed: %w. Nodes that lag catch up within minutes: run this again then. If they do "+
			"not, they lost blocks, or the chain took them back: compare the account with a block explorer first", err)
	case errors.As(err, &short):
		return c.explainShortage(short)
	case errors.Is(err, treasurer.ErrUnrecovered):
		return fmt.Errorf("%w. Run checkout treasury recover %s. If the payment paid no payout, "+
			"thaw with --loss and its name", err, o.AccountID)
	case errors.Is(err, storage.ErrOtherAccount):
		return fmt.Errorf("%w. Run checkout treasury freeze and thaw --retire with its id, and with its settings; "+
			"when its chain cannot be asked, add --by-hand", err)
	case errors.Is(err, checkout.ErrPaymentRefunded):
		return fmt.Errorf("%w: the customer and the merchant both have the money, as checkout finding list says. "+
			"Thaw with --loss and the amounts instead of --paid", err)
	}
	if err == nil {
		hurry(ctx, cfg, (*runs.Client).ReconcileNow)
	}
	if o.Retire {
		return c.retired(err, o.AccountID)
	}
	return c.said(noAccount(err, o.AccountID), "%s signs again\n", o.AccountID)
}

// explainShortage shows what is missing, and what a person can do.
func (c *call) explainShortage(short storage.ShortageError) error {
	if len(short.Payments) == 0 {
		return fmt.Errorf("%w. If it paid no payout, thaw with --loss and each amount", short)
	}
	rows := [][]string{{"PAYOUT", "IS", "TRANSFER", "PAYS", "TO"}}
	for _, p := range short.Payments {
		rows = append(rows, []string{p.PayoutID, string(p.Status), p.TransferID, p.Amount.Named(), p.Destination})
	}
	said := fmt.Errorf("%w. These payouts may have been paid with it. Ask the merchants, or another node. "+
		"Then thaw with --paid and each payout that was paid, and --loss for the rest", short)
	return errors.Join(c.printTable(rows...), said)
}

func (c *call) treasuryCancelCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "cancel tr_…",
		Short: "Cancel a signed transfer that the network does not accept",
		Long: `Cancels a transfer: the worker signs a replacement with the same slot that pays nothing. The network
accepts only one of the two. If it accepts the cancellation, the payout fails once that is final, and can
be retried or refunded. If it accepts an earlier version, the merchant is paid as usual.`,
		Example: "  checkout treasury cancel tr_06gztkasqmwac4tmdh4b4ta89w",
		Args:    idAnd(checkout.PrefixTransfer, listsTreasury),
		RunE:    c.stored(c.cancelTransfer),
	}
}

func (c *call) cancelTransfer(ctx context.Context, store *storage.Store, transferID string) error {
	entry := merchant.AuditEntry{Actor: action.Operator.Actor, Action: "transfer.canceled", Subject: transferID}
	payouts, err := store.Treasury.CancelTransfer(ctx, transferID, entry)
	err = explained(err, checkout.ErrNotFound,
		"there is no transfer %s; %s lists those under way", transferID, listsTreasury)
	err = explained(err, checkout.ErrConflict, "%s has already ended, so there is nothing to cancel", transferID)
	for _, p := range payouts {
		err = c.said(err, "canceling %s of %s: the worker signs the replacement within a minute\n", transferID, p.ID)
	}
	return err
}

func noAccount(err error, id string) error {
	return explained(err, checkout.ErrNotFound, "there is no account %s; %s lists them", id, listsTreasury)
}

func (c *call) showTreasury(ctx context.Context, store *storage.Store, mode checkout.Mode) error {
	accounts, err := store.Treasury.TreasuryAccounts(ctx, mode)
	if err != nil {
		return err
	}
	balances, err := store.Books.LedgerBalances(ctx, mode)
	if err != nil {
		return err
	}
	findings, err := store.Books.OpenFindings(ctx, mode)
	if err != nil {
		return err
	}
	under, err := underWay(ctx, store, accounts)
	if err != nil {
		return err
	}
	held, err := store.Payouts.HeldPayouts(ctx, mode)
	if err != nil {
		return err
	}
	floats, err := store.Treasury.Floats(ctx, mode)
	if err != nil {
		return err
	}

	rows := [][]string{{"ACCOUNT", "CHAIN", "ADDRESS", "UNDER WAY", "FROZEN"}}
	for _, a := range accounts {
		frozen := ""
		if a.FrozenAt != nil {
			frozen = showTime(a.FrozenAt) + ": " + a.FrozenWhy
		}
		if a.RetiredAt != nil {
			frozen += "; retired at " + showTime(a.RetiredAt)
		}
		rows = append(rows, []string{a.ID, a.ChainID, a.Address, fmt.Sprint(a.Live), frozen})
	}
	waiting := [][]string{{"HELD", "PAYOUTS", "SINCE", "NEXT TRY"}}
	for _, h := range held {
		waiting = append(waiting, []string{string(h.Hold), fmt.Sprint(h.Count), showTime(&h.Since), showTime(&h.Next)})
	}
	ledger := [][]string{{"LEDGER", "ASSET", "AMOUNT"}}
	for _, b := range balances {
		amount, credit, err := b.Decimal()
		if err != nil {
			return err
		}
		if credit {
			amount = "-" + amount
		}
		ledger = append(ledger, []string{b.Account, b.Asset, amount})
	}
	return errors.Join(c.printTable(rows...), c.printTable(floatTable(floats).lines()...),
		c.printTable(under...), c.printTable(waiting...), c.printTable(ledger...), c.printFindings(findings))
}

// mostShown is how many transfers of an account are listed, the oldest first: they block the others.
const mostShown = 20

// underWay returns a table of the transfers that are not final.
func underWay(ctx context.Context, store *storage.Store, accounts []storage.TreasuryAccount) ([][]string, error) {
	rows := [][]string{{"TRANSFER", "SLOT", "VERSIONS", "PAYS", "TO", "LAST SIGNED", "CANCELED"}}
	for _, a := range accounts {
		live, err := store.Treasury.LiveTransfers(ctx, a.ID, mostShown)
		if err != nil {
			return nil, err
		}
		for _, t := range live {
			pays, canceled, more := t.Versions[0].Outputs, "", ""
			if t.Canceling {
				canceled = "asked for"
			}
			if len(pays) > 1 {
				more = fmt.Sprintf(" and %d more", len(pays)-1)
			}
			rows = append(rows, []string{
				t.ID, strings.Join(t.Slot, " "), fmt.Sprint(len(t.Versions)), pays[0].Amount.Named() + more,
				pays[0].Destination, t.Unchanged.Round(time.Second).String() + " ago", canceled,
			})
		}
	}
	return rows, nil
}
