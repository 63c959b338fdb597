package worker

import (
	"context"
	"log/slog"
	"maps"
	"time"

	"example.com/checkout/activities"
	"example.com/checkout/activities/bitcoin"
	"example.com/checkout/activities/ethereum"
	"example.com/checkout/activities/rate"
	"example.com/checkout/activities/stripe"
	treasurer "example.com/checkout/activities/treasury"
	"example.com/checkout/storage"
	"example.com/checkout/workflows/address"
	"example.com/checkout/workflows/books"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/money"
	"example.com/checkout/workflows/treasury"
)

// Networks are the settings of the real networks of a mode. The sandbox takes the place of nil ones.
type Networks struct {
	Mode    checkout.Mode
	Cards   *stripe.Options
	Payouts *PayoutSettings
}

// PayoutSettings are the settings of payouts on real chains.
type PayoutSettings struct {
	Ethereum        ethereum.Options
	Bitcoin         *bitcoin.Options // nil: no payouts in BTC
	Rates           rate.Options     // without Chain
	Limits          treasury.PayoutLimits
	Patience, Delay time.Duration // see treasurer.Treasury
	Sanctioned      address.List
}

// Chains returns the chains. It calls no node.
func (s *PayoutSettings) Chains() Chains {
	all := Chains{money.Ethereum: ethereumChain(s.Ethereum)}
	if s.Bitcoin != nil {
		all[money.Bitcoin] = bitcoinChain(*s.Bitcoin)
	}
	return all
}

// NewRates returns the exchange rates. Run must read them.
func (s *PayoutSettings) NewRates(chains Chains) (*rate.Rates, error) {
	o := s.Rates
	o.Chain = chains[money.Ethereum]
	rates, err := rate.New(o)
	if err != nil {
		return nil, err
	}
	if never := rates.NeverQuoted(); len(never) > 0 {
		slog.Warn("the chosen sources have no exchange rate for these markets", "markets", never)
	}
	return rates, nil
}

// modeNetworks are the open networks of a mode. The sandbox takes the place of nil parts.
type modeNetworks struct {
	mode     checkout.Mode
	cards    *stripe.Network
	treasury *modeTreasury
	rates    *rate.Rates
	bounds   *PayoutBounds // known before a card is charged
}

// openNetworks opens the networks of a mode. It returns an error for a wrong setting. Only the payouts of a chain wait
// for a node that is not ready.
func openNetworks(ctx context.Context, n Networks, store *storage.Store) (opened modeNetworks, err error) {
	opened.mode = n.Mode
	if n.Cards != nil {
		if opened.cards, err = stripe.New(*n.Cards); err != nil {
			return opened, err
		}
	}
	s := n.Payouts
	if s == nil {
		return opened, nil
	}
	chains := s.Chains()
	if opened.rates, err = s.NewRates(chains); err != nil {
		return opened, err
	}
	opened.bounds = NewPayoutBounds(s.Limits, opened.rates, chains)
	opened.treasury = &modeTreasury{chains: chains, treasury: treasurer.Treasury{
		Payouts: store.Payouts, Store: store.Treasury, Mode: n.Mode, Rates: opened.rates, Limits: s.Limits,
		Patience: s.Patience, Delay: s.Delay, Sanctioned: s.Sanctioned,
	}}
	opened.treasury.synced.Store(time.Now().Unix())
	for _, chain := range chains {
		if err := chain.openOrLater(ctx, n.Mode); err != nil {
			return opened, err
		}
	}
	return opened, nil
}

// networks returns the networks for the activities, beside those of the sandbox.
func (n modeNetworks) networks(beside activities.Networks) activities.Networks {
	all := activities.Networks{
		Cards: map[checkout.Acquirer]checkout.CardNetwork{}, Chains: map[string]activities.PayoutRoute{},
	}
	maps.Copy(all.Cards, beside.Cards)
	maps.Copy(all.Chains, beside.Chains)
	if n.cards != nil {
		all.Cards[checkout.AcquirerStripe] = n.cards
	}
	if n.treasury != nil {
		for _, chain := range n.treasury.chains {
			all.Chains[chain.ID] = activities.PayoutRoute{Rates: n.rates, Payouts: n.treasury, Bounds: n.bounds.Find}
		}
	}
	return all
}

// RecordReport stores a report of the card network. It returns whether the report is new.
type RecordReport func(ctx context.Context, e books.AcquirerEvent) (fresh bool, err error)

// follow adds the activities that follow the networks: the rounds of the treasury, the comparison of the books, and the
// reading of the card network's reports. It starts the polling of exchange rates, and waits a moment for the first:
// without them the worker would refuse each payment.
func (n modeNetworks) follow(ctx context.Context, o *Options, record RecordReport) {
	if n.cards != nil {
		o.Books.Accounts[n.mode] = activities.Account{
			CardNetwork: n.cards, Succeeded: n.cards.Succeeded, Movements: n.cards.Movements, Charged: n.cards.Charged,
			Risks: n.cards.Risks, Events: n.cards.Events, Note: record,
		}
	}
	if n.treasury != nil {
		o.Treasury.Follow[n.mode] = n.treasury.sync
		o.Synced[n.mode] = &n.treasury.synced
		go n.rates.Run(ctx)
		go n.bounds.Run(ctx)
		n.bounds.await(ctx)
	}
}
