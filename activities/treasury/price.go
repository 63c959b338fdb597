package treasury

import (
	"context"
	"errors"
	"fmt"
	"math/big"

	"github.com/shopspring/decimal"

	"example.com/checkout/storage"
	"example.com/checkout/workflows/checkout"
)

// ratePlaces are the decimals of a rate that is made of two others.
const ratePlaces = 18

// price plans the transfer of a payout. It signs nothing. The hold says why the payout cannot be
// sent at present, "" when it can.
func (t *Treasury) price(
	ctx context.Context, chain checkout.Chain, p checkout.Payout,
) (storage.SigningOrder, checkout.PayoutHold, error) {
	order := storage.SigningOrder{Payout: p, Limits: t.Limits, Delay: t.Delay, Patience: t.patience()}
	gross, err := storage.GrossPayout(p)
	if err != nil {
		return order, "", err
	}
	feeRate, err := t.feeRate(ctx, p)
	if err == nil {
		order.Value, err = t.value(ctx, p)
	}
	if errors.Is(err, checkout.ErrNoRate) {
		return order, checkout.HoldRate, nil
	}
	if err != nil {
		return order, "", err
	}

	order.Plan, err = chain.Plan(ctx, checkout.TransferRequest{
		PayoutID: p.ID, TransactionID: p.TransactionID, Currency: p.Currency, Network: p.Network,
		Destination: p.Destination, Gross: gross, FeeRate: feeRate,
	})
	if held := holdFor(err); held != "" {
		return order, held, nil
	}
	if err != nil {
		return order, "", fmt.Errorf("plan a transfer: %w", err)
	}
	return order, "", checkPlan(order.Plan, p, gross)
}

// holdFor returns why an error of the chain makes a payout wait, "" when it does not.
func holdFor(err error) checkout.PayoutHold {
	switch {
	case errors.Is(err, checkout.ErrFeeTooHigh), errors.Is(err, checkout.ErrTooSmall):
		return checkout.HoldFee
	case errors.Is(err, checkout.ErrFloatTooLow):
		return checkout.HoldFloat
	case errors.Is(err, checkout.ErrNotTransferable):
		return checkout.HoldChain
	}
	return ""
}

// feeRate returns the price of one unit of the chain's own currency in the payout's.
func (t *Treasury) feeRate(ctx context.Context, p checkout.Payout) (string, error) {
	own := checkout.NetworkCurrency(p.Network)
	if p.Currency == own {
		return "1", nil
	}
	rate, err := t.ratio(ctx, leg{p.SourceCurrency, p.Currency}, leg{p.SourceCurrency, own})
	return rate.String(), err
}

// value returns the payout's source amount in US cents, rounded up.
func (t *Treasury) value(ctx context.Context, p checkout.Payout) (checkout.Amount, error) {
	if p.SourceCurrency == checkout.USD {
		return p.SourceAmount, nil
	}
	rate, err := t.ratio(ctx, leg{p.SourceCurrency, checkout.USDC}, leg{checkout.USD, checkout.USDC})
	if err != nil {
		return 0, err
	}
	return checkout.Amount(rate.Mul(decimal.NewFromInt(int64(p.SourceAmount))).Ceil().IntPart()), nil
}

// leg is one exchange rate.
type leg struct {
	from checkout.Currency
	to   checkout.PayoutCurrency
}

// ratio returns the first rate divided by the second.
func (t *Treasury) ratio(ctx context.Context, over, under leg) (decimal.Decimal, error) {
	var rates [2]decimal.Decimal
	for i, l := range []leg{over, under} {
		quote, err := t.Rates.Quote(ctx, l.from, l.to)
		if err != nil {
			return decimal.Decimal{}, fmt.Errorf("rate from %s to %s: %w", l.from, l.to, err)
		}
		rates[i], err = decimal.NewFromString(quote.Rate)
		if err != nil || !rates[i].IsPositive() {
			return decimal.Decimal{}, fmt.Errorf("rate from %s to %s: %q is no rate", l.from, l.to, quote.Rate)
		}
	}
	return rates[0].DivRound(rates[1], ratePlaces), nil
}

// checkPlan compares a plan with the payout: it pays the destination no more than the payout has
// left after the fee.
func checkPlan(plan checkout.TransferPlan, p checkout.Payout, gross string) error {
	has, err := p.Currency.Units(gross)
	if err != nil {
		return err
	}
	amount, err := p.Currency.Units(plan.Amount)
	if err != nil {
		return err
	}
	fee, err := p.Currency.Units(plan.Fee)
	if err != nil {
		return err
	}
	if plan.Currency != p.Currency || plan.Destination != p.Destination || amount.Sign() == 0 ||
		new(big.Int).Add(amount, fee).Cmp(has) > 0 {
		return errors.New("the plan of the transfer is not the payout's")
	}
	return nil
}
