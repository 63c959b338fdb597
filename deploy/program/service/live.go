package service

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"example.com/checkout/activities"
	"example.com/checkout/activities/jsonrpc"
	"example.com/checkout/activities/rate"
	"example.com/checkout/activities/stripe"
	treasurer "example.com/checkout/activities/treasury"
	"example.com/checkout/api"
	"example.com/checkout/api/hosted"
	"example.com/checkout/deploy/program/config"
	"example.com/checkout/storage"
	"example.com/checkout/worker"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/money"
	"example.com/checkout/workflows/treasury"
)

// modeNetworks is what a worker needs of the networks of a mode. Its parts are nil when the sandbox stands
// for them.
type modeNetworks struct {
	mode  checkout.Mode
	cards *stripe.Network
	payer *lateTreasury
	rates *rate.Rates
	// bounds are those of the payouts, known before a card is charged.
	bounds *payoutBounds
}

// openNetworks opens the networks of a mode. It returns an error for a wrong setting. The payouts of a chain wait for a
// node that is not ready. Everything else must not wait for it.
func openNetworks(ctx context.Context, n config.Networks, store *storage.Store) (modeNetworks, error) {
	opened := modeNetworks{mode: n.Mode}
	if err := n.ForWorker(); err != nil {
		return opened, err
	}
	if n.Cards {
		var err error
		opened.cards, err = stripe.New(stripe.Options{
			SecretKey: n.StripeSecretKey, Mode: n.Mode, APIURL: n.StripeAPIURL, Simulated: n.Simulated,
		})
		if err != nil {
			return opened, err
		}
	}
	if !n.Chains {
		return opened, nil
	}
	chains, err := chainsOf(n, true)
	if err != nil {
		return opened, err
	}
	if opened.rates, err = newRates(n, chains[money.Ethereum]); err != nil {
		return opened, err
	}
	opened.bounds = newPayoutBounds(n.Limits, opened.rates, chains)
	opened.payer = &lateTreasury{chains: chains, pay: treasurer.Treasury{
		Payouts: store.Payouts, Store: store.Treasury, Mode: n.Mode, Rates: opened.rates, Limits: n.Limits,
		Patience: n.PayoutPatience, Delay: n.PayoutDelay, Sanctioned: n.Sanctioned,
	}}
	opened.payer.followed.Store(time.Now().Unix())
	if err := measureTreasury(n.Mode, &opened.payer.followed); err != nil {
		return opened, err
	}
	for _, chain := range chains {
		if err := chain.tryOrLater(ctx, n.Mode); err != nil {
			return opened, err
		}
	}
	return opened, nil
}

// lateTreasury is a treasury whose chains may not be ready yet. Until then their payouts are tried again.
type lateTreasury struct {
	chains   lateChains
	pay      treasurer.Treasury // without Chains
	followed atomic.Int64       // when a round last ended well, in seconds since 1970
}

// opened returns the treasury with the chains that are ready.
func (l *lateTreasury) opened() *treasurer.Treasury {
	t := l.pay
	t.Chains = l.chains.opened()
	return &t
}

// Transfer implements activities.PayoutSender.
func (l *lateTreasury) Transfer(ctx context.Context, p storage.PayoutToSend) (treasury.TransferOutcome, error) {
	t := l.opened()
	if chain := l.chains[p.Network]; chain != nil && t.Chains[p.Network] == nil {
		return treasury.TransferOutcome{}, chain.notYet()
	}
	return t.Transfer(ctx, p)
}

// networks returns the networks beside those of the sandbox.
func (n modeNetworks) networks(beside activities.Networks) activities.Networks {
	all := activities.Networks{Cards: map[checkout.Acquirer]checkout.CardNetwork{}, Chains: map[string]activities.Chain{}}
	maps.Copy(all.Cards, beside.Cards)
	maps.Copy(all.Chains, beside.Chains)
	if n.cards != nil {
		all.Cards[checkout.AcquirerStripe] = n.cards
	}
	if n.payer != nil {
		for _, chain := range n.payer.chains {
			all.Chains[chain.id] = activities.Chain{Rates: n.rates, Payouts: n.payer, Bounds: n.bounds.find}
		}
	}
	return all
}

// follow adds what follows the networks: the rounds of the treasury, the comparison of the books, the
// reading of the card network's reports, which note stores, and the polling of exchange rates. It waits a moment for
// the first prices: until then the worker would refuse each payment.
func (n modeNetworks) follow(ctx context.Context, o *worker.Options, note noteReport) {
	if n.cards != nil {
		o.Books.Accounts[n.mode] = activities.Account{
			CardNetwork: n.cards, Succeeded: n.cards.Succeeded, Movements: n.cards.Movements, Charged: n.cards.Charged,
			Risks:  n.cards.Risks,
			Events: n.cards.Events, Note: note,
		}
	}
	if n.payer != nil {
		o.Treasury.Follow[n.mode] = n.payer.follow
		go n.rates.Run(ctx)
		go n.bounds.run(ctx)
		n.bounds.await(ctx)
	}
}

// newRates returns the exchange rates. Run must read them.
func newRates(n config.Networks, chain rate.Caller) (*rate.Rates, error) {
	o := rate.Defaults()
	o.Mode, o.Sources, o.MaxAge, o.Lock, o.Chain = n.Mode, n.RateSources, n.RateMaxAge, n.PayoutPatience, chain
	if n.Simulated {
		o.KrakenURL, o.CoinbaseURL = n.KrakenURL, n.CoinbaseURL
	}
	if n.Feeds != nil {
		o.Feeds = n.Feeds
	}
	o.MaxDeviation, o.SpreadStable, o.Spread = n.MaxDeviation, n.SpreadStable, n.Spread
	rates, err := rate.New(o)
	if err != nil {
		return nil, err
	}
	if never := rates.NeverQuoted(); len(never) > 0 {
		slog.Warn("the chosen sources have no exchange rate for these markets", "markets", never)
	}
	return rates, nil
}

// follow is one round of the treasury, in the words of package activities.
func (l *lateTreasury) follow(ctx context.Context) (activities.TreasuryResult, error) {
	var result activities.TreasuryResult
	got, err := l.opened().Sync(ctx)
	err = errors.Join(err, l.chains.missing())
	if err == nil {
		l.followed.Store(time.Now().Unix())
	}
	for _, a := range got.Accounts {
		result.Live += a.Live
		result.Resent += a.Resent
		result.Bumped += a.Bumped
		result.Confirmed += a.Confirmed
		result.Canceled += a.Canceled
		result.Reopened += a.Reopened
		result.Alarms = append(result.Alarms, a.Alarms...)
		result.Failed = append(result.Failed, a.Failed...)
	}
	return result, err
}

// openNetworksAPI gives the REST API and the page what they need of the networks of a mode. Nothing of it
// moves money. run keeps it up to date.
func openNetworksAPI(
	n config.Networks, rest *api.Config, page *hosted.Config,
) (run func(ctx context.Context), err error) {
	run = func(context.Context) {}
	if err := n.ForAPI(); err != nil {
		return nil, err
	}
	if n.Cards {
		page.Acquirers[n.Mode], err = hosted.NewAcquirer(n.Mode, n.StripePublishableKey, n.StripeScriptURL, n.Simulated)
		if err != nil {
			return nil, err
		}
	}
	if !n.Chains {
		return run, nil
	}
	n.BitcoinWallet = "" // prices need no call of a wallet
	chains, err := chainsOf(n, false)
	if err != nil {
		return nil, err
	}
	rates, err := newRates(n, chains[money.Ethereum])
	if err != nil {
		return nil, err
	}
	bounds := newPayoutBounds(n.Limits, rates, chains)
	page.Chains[n.Mode] = map[money.PayoutCurrency]string{}
	for _, c := range bounds.currencies {
		page.Chains[n.Mode][c] = chains[c.Network()].id
	}
	rest.Payouts[n.Mode] = &api.Payouts{
		Currencies: bounds.currencies, NoQuoteSince: rates.NoQuoteSince, Bounds: bounds.find,
	}
	return func(ctx context.Context) {
		chains.openSoon(ctx, n.Mode)
		go bounds.run(ctx)
		rates.Run(ctx)
	}, nil
}

// ErrNotFinal: the limit of a wait for final blocks has ended.
var ErrNotFinal = errors.New("not final")

// ThawTreasury lets an account of the treasury sign again, with its nonce and balances as the chain has them
// now. It waits for blocks that are not final yet, for patience at most: say is told for what and how long, at
// first and when more blocks are final. Its errors are those of treasury.Thaw, and ErrNotFinal.
func ThawTreasury(
	ctx context.Context, cfg config.Config, o treasurer.ThawOrder, patience time.Duration, say func(progress string),
) error {
	return withTreasury(ctx, cfg, o.AccountID, func(_ config.Networks, t *treasurer.Treasury) error {
		return awaitFinal(ctx, patience, say, func() error { return t.Thaw(ctx, o) })
	})
}

// awaitFinal repeats act while something is not final, and while a node does not answer. The end of patience does not
// interrupt act. It returns ErrNotFinal with the last error.
func awaitFinal(ctx context.Context, patience time.Duration, say func(progress string), act func() error) error {
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
			say("waiting" + left + limit + ": " + text)
			limit, said = "", text
		}
		return passes
	})
}

// CompareTreasury compares the chains of live mode with the transfers, and freezes an account of which they lack
// something. Its errors say what is wrong with the settings or a node.
func CompareTreasury(ctx context.Context, n config.Networks, store *storage.Store) error {
	if n.EthereumTreasury == "" {
		return errNoTreasury
	}
	chains, err := chainsOf(n, false)
	if err != nil {
		return err
	}
	for _, chain := range chains {
		if err := chain.try(ctx); err != nil {
			return err
		}
	}
	return follower(n, store, chains).Compare(ctx)
}

// RecoverTreasury finds what the chain knows of an account and PostgreSQL lacks. It waits until there are
// exchange rates. Its errors are those of treasury.Recover.
func RecoverTreasury(
	ctx context.Context, cfg config.Config, o treasurer.RecoveryOrder,
) (result treasurer.RecoveryResult, err error) {
	err = withTreasury(ctx, cfg, o.AccountID, func(n config.Networks, t *treasurer.Treasury) error {
		chains, err := chainsOf(n, false)
		if err != nil {
			return err
		}
		rates, err := newRates(n, chains[money.Ethereum])
		if err != nil {
			return err
		}
		ctx, stop := context.WithCancel(ctx)
		defer stop()
		chains.openSoon(ctx, n.Mode)
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
	of := func(a storage.TreasuryAccount) bool { return a.ID == accountID }
	i := slices.IndexFunc(accounts, of)
	if i < 0 { // the chain need not be asked
		return nil, checkout.ErrNotFound
	}
	if n.EthereumTreasury == "" {
		return nil, errNoTreasury
	}
	all, err := chainsOf(n, false)
	if err != nil {
		return nil, err
	}
	chain := all[accounts[i].Network]
	if chain == nil {
		return nil, fmt.Errorf("%w: it is on %s", treasurer.ErrOtherSettings, accounts[i].ChainID)
	}
	if err := chain.open(ctx); err != nil {
		return nil, err
	}
	return follower(n, store, lateChains{accounts[i].Network: chain}), nil
}

// follower returns the treasury of chains. Nothing can be signed with it.
func follower(n config.Networks, store *storage.Store, chains lateChains) *treasurer.Treasury {
	return &treasurer.Treasury{Payouts: store.Payouts, Store: store.Treasury, Mode: n.Mode, Chains: chains.opened()}
}
