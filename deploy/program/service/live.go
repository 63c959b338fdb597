package service

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/shopspring/decimal"

	"example.com/checkout/activities"
	"example.com/checkout/activities/ethereum"
	"example.com/checkout/activities/rate"
	"example.com/checkout/activities/stripe"
	"example.com/checkout/activities/treasury"
	"example.com/checkout/api"
	"example.com/checkout/api/hosted"
	"example.com/checkout/deploy/program/config"
	"example.com/checkout/storage"
	"example.com/checkout/worker"
	"example.com/checkout/workflows/checkout"
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

// openNetworks opens the networks of a mode. It returns an error for a wrong setting. Live mode waits for
// a node that is not ready. In test mode the payouts wait for it, because live mode must not wait for a
// test network.
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
	signer, err := signerOf(n)
	if err != nil {
		return opened, err
	}
	chain := &lateChain{}
	if opened.rates, err = newRates(n, chain); err != nil {
		return opened, err
	}
	limits, err := n.Limits()
	if err != nil {
		return opened, err
	}
	opened.bounds = newPayoutBounds(limits, opened.rates, chain.transferFee)
	opened.payer = &lateTreasury{chain: chain, ChainName: ethereum.ChainName(n.EthereumChainID), pay: treasury.Treasury{
		Store: store, Mode: n.Mode, Rates: opened.rates, Limits: limits, Patience: n.PayoutPatience,
		Delay: n.PayoutDelay, Sanctioned: n.Sanctioned,
	}}
	opened.payer.followed.Store(time.Now().Unix())
	if err := measureTreasury(n.Mode, &opened.payer.followed); err != nil {
		return opened, err
	}
	if n.Mode.Live() {
		return opened, chain.open(ctx, n, signer)
	}
	err = chain.try(ctx, n, signer)
	if errors.Is(err, ethereum.ErrNotReady) {
		go chain.openLater(ctx, n, signer)
		err = nil
	}
	return opened, err
}

// lateTreasury is a treasury whose chain may not be ready yet. Until then its payouts are tried again.
type lateTreasury struct {
	ChainName string // CAIP-2
	chain     *lateChain
	pay       treasury.Treasury // without Chains
	followed  atomic.Int64      // when a round last ended well, in seconds since 1970
}

func (l *lateTreasury) opened() (*treasury.Treasury, error) {
	chain := l.chain.opened.Load()
	if chain == nil {
		return nil, errNoNodeYet
	}
	t := l.pay
	t.Chains = map[string]checkout.Chain{checkout.Ethereum: chain}
	return &t, nil
}

// Transfer implements activities.PayoutSender.
func (l *lateTreasury) Transfer(ctx context.Context, p storage.PayoutToSend) (checkout.TransferOutcome, error) {
	t, err := l.opened()
	if err != nil {
		return checkout.TransferOutcome{}, err
	}
	return t.Transfer(ctx, p)
}

// networks returns the networks beside those of the sandbox.
func (n modeNetworks) networks(beside activities.Networks) activities.Networks {
	all := activities.Networks{
		Cards: map[checkout.Acquirer]checkout.CardNetwork{}, Chains: map[string]activities.Chain{},
	}
	maps.Copy(all.Cards, beside.Cards)
	maps.Copy(all.Chains, beside.Chains)
	if n.cards != nil {
		all.Cards[checkout.AcquirerStripe] = n.cards
	}
	if n.payer != nil {
		all.Chains[n.payer.ChainName] = activities.Chain{
			Rates: n.rates, Payouts: n.payer, Bounds: n.bounds.find,
		}
	}
	return all
}

// follow adds what follows the networks: the rounds of the treasury, the comparison of the books, the
// reading of the card network's reports, which note stores, and the polling of exchange rates.
func (n modeNetworks) follow(ctx context.Context, o *worker.Options, note noteReport) {
	if n.cards != nil {
		o.Books.Accounts[n.mode] = activities.Account{
			CardNetwork: n.cards, Succeeded: n.cards.Succeeded, Charged: n.cards.Charged, Risks: n.cards.Risks,
			Events: listed(n.mode, n.cards), Note: note,
		}
	}
	if n.payer != nil {
		o.Treasury.Follow[n.mode] = n.payer.follow
		go n.rates.Run(ctx)
		go n.bounds.run(ctx)
	}
}

// signerOf returns what has the treasury's key.
func signerOf(n config.Networks) (ethereum.Signer, error) {
	if n.EthereumKeystore != "" {
		password, err := n.KeystorePassword()
		if err != nil {
			return nil, err
		}
		return ethereum.OpenKeystore(n.EthereumKeystore, password)
	}
	return ethereum.NewRemoteSigner(n.EthereumSignerURL)
}

// openEthereum opens the chain. It returns ethereum.ErrNotReady when a repeat may succeed. signer is nil in
// a process that signs nothing.
func openEthereum(ctx context.Context, n config.Networks, signer ethereum.Signer) (*ethereum.Chain, error) {
	return ethereum.Open(ctx, ethereum.Options{
		RPCURLs: n.EthereumRPCURLs, ChainID: n.EthereumChainID, Treasury: n.EthereumTreasury,
		Tokens: n.Tokens(), Signer: signer, MaxFeeGwei: n.EthereumMaxFeeGwei, Confirmations: n.EthereumConfirmations,
		SanctionsOracle: n.SanctionsOracle,
	})
}

// newRates returns the exchange rates. Run must read them.
func newRates(n config.Networks, chain rate.Caller) (*rate.Rates, error) {
	o := rate.Defaults()
	o.Mode, o.Sources, o.MaxAge, o.Lock, o.Chain = n.Mode, n.RateSources, n.RateMaxAge, n.PayoutPatience, chain
	if n.Simulated {
		o.KrakenURL, o.CoinbaseURL = n.KrakenURL, n.CoinbaseURL
	}
	feeds, err := n.Feeds()
	if err != nil {
		return nil, err
	}
	if feeds != nil {
		o.Feeds = feeds
	}
	for into, text := range map[*decimal.Decimal]string{
		&o.MaxDeviation: n.RateMaxDeviation, &o.SpreadStable: n.RateSpreadStable, &o.Spread: n.RateSpread,
	} {
		if *into, err = config.Fraction(text); err != nil {
			return nil, err
		}
	}
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
	t, err := l.opened()
	if err != nil {
		return result, err
	}
	got, err := t.Sync(ctx)
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
		for _, p := range a.Failed {
			failed := activities.FailedPayout{Ref: p.Ref, Settlement: activities.Settlement(p.Settlement)}
			result.Failed = append(result.Failed, failed)
		}
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
	chain := &lateChain{}
	rates, err := newRates(n, chain)
	if err != nil {
		return nil, err
	}
	limits, err := n.Limits()
	if err != nil {
		return nil, err
	}
	bounds := newPayoutBounds(limits, rates, chain.transferFee)
	page.Chains[n.Mode] = map[checkout.PayoutCurrency]string{}
	for _, c := range bounds.currencies {
		page.Chains[n.Mode][c] = ethereum.ChainName(n.EthereumChainID)
	}
	rest.Payouts[n.Mode] = &api.Payouts{
		Currencies: bounds.currencies, NoQuoteSince: rates.NoQuoteSince, Bounds: bounds.find,
	}
	return func(ctx context.Context) {
		chain.openSoon(ctx, n)
		go bounds.run(ctx)
		rates.Run(ctx)
	}, nil
}

// lateChain is a chain that may not be ready yet. The API process reads prices through it and must not
// wait for a node: nothing else there needs one.
type lateChain struct {
	opened atomic.Pointer[ethereum.Chain]
}

// errNoNodeYet: the chain is configured, and its node was not ready since the process started.
var errNoNodeYet = errors.New("no node of Ethereum is ready yet")

// try opens the chain unless its node is not ready: then it returns ethereum.ErrNotReady.
func (c *lateChain) try(ctx context.Context, n config.Networks, signer ethereum.Signer) error {
	chain, err := openEthereum(ctx, n, signer)
	if err == nil {
		c.opened.Store(chain)
	}
	return err
}

// open waits for the node.
func (c *lateChain) open(ctx context.Context, n config.Networks, signer ethereum.Signer) error {
	return wait(ctx, "Ethereum", func() error { return c.try(ctx, n, signer) },
		func(err error) bool { return errors.Is(err, ethereum.ErrNotReady) })
}

// openSoon tries the node once before the first round of prices: the next round is 10 s later, and no payment is
// possible until then. A node that does not answer is opened later.
func (c *lateChain) openSoon(ctx context.Context, n config.Networks) {
	first, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	if c.try(first, n, nil) != nil {
		go c.openLater(ctx, n, nil)
	}
}

// openLater waits for the node while the process does other work.
func (c *lateChain) openLater(ctx context.Context, n config.Networks, signer ethereum.Signer) {
	if err := c.open(ctx, n, signer); err != nil && ctx.Err() == nil {
		slog.ErrorContext(ctx, "Ethereum is not used", "mode", n.Mode, "error", err)
	}
}

// CallContract implements rate.Caller.
func (c *lateChain) CallContract(ctx context.Context, to string, data []byte) ([]byte, error) {
	chain := c.opened.Load()
	if chain == nil {
		return nil, errNoNodeYet
	}
	return chain.CallContract(ctx, to, data)
}

// ThawTreasury lets an account of the treasury sign again, with its nonce and balances as the chain has
// them now. It returns checkout.ErrNotFound when the settings are about another account. Its other errors
// are those of treasury.Thaw.
func ThawTreasury(ctx context.Context, cfg config.Config, o treasury.ThawOrder) error {
	return withTreasury(ctx, cfg, o.AccountID, func(_ config.Networks, t *treasury.Treasury) error {
		return t.Thaw(ctx, o)
	})
}

// CompareTreasury compares the chain of live mode with the transfers, and freezes an account of which they lack
// something. Its errors say what is wrong with the settings or the node.
func CompareTreasury(ctx context.Context, n config.Networks, store *storage.Store) error {
	if n.EthereumTreasury == "" {
		return errNoTreasury
	}
	chain := &lateChain{}
	if err := chain.try(ctx, n, nil); err != nil {
		return err
	}
	return follower(n, store, chain).Compare(ctx)
}

// RecoverTreasury finds what the chain knows of an account and PostgreSQL lacks. It waits until there are
// exchange rates. Its errors are those of treasury.Recover.
func RecoverTreasury(
	ctx context.Context, cfg config.Config, o treasury.RecoveryOrder,
) (result treasury.RecoveryResult, err error) {
	err = withTreasury(ctx, cfg, o.AccountID, func(n config.Networks, t *treasury.Treasury) error {
		caller, _ := t.Chains[checkout.Ethereum].(rate.Caller)
		rates, err := newRates(n, caller)
		if err != nil {
			return err
		}
		ctx, stop := context.WithCancel(ctx)
		defer stop()
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
// checkout.ErrNotFound when the settings are about another account.
func withTreasury(
	ctx context.Context, cfg config.Config, accountID string, act func(config.Networks, *treasury.Treasury) error,
) error {
	store, err := OpenStore(ctx, cfg)
	if err != nil {
		return err
	}
	defer store.Close()
	err = errNoTreasury
	for _, n := range []config.Networks{cfg.Live, cfg.Test} {
		if n.EthereumTreasury == "" {
			continue
		}
		var t *treasury.Treasury
		if t, err = openTreasury(ctx, n, store, accountID); err == nil {
			return act(n, t)
		}
		if !errors.Is(err, checkout.ErrNotFound) {
			return err
		}
	}
	return err
}

// openTreasury returns checkout.ErrNotFound when the account is not the one of n.
func openTreasury(
	ctx context.Context, n config.Networks, store *storage.Store, accountID string,
) (*treasury.Treasury, error) {
	accounts, err := store.TreasuryAccounts(ctx, n.Mode)
	if err != nil {
		return nil, err
	}
	of := func(a storage.TreasuryAccount) bool { return a.ID == accountID }
	if !slices.ContainsFunc(accounts, of) { // the chain need not be asked
		return nil, checkout.ErrNotFound
	}
	chain := &lateChain{}
	if err := chain.open(ctx, n, nil); err != nil {
		return nil, err
	}
	return follower(n, store, chain), nil
}

// follower returns the treasury of a chain. Nothing can be signed with it.
func follower(n config.Networks, store *storage.Store, chain *lateChain) *treasury.Treasury {
	return &treasury.Treasury{
		Store: store, Mode: n.Mode, Chains: map[string]checkout.Chain{checkout.Ethereum: chain.opened.Load()},
	}
}
