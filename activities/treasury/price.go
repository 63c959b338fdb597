package treasury

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"time"

	"example.com/checkout/storage"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/money"
	"example.com/checkout/workflows/treasury"
)

// pricedPayout is a payout that may be signed, as far as can be checked without the lock of the account.
type pricedPayout struct {
	storage.PricedPayout

	request treasury.TransferRequest
}

var errDisputed = errors.New("a dispute may take all of the payout")

// price checks the destination of a payout and prices it.
func (t *Treasury) price(ctx context.Context, chain treasury.Chain, p checkout.Payout) (got pricedPayout, err error) {
	if err := t.check(ctx, chain, p); err != nil {
		return got, err
	}
	if p, err = t.Payouts.RecoverDebt(ctx, p, t.Rates); err != nil {
		return got, err
	}
	switch {
	case p.Failure != "":
		return got, refusedError{failure: p.Failure}
	case p.Net() == 0: // a dispute may take all of it
		return got, checkout.HeldError{Why: checkout.HoldRisk, Cause: errDisputed}
	}
	if p.ExchangeRate, err = t.rate(ctx, p); err != nil {
		return got, err
	}
	feeRate, err := t.feeRate(ctx, p)
	if err != nil {
		return got, err
	}
	if got.Value, err = value(ctx, t.Rates, p); err != nil {
		return got, err
	}
	burnt, err := t.Store.Burnt(ctx, p)
	got.Payout = p
	got.request = treasury.TransferRequest{
		PayoutID: p.ID, Destination: p.Destination, Gross: p.Gross(), FeeRate: feeRate, Burnt: burnt,
	}
	return got, err
}

// plan plans a transfer of payouts. It signs nothing.
func (t *Treasury) plan(
	ctx context.Context, chain treasury.Chain, all []pricedPayout, taken treasury.Slot,
) (treasury.TransferPlan, error) {
	requests := make([]treasury.TransferRequest, len(all))
	for i, p := range all {
		requests[i] = p.request
	}
	plan, err := chain.Plan(ctx, requests, taken)
	if err != nil {
		return plan, fmt.Errorf("plan a transfer: %w", err)
	}
	return plan, checkPlan(plan, requests)
}

// rate returns the rate of a transfer that is signed now.
func (t *Treasury) rate(ctx context.Context, p checkout.Payout) (money.Rate, error) {
	if p.RateHolds(time.Now()) {
		return p.ExchangeRate, nil
	}
	now, err := quote(ctx, t.Rates, leg{p.SourceCurrency, p.Currency})
	if err != nil || now.Rat().Cmp(p.ExchangeRate.Rat()) >= 0 {
		return p.ExchangeRate, err
	}
	return now, nil
}

// feeRate returns the price of one unit of the chain's own currency in the payout's.
func (t *Treasury) feeRate(ctx context.Context, p checkout.Payout) (money.Rate, error) {
	own := money.NetworkCurrency(p.Network)
	if p.Currency == own {
		return money.MustRate("1"), nil
	}
	rate, err := ratio(ctx, t.Rates, leg{p.SourceCurrency, p.Currency}, leg{p.SourceCurrency, own})
	if err != nil {
		return money.Rate{}, err
	}
	return money.CeilRate(rate), nil
}

// value returns the net of the payout in US cents, rounded up.
func value(ctx context.Context, rates checkout.RateSource, p checkout.Payout) (money.Amount, error) {
	rate, err := dollars(ctx, rates, p.SourceCurrency)
	if err != nil {
		return 0, err
	}
	return money.CeilAmount(rate.Mul(rate, p.Net().Coins(p.SourceCurrency)), money.USD), nil
}

// drift is how much a currency may gain on the US dollar between the charge and the signature of its payout,
// without its payout becoming too large.
var drift = big.NewRat(1, 100)

// Most returns the largest payout in a currency that the limits do not hold for good, in minor units. It is
// what value allows, less drift. It returns checkout.ErrNoRate.
func Most(
	ctx context.Context, rates checkout.RateSource, from money.Currency, limits treasury.PayoutLimits,
) (money.Amount, error) {
	if from == money.USD {
		return limits.Largest(), nil
	}
	rate, err := dollars(ctx, rates, from)
	if err != nil {
		return 0, err
	}
	dearer := new(big.Rat).Mul(rate, drift)
	return money.FloorAmount(dearer.Quo(limits.Largest().Coins(money.USD), dearer.Add(rate, dearer)), from), nil
}

// dollars returns the price of a currency in US dollars.
func dollars(ctx context.Context, rates checkout.RateSource, from money.Currency) (*big.Rat, error) {
	if from == money.USD {
		return big.NewRat(1, 1), nil
	}
	return ratio(ctx, rates, leg{from, money.USDC}, leg{money.USD, money.USDC})
}

// leg is one exchange rate.
type leg struct {
	from money.Currency
	to   money.PayoutCurrency
}

// ratio returns the first rate divided by the second.
func ratio(ctx context.Context, source checkout.RateSource, over, under leg) (*big.Rat, error) {
	var rates [2]money.Rate
	for i, l := range []leg{over, under} {
		var err error
		if rates[i], err = quote(ctx, source, l); err != nil {
			return nil, err
		}
	}
	return new(big.Rat).Quo(rates[0].Rat(), rates[1].Rat()), nil
}

func quote(ctx context.Context, source checkout.RateSource, l leg) (money.Rate, error) {
	quote, err := source.Quote(ctx, l.from, l.to)
	if err != nil {
		return money.Rate{}, fmt.Errorf("rate from %s to %s: %w", l.from, l.to, err)
	}
	return quote.Rate, nil
}

// checkPlan compares a plan with the payouts: it pays each destination no more than the payout has
// left after the fee, and the fee has no other part.
func checkPlan(plan treasury.TransferPlan, payouts []treasury.TransferRequest) error {
	if len(plan.Outputs) != len(payouts) {
		return errors.New("the plan of the transfer pays other payouts")
	}
	var fee money.Crypto
	for i, p := range payouts {
		pays, currency := plan.Outputs[i], p.Gross.Currency()
		if pays.PayoutID != p.PayoutID || pays.Destination != p.Destination || pays.Amount.Currency() != currency ||
			pays.Fee.Currency() != currency || currency != plan.Currency() || pays.Amount.Sign() <= 0 ||
			pays.Fee.Sign() < 0 || pays.Amount.Add(pays.Fee).Cmp(p.Gross) > 0 {
			return fmt.Errorf("the plan of the transfer is not that of %s", p.PayoutID)
		}
		fee = fee.Add(pays.Fee)
	}
	if !plan.Fee.Is(fee) {
		return errors.New("the payouts do not share the fee of the transfer")
	}
	return nil
}
