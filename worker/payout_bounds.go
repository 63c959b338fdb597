package worker

import (
	"context"
	"log/slog"
	"math/big"
	"sync"
	"time"

	treasurer "example.com/checkout/activities/treasury"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/money"
	"example.com/checkout/workflows/treasury"
)

const (
	// boundsEvery is how often the bounds are found out.
	boundsEvery = 30 * time.Second
	// boundsFirst is the wait after the first look; each wait is twice as long as the one before. Right after
	// a start neither the rates nor the node may be there.
	boundsFirst = 250 * time.Millisecond
	// boundsPatience is how long a worker waits for all bounds before it takes work. A source of prices or a node may be
	// away, and most work needs neither.
	boundsPatience = 3 * time.Second
)

// feeShare is the largest part of a payout that the network's fee may take. Source: api/decisions/ethereum.md,
// "fee of an Ethereum payout", and api/decisions/bitcoin.md, "fee of a Bitcoin payout".
var feeShare = big.NewRat(5, 100)

// PayoutBounds computes in the background what can be paid out, so that no request calls a node. Bounds that
// cannot be found out anew stay as they are: an old bound is better than none.
type PayoutBounds struct {
	Currencies []money.PayoutCurrency // those that are paid out

	estimate func(context.Context, money.PayoutCurrency) (money.Crypto, error) // of a network's fee
	rates    checkout.RateSource
	limits   treasury.PayoutLimits

	fees map[money.PayoutCurrency]money.Crypto // the last estimates

	mu    sync.Mutex
	known map[[2]string]checkout.PayoutBounds // by currency and payout currency
	all   chan struct{}                       // closed when every bound is known
}

// NewPayoutBounds returns the bounds of the currencies that are paid out on the chains.
func NewPayoutBounds(limits treasury.PayoutLimits, rates checkout.RateSource, chains Chains) *PayoutBounds {
	b := &PayoutBounds{
		limits: limits, rates: rates,
		fees: map[money.PayoutCurrency]money.Crypto{}, known: map[[2]string]checkout.PayoutBounds{},
		all: make(chan struct{}),
	}
	b.estimate = func(ctx context.Context, c money.PayoutCurrency) (money.Crypto, error) {
		return chains[c.Network()].TransferFee(ctx, c)
	}
	for _, c := range money.PayoutCurrencies {
		if chains[c.Network()] != nil {
			b.Currencies = append(b.Currencies, c)
		}
	}
	return b
}

// Run finds the bounds out until ctx ends.
func (b *PayoutBounds) Run(ctx context.Context) {
	missing := true
	for wait := boundsFirst; ; wait = min(2*wait, boundsEvery) {
		b.refresh(ctx)
		if missing && len(b.known) == len(b.Currencies)*len(money.Currencies) {
			close(b.all)
			missing = false
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

// await waits until every bound is known, for boundsPatience at most: a payment without them is refused.
func (b *PayoutBounds) await(ctx context.Context) {
	ctx, stop := context.WithTimeout(ctx, boundsPatience)
	defer stop()
	select {
	case <-b.all:
	case <-ctx.Done():
	}
}

// refresh finds all bounds out once.
func (b *PayoutBounds) refresh(ctx context.Context) {
	for _, to := range b.Currencies {
		fee, err := b.estimate(ctx, to)
		if err != nil {
			slog.DebugContext(ctx, "the network's fee cannot be estimated", "currency", to, "error", err)
		} else {
			b.fees[to] = fee
		}
		for _, from := range money.Currencies {
			b.learn(ctx, from, to)
		}
	}
}

// learn finds the bounds of one market out, when its rates and the network's fee are known.
func (b *PayoutBounds) learn(ctx context.Context, from money.Currency, to money.PayoutCurrency) {
	fee, ok := b.fees[to]
	if !ok {
		return
	}
	least, err := b.least(ctx, from, to, fee)
	if err != nil {
		return
	}
	most, err := treasurer.Most(ctx, b.rates, from, b.limits)
	if err != nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.known[[2]string{string(from), string(to)}] = checkout.PayoutBounds{Least: least, Most: most}
}

// least returns the least payout of which the fee takes no more than feeShare.
func (b *PayoutBounds) least(
	ctx context.Context, from money.Currency, to money.PayoutCurrency, fee money.Crypto,
) (money.Amount, error) {
	quote, err := b.rates.Quote(ctx, from, money.NetworkCurrency(to.Network()))
	if err != nil {
		return 0, err
	}
	share := new(big.Rat).Mul(quote.Rate.Rat(), feeShare)
	return money.CeilAmount(share.Quo(fee.Coins(), share), from), nil
}

// Find implements checkout.FindBounds. It calls no node.
func (b *PayoutBounds) Find(from money.Currency, to money.PayoutCurrency) (checkout.PayoutBounds, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	bounds, ok := b.known[[2]string{string(from), string(to)}]
	return bounds, ok
}
