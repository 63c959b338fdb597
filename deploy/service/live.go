package service

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
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
	"example.com/checkout/api/acquirer"
	"example.com/checkout/api/hosted"
	"example.com/checkout/deploy/config"
	"example.com/checkout/storage"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/runs"
)

// liveWorker is what a worker needs in live mode.
type liveWorker struct {
	networks activities.Networks
	treasury *activities.Treasury
	books    *activities.Books
	rates    *rate.Rates
}

// openLive opens the networks of live mode, nil when it is not configured. It waits for nodes that are
// not ready, and returns an error for a wrong setting.
func openLive(ctx context.Context, cfg config.Config, store *storage.Store) (*liveWorker, error) {
	l := cfg.Live
	if !l.On() {
		return nil, nil
	}
	if err := l.ForWorker(); err != nil {
		return nil, err
	}
	cards, err := stripe.New(stripe.Options{
		SecretKey: l.StripeSecretKey, Mode: checkout.ModeLive, APIURL: l.StripeAPIURL, Simulated: l.Simulated,
	})
	if err != nil {
		return nil, err
	}
	signer, err := signerOf(l)
	if err != nil {
		return nil, err
	}
	chain, err := openEthereum(ctx, l, signer)
	if err != nil {
		return nil, err
	}
	rates, err := newRates(l, chain)
	if err != nil {
		return nil, err
	}
	limits, err := l.Limits()
	if err != nil {
		return nil, err
	}
	payer := &treasury.Treasury{
		Store: store, Mode: checkout.ModeLive, Chains: map[string]checkout.Chain{checkout.ETH.Network(): chain},
		Rates: rates, Limits: limits, Patience: l.PayoutPatience,
	}
	return &liveWorker{
		networks: activities.Networks{Cards: cards, Rates: rates, Payouts: payer},
		treasury: &activities.Treasury{Follow: following(payer)},
		books:    &activities.Books{Store: store, Cards: cards, Succeeded: cards.Succeeded},
		rates:    rates,
	}, nil
}

// signerOf returns what has the treasury's key.
func signerOf(l config.Live) (ethereum.Signer, error) {
	if l.EthereumKeystore != "" {
		password, err := l.KeystorePassword()
		if err != nil {
			return nil, err
		}
		return ethereum.OpenKeystore(l.EthereumKeystore, password)
	}
	return ethereum.NewRemoteSigner(l.EthereumSignerURL)
}

// openEthereum opens the chain. signer is nil in a process that signs nothing.
func openEthereum(ctx context.Context, l config.Live, signer ethereum.Signer) (chain *ethereum.Chain, err error) {
	options := ethereum.Options{
		RPCURLs: l.EthereumRPCURLs, ChainID: l.EthereumChainID, Treasury: l.EthereumTreasury,
		Tokens: map[checkout.PayoutCurrency]string{checkout.USDC: l.EthereumUSDC, checkout.USDT: l.EthereumUSDT},
		Signer: signer, MaxFeeGwei: l.EthereumMaxFeeGwei, Confirmations: l.EthereumConfirmations,
	}
	err = wait(ctx, "Ethereum", func() (err error) {
		chain, err = ethereum.Open(ctx, options)
		return err
	}, func(err error) bool { return errors.Is(err, ethereum.ErrNotReady) })
	return chain, err
}

// newRates returns the exchange rates. Run must read them.
func newRates(l config.Live, chain rate.Caller) (*rate.Rates, error) {
	o := rate.Defaults()
	o.Sources, o.MaxAge, o.Chain = l.RateSources, l.RateMaxAge, chain
	if l.Simulated {
		o.KrakenURL, o.CoinbaseURL = l.KrakenURL, l.CoinbaseURL
	}
	feeds, err := l.Feeds()
	if err != nil {
		return nil, err
	}
	if feeds != nil {
		o.Feeds = feeds
	}
	for into, text := range map[*decimal.Decimal]string{
		&o.MaxDeviation: l.RateMaxDeviation, &o.SpreadStable: l.RateSpreadStable, &o.Spread: l.RateSpread,
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

// following returns one round of a treasury, in the words of package activities.
func following(t *treasury.Treasury) func(context.Context) (activities.TreasuryReport, error) {
	return func(ctx context.Context) (activities.TreasuryReport, error) {
		got, err := t.Sync(ctx)
		var report activities.TreasuryReport
		for _, a := range got.Accounts {
			report.Live += a.Live
			report.Resent += a.Resent
			report.Bumped += a.Bumped
			report.Confirmed += a.Confirmed
			report.Reopened += a.Reopened
			report.Alarms = append(report.Alarms, a.Alarms...)
			for _, p := range a.Failed {
				failed := activities.FailedPayout{Ref: p.Ref, Settlement: activities.Settlement(p.Settlement)}
				report.Failed = append(report.Failed, failed)
			}
		}
		return report, err
	}
}

// liveAPI is what the API process needs in live mode. Nothing of it moves money.
type liveAPI struct {
	rest    *api.Live
	page    *hosted.Acquirer
	reports http.Handler // takes those of the card network
	run     func(ctx context.Context)
}

// openLiveAPI returns nil when live mode is not configured.
func openLiveAPI(cfg config.Config, store *storage.Store, flows *runs.Client) (*liveAPI, error) {
	l := cfg.Live
	if !l.On() {
		return nil, nil
	}
	if err := l.ForAPI(); err != nil {
		return nil, err
	}
	chain := &lateChain{}
	rates, err := newRates(l, chain)
	if err != nil {
		return nil, err
	}
	page, err := hosted.NewAcquirer(l.StripePublishableKey, l.StripeScriptURL, l.Simulated)
	if err != nil {
		return nil, err
	}
	currencies := slices.DeleteFunc(slices.Clone(checkout.PayoutCurrencies), func(c checkout.PayoutCurrency) bool {
		return c.Network() != checkout.ETH.Network()
	})
	fees := &networkFees{
		currencies: currencies, estimate: chain.transferFee, rates: rates, now: time.Now,
		fees: map[checkout.PayoutCurrency]networkFee{},
	}
	return &liveAPI{
		rest: &api.Live{Currencies: currencies, NoQuoteSince: rates.NoQuoteSince, LeastPayout: fees.leastPayout},
		page: page,
		reports: acquirer.New(acquirer.Config{
			Store: store, SignalComplete: flows.SignalComplete, Log: slog.Default(), Verify: verifier(l),
		}),
		run: func(ctx context.Context) {
			go chain.open(ctx, l)
			go fees.run(ctx)
			rates.Run(ctx)
		},
	}, nil
}

// withReports takes the reports of the card network at their own path. An http.ServeMux would redirect
// unclean paths, which the REST API answers with 404.
func withReports(live *liveAPI, rest http.Handler) http.Handler {
	if live == nil {
		return rest
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == acquirer.Path {
			live.reports.ServeHTTP(w, r)
			return
		}
		rest.ServeHTTP(w, r)
	})
}

// verifier checks the card network's reports. A report of Stripe's test mode is refused.
func verifier(l config.Live) func([]byte, string) (storage.AcquirerEvent, error) {
	return func(payload []byte, signature string) (storage.AcquirerEvent, error) {
		e, err := stripe.VerifyEvent(payload, signature, l.StripeWebhookSecrets)
		if err != nil {
			return storage.AcquirerEvent{}, err
		}
		if !e.Livemode {
			return storage.AcquirerEvent{}, errors.New("the report is of the card network's test mode")
		}
		return storage.AcquirerEvent{
			ID: e.ID, Mode: checkout.ModeLive, Type: e.Type, ObjectID: e.ObjectID, Reference: e.Reference,
			CreatedAt: e.CreatedAt,
		}, nil
	}
}

// lateChain is a chain that may not be ready yet. The API process reads prices through it and must not
// wait for a node: test mode does not need one.
type lateChain struct {
	opened atomic.Pointer[ethereum.Chain]
}

var errNotReady = errors.New("no node of Ethereum is ready yet")

func (c *lateChain) open(ctx context.Context, l config.Live) {
	chain, err := openEthereum(ctx, l, nil)
	if err != nil && ctx.Err() == nil {
		slog.ErrorContext(ctx, "Ethereum is not used for prices", "error", err)
	}
	if err == nil {
		c.opened.Store(chain)
	}
}

// CallContract implements rate.Caller.
func (c *lateChain) CallContract(ctx context.Context, to string, data []byte) ([]byte, error) {
	chain := c.opened.Load()
	if chain == nil {
		return nil, errNotReady
	}
	return chain.CallContract(ctx, to, data)
}

// ThawTreasury lets an account of the treasury sign again, with its nonce and balances as the chain has
// them now. It returns checkout.ErrNotFound when the settings are about another account.
func ThawTreasury(ctx context.Context, cfg config.Config, accountID string) error {
	store, err := OpenStore(ctx, cfg)
	if err != nil {
		return err
	}
	defer store.Close()
	if cfg.Live.EthereumTreasury == "" {
		return errors.New("CHECKOUT_ETHEREUM_TREASURY is not set: the chain must be asked")
	}
	chain, err := openEthereum(ctx, cfg.Live, nil)
	if err != nil {
		return err
	}
	payer := &treasury.Treasury{
		Store: store, Mode: checkout.ModeLive, Chains: map[string]checkout.Chain{checkout.ETH.Network(): chain},
	}
	return payer.Thaw(ctx, accountID)
}
