package service

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/shopspring/decimal"

	"example.com/checkout/workflows/checkout"
)

const (
	// feesEvery is how often the fees of the network are estimated.
	feesEvery = 30 * time.Second
	// feesMaxAge is how old an estimate may be: some blocks whose base fee rises double the fee.
	feesMaxAge = 2 * time.Minute
)

// feeShare is the largest part of a payout that the network's fee may take.
// Source: api/decisions.md, "fee of an Ethereum payout".
var feeShare = decimal.RequireFromString("0.05")

// networkFees estimates in the background what transfers cost, so that no request asks a node.
type networkFees struct {
	currencies []checkout.PayoutCurrency
	estimate   func(context.Context, checkout.PayoutCurrency) (string, error) // a decimal in the network's own currency
	rates      checkout.RateSource
	now        func() time.Time

	mu   sync.Mutex
	fees map[checkout.PayoutCurrency]networkFee
}

type networkFee struct {
	amount decimal.Decimal
	at     time.Time
}

// run estimates the fees until ctx ends.
func (f *networkFees) run(ctx context.Context) {
	ticker := time.NewTicker(feesEvery)
	defer ticker.Stop()
	for {
		f.refresh(ctx)
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// refresh estimates the fee of each currency once. A fee that cannot be estimated stays as it is until
// it is too old.
func (f *networkFees) refresh(ctx context.Context) {
	for _, c := range f.currencies {
		text, err := f.estimate(ctx, c)
		var amount decimal.Decimal
		if err == nil {
			amount, err = decimal.NewFromString(text)
		}
		if err != nil {
			slog.DebugContext(ctx, "the network's fee cannot be estimated", "currency", c, "error", err)
			continue
		}
		f.mu.Lock()
		f.fees[c] = networkFee{amount, f.now()}
		f.mu.Unlock()
	}
}

// leastPayout returns the least amount in a fiat currency that can be paid out now. It is 0 when the
// fee or the exchange rate is not known: then the payout itself decides, when it is sent.
func (f *networkFees) leastPayout(
	ctx context.Context, from checkout.Currency, to checkout.PayoutCurrency,
) checkout.Amount {
	f.mu.Lock()
	fee, known := f.fees[to]
	f.mu.Unlock()
	if !known || f.now().Sub(fee.at) > feesMaxAge {
		return 0
	}
	quote, err := f.rates.Quote(ctx, from, checkout.NetworkCurrency(to.Network()))
	if err != nil {
		return 0
	}
	rate, err := decimal.NewFromString(quote.Rate)
	if err != nil || !rate.IsPositive() {
		return 0
	}
	return checkout.Amount(fee.amount.Div(rate.Mul(feeShare)).Shift(from.Places()).Ceil().IntPart())
}

// transferFee asks the chain when it is ready.
func (c *lateChain) transferFee(ctx context.Context, currency checkout.PayoutCurrency) (string, error) {
	chain := c.opened.Load()
	if chain == nil {
		return "", errNoNodeYet
	}
	return chain.TransferFee(ctx, currency)
}
