package app

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"example.com/checkout/deploy/config"
	"example.com/checkout/deploy/service"
	"example.com/checkout/storage"
	"example.com/checkout/workflows/checkout"
)

// listsTreasury is the command that shows the ids of accounts.
const listsTreasury = "checkout treasury show"

func (c *call) treasuryCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "treasury",
		Short: "Look at the accounts of payouts, stop them, let them go on",
		Long: `The treasury's accounts sign the transfers of payouts, those of each mode with its own. A frozen
account signs nothing, in every process, from the next signature on. Transfers that are signed already
are still followed.`,
	}
	command.AddCommand(c.treasuryShowCommand(), c.treasuryFreezeCommand(), c.treasuryThawCommand())
	return command
}

func (c *call) treasuryShowCommand() *cobra.Command {
	var mode string
	command := &cobra.Command{
		Use:   "show",
		Short: "Show the accounts, the ledger and the open findings",
		Args:  words(),
		RunE: c.configured(ends, func([]string) serviceAction {
			return c.withStore(func(ctx context.Context, store *storage.Store) error {
				if mode != string(checkout.ModeTest) && mode != string(checkout.ModeLive) {
					return fmt.Errorf("--mode must be test or live, not %q", mode)
				}
				return c.showTreasury(ctx, store, checkout.Mode(mode))
			})
		}),
	}
	command.Flags().StringVar(&mode, "mode", string(checkout.ModeLive),
		"test, which has accounts on test networks only, or live")
	offer(command, "mode", string(checkout.ModeTest), string(checkout.ModeLive))
	return command
}

func (c *call) treasuryFreezeCommand() *cobra.Command {
	var why string
	command := &cobra.Command{
		Use:     "freeze tre_…",
		Short:   "Stop all signatures of an account",
		Example: `  checkout treasury freeze tre_06gztkasqmwac4tmdh4b4ta89w --reason "the key may be known"`,
		Args:    idAnd(checkout.PrefixTreasury, listsTreasury),
		RunE: c.configured(ends, func(args []string) serviceAction {
			return c.withStore(func(ctx context.Context, store *storage.Store) error {
				return c.said(store.Freeze(ctx, args[0], why), args[0], "is frozen: nothing is signed")
			})
		}),
	}
	command.Flags().StringVar(&why, "reason", "an operator froze it", "what others should know, shown by treasury show")
	return command
}

func (c *call) treasuryThawCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "thaw tre_…",
		Short: "Let an account sign again",
		Long: `Lets an account sign again. Explain first what froze it: the account's nonce and balances are then taken
as the chain has them, and what is missing is booked as a loss. It asks the chain, so it needs the
settings of the account's mode.`,
		Args: idAnd(checkout.PrefixTreasury, listsTreasury),
		RunE: c.configured(ends, func(args []string) serviceAction {
			return func(ctx context.Context, cfg config.Config) error {
				return c.said(service.ThawTreasury(ctx, cfg, args[0]), args[0], "signs again")
			}
		}),
	}
}

// withStore opens the store for an action.
func (c *call) withStore(act func(context.Context, *storage.Store) error) serviceAction {
	return func(ctx context.Context, cfg config.Config) error {
		store, err := service.OpenStore(ctx, cfg)
		if err != nil {
			return err
		}
		defer store.Close()
		return act(ctx, store)
	}
}

// said tells what happened to an account.
func (c *call) said(err error, id, what string) error {
	if errors.Is(err, checkout.ErrNotFound) {
		return fmt.Errorf("there is no account %s; %s lists them", id, listsTreasury)
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(c.out, "%s %s\n", id, what)
	return err
}

func (c *call) showTreasury(ctx context.Context, store *storage.Store, mode checkout.Mode) error {
	accounts, err := store.TreasuryAccounts(ctx, mode)
	if err != nil {
		return err
	}
	balances, err := store.LedgerBalances(ctx, mode)
	if err != nil {
		return err
	}
	findings, err := store.OpenFindings(ctx, mode)
	if err != nil {
		return err
	}

	rows := [][]string{{"ACCOUNT", "CHAIN", "ADDRESS", "UNDER WAY", "FROZEN"}}
	for _, a := range accounts {
		frozen := ""
		if a.FrozenAt != nil {
			frozen = a.FrozenAt.UTC().Format(time.RFC3339) + ": " + a.FrozenWhy
		}
		rows = append(rows, []string{a.ID, a.ChainID, a.Address, fmt.Sprint(a.Live), frozen})
	}
	ledger := [][]string{{"LEDGER", "ASSET", "SMALLEST UNITS"}}
	for _, b := range balances {
		ledger = append(ledger, []string{b.Account, b.Asset, b.Amount})
	}
	differences := [][]string{{"FINDING", "SINCE", "ABOUT", "WHAT DIFFERS"}}
	for _, f := range findings {
		since := f.OpenedAt.UTC().Format(time.RFC3339)
		differences = append(differences, []string{string(f.Kind), since, f.Subject, f.Detail})
	}
	shown := console{out: c.out}
	return errors.Join(shown.printTable(rows...), shown.printTable(ledger...), shown.printTable(differences...))
}
