package activities

import (
	"context"

	"example.com/checkout/storage"
)

// BalancePayer releases reserves and pays out available balances. It is a step of Housekeeping and no activity.
type BalancePayer struct {
	Balances *storage.Balances
	Payments *Payments // has the rates
}

// pay releases the reserves whose time is over, and makes the payouts of available balances. A balance without a rate
// waits.
func (b *BalancePayer) pay(ctx context.Context) {
	for {
		n, err := b.Balances.ReleaseReserves(ctx, housekeepingPage)
		if err != nil {
			logger(ctx).ErrorContext(ctx, "reserves left to the next Reconcile", "error", err)
		}
		if n < housekeepingPage {
			break
		}
	}
	due, err := b.Balances.PayableBalances(ctx)
	if err != nil {
		logger(ctx).ErrorContext(ctx, "balances left to the next Reconcile", "error", err)
	}
	for _, p := range due {
		if err := b.payOne(ctx, p); err != nil {
			logger(ctx).ErrorContext(ctx, "balance left to the next Reconcile", "merchant_id", p.MerchantID, "error", err)
		}
	}
}

func (b *BalancePayer) payOne(ctx context.Context, p storage.BalancePayout) error {
	route, err := b.Payments.route(p.Mode, p.Chain)
	if err != nil {
		return err
	}
	if route.Bounds != nil {
		if bounds, known := route.Bounds(p.Currency, p.PayoutCurrency); !known || p.Amount < bounds.Least {
			return nil
		}
	}
	quote, err := route.Rates.Quote(ctx, p.Currency, p.PayoutCurrency)
	if err == nil {
		_, err = b.Balances.CreateBalancePayout(ctx, p, quote.Rate)
	}
	return err
}
