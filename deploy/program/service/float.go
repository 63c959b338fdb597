package service

import (
	"context"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"example.com/checkout/deploy/program/config"
	"example.com/checkout/storage"
	"example.com/checkout/workflows/money"
)

var (
	// Metrics are floats. No amount is read from them.
	floatCoins, _ = meter.Float64ObservableGauge("checkout.treasury.float",
		metric.WithDescription("Coins of the treasury: the balance, and what live transfers and pending payouts take."))
	floatDays, _ = meter.Float64ObservableGauge("checkout.treasury.float.remaining",
		metric.WithUnit("d"), metric.WithDescription("Days that the float lasts; absent if nothing left in 7 days."))
	floatLeast, _ = meter.Int64ObservableGauge("checkout.treasury.float.least",
		metric.WithUnit("d"), metric.WithDescription("Days that the float should last, as set."))
)

const (
	currencyKey = attribute.Key("checkout.payout.currency")
	partKey     = attribute.Key("checkout.float.part")
)

// floatPace is the shortest time between two looks at the float, which adds up the transfers of days.
const floatPace = time.Minute

// measureFloat exports the float of a mode with chains, and the days that it should last.
func measureFloat(n config.Networks, store *storage.Store) error {
	if !n.Chains {
		return nil
	}
	var (
		mu  sync.Mutex
		at  time.Time
		all []storage.Float
	)
	_, err := meter.RegisterCallback(func(ctx context.Context, o metric.Observer) (err error) {
		mu.Lock()
		defer mu.Unlock()
		if time.Since(at) >= floatPace {
			if all, err = store.Treasury.Floats(ctx, n.Mode); err != nil {
				return err
			}
			at = time.Now()
		}
		in := modeKey.String(string(n.Mode))
		o.ObserveInt64(floatLeast, int64(n.FloatDays), metric.WithAttributes(in))
		for _, f := range all {
			observeFloat(o, f, in)
		}
		return nil
	}, floatCoins, floatDays, floatLeast)
	return err
}

func observeFloat(o metric.Observer, f storage.Float, in attribute.KeyValue) {
	of := currencyKey.String(string(f.Balance.Currency()))
	for part, amount := range map[string]money.Crypto{"balance": f.Balance, "live": f.Live, "pending": f.Pending} {
		coins, _ := amount.Coins().Float64()
		o.ObserveFloat64(floatCoins, coins, metric.WithAttributes(in, of, partKey.String(part)))
	}
	if f.Days() != nil {
		days, _ := f.Days().Float64()
		o.ObserveFloat64(floatDays, days, metric.WithAttributes(in, of))
	}
}
