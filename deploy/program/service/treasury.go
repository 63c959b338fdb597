package service

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"example.com/checkout/activities/jsonrpc"
	treasurer "example.com/checkout/activities/treasury"
	"example.com/checkout/deploy/program/config"
	"example.com/checkout/storage"
	"example.com/checkout/worker"
	"example.com/checkout/workflows/checkout"
)

// ErrNotFinal: the limit of a wait for final blocks has ended.
var ErrNotFinal = errors.New("not final")

// ThawTreasury lets an account of the treasury sign again, with its nonce and balances as the chain has them
// now. It waits for blocks that are not final yet, for patience at most: report gets for what and how long, at
// first and when more blocks are final. Its errors are those of treasury.Thaw, and ErrNotFinal.
func ThawTreasury(
	ctx context.Context, cfg config.Config, o treasurer.ThawOrder, patience time.Duration, report func(progress string),
) error {
	return withTreasury(ctx, cfg, o.AccountID, func(_ config.Networks, t *treasurer.Treasury) error {
		return awaitFinal(ctx, patience, report, func() error { return t.Thaw(ctx, o) })
	})
}

// awaitFinal repeats act while something is not final, and while a node does not answer. The end of patience does not
// interrupt act. It returns ErrNotFinal with the last error.
func awaitFinal(ctx context.Context, patience time.Duration, report func(progress string), act func() error) error {
	ctx, stop := context.WithTimeoutCause(ctx, patience, fmt.Errorf("%w after %v", ErrNotFinal, patience))
	defer stop()
	limit, said := fmt.Sprintf(" (%v at most)", patience), ""
	return repeat(ctx, act, func(err error) bool {
		notFinal, passes := errors.AsType[storage.NotFinalError](err)
		text, left := notFinal.Error(), ""
		if notFinal.Left > 0 {
			left = " about " + notFinal.Left.Round(time.Second).String()
		}
		if errors.Is(err, jsonrpc.ErrNotReady) {
			text, passes = err.Error(), true
		}
		if passes && text != said && ctx.Err() == nil {
			report("waiting" + left + limit + ": " + text)
			limit, said = "", text
		}
		return passes
	})
}

// CompareTreasury compares the chains of live mode with the transfers, and freezes an account of which they lack
// something. Its errors name the wrong setting, or the fault of a node.
func CompareTreasury(ctx context.Context, n config.Networks, store *storage.Store) error {
	if n.EthereumTreasury == "" {
		return errNoTreasury
	}
	settings, err := payoutSettings(n, false)
	if err != nil {
		return err
	}
	chains := settings.Chains()
	for _, chain := range chains {
		if err := chain.Open(ctx); err != nil {
			return err
		}
	}
	return follower(n, store, chains).Compare(ctx)
}

// RecoverTreasury finds an account's payments that are on the chain but not in PostgreSQL. It waits until there are
// exchange rates. Its errors are those of treasury.Recover.
func RecoverTreasury(
	ctx context.Context, cfg config.Config, o treasurer.RecoveryOrder,
) (result treasurer.RecoveryResult, err error) {
	err = withTreasury(ctx, cfg, o.AccountID, func(n config.Networks, t *treasurer.Treasury) error {
		settings, err := payoutSettings(n, false)
		if err != nil {
			return err
		}
		chains := settings.Chains()
		rates, err := settings.NewRates(chains)
		if err != nil {
			return err
		}
		ctx, stop := context.WithCancel(ctx)
		defer stop()
		chains.OpenSoon(ctx, n.Mode)
		go rates.Run(ctx)
		t.Rates = rates
		return wait(ctx, "the exchange rates", func() (err error) {
			result, err = t.Recover(ctx, o)
			return err
		}, func(err error) bool { return errors.Is(err, checkout.ErrNoRate) })
	})
	return result, err
}

var errNoTreasury = errors.New("CHECKOUT_ETHEREUM_TREASURY is not set: the chain must be asked")

// withTreasury calls act with the treasury that has the account. Nothing can be signed with it. It returns
// checkout.ErrNotFound when no mode has the account.
func withTreasury(
	ctx context.Context, cfg config.Config, accountID string, act func(config.Networks, *treasurer.Treasury) error,
) error {
	store, err := OpenStore(ctx, cfg)
	if err != nil {
		return err
	}
	defer store.Close()
	for _, n := range []config.Networks{cfg.Live, cfg.Test} {
		var t *treasurer.Treasury
		if t, err = openTreasury(ctx, n, store, accountID); err == nil {
			return act(n, t)
		}
		if !errors.Is(err, checkout.ErrNotFound) {
			return err
		}
	}
	return err
}

// openTreasury returns checkout.ErrNotFound when the account is not of the mode of n.
func openTreasury(
	ctx context.Context, n config.Networks, store *storage.Store, accountID string,
) (*treasurer.Treasury, error) {
	accounts, err := store.Treasury.TreasuryAccounts(ctx, n.Mode)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(accounts, func(a storage.TreasuryAccount) bool { return a.ID == accountID })
	if i < 0 { // the chain need not be asked
		return nil, checkout.ErrNotFound
	}
	if n.EthereumTreasury == "" {
		return nil, errNoTreasury
	}
	settings, err := payoutSettings(n, false)
	if err != nil {
		return nil, err
	}
	chain := settings.Chains()[accounts[i].Network]
	if chain == nil {
		return nil, fmt.Errorf("%w: it is on %s", treasurer.ErrOtherSettings, accounts[i].ChainID)
	}
	if err := chain.Await(ctx); err != nil {
		return nil, err
	}
	return follower(n, store, worker.Chains{accounts[i].Network: chain}), nil
}

// follower returns the treasury of chains. Nothing can be signed with it.
func follower(n config.Networks, store *storage.Store, chains worker.Chains) *treasurer.Treasury {
	return &treasurer.Treasury{Payouts: store.Payouts, Store: store.Treasury, Mode: n.Mode, Chains: chains.Ready()}
}
