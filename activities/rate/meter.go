package rate

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"

	"example.com/checkout/workflows/checkout"
)

var (
	meter = otel.Meter("example.com/checkout/activities/rate")

	// An error here means a bad instrument name: a bug.
	pricesRead, _ = meter.Int64Counter("checkout.rate.prices", metric.WithUnit("{price}"),
		metric.WithDescription("Prices that sources were asked for; error.type says why one did not come."))
	marketOpen, _ = meter.Int64Gauge("checkout.rate.available",
		metric.WithDescription("1 if an exchange rate could be quoted after the last poll, 0 if not."))
)

const (
	modeKey   = attribute.Key("checkout.mode")
	sourceKey = attribute.Key("checkout.rate.source")
	fromKey   = attribute.Key("checkout.rate.from")
	toKey     = attribute.Key("checkout.rate.to")
)

// countPrice counts one price of a reading. A missing one is "away" or "wrong".
func countPrice(ctx context.Context, source string, err error) {
	attributes := []attribute.KeyValue{sourceKey.String(source)}
	switch {
	case errors.Is(err, errAway):
		attributes = append(attributes, semconv.ErrorTypeKey.String("away"))
	case err != nil:
		attributes = append(attributes, semconv.ErrorTypeKey.String("wrong"))
	}
	pricesRead.Add(ctx, 1, metric.WithAttributes(attributes...))
}

func gaugeMarket(ctx context.Context, mode checkout.Mode, m market, open bool) {
	var value int64
	if open {
		value = 1
	}
	marketOpen.Record(ctx, value,
		metric.WithAttributes(modeKey.String(string(mode)), fromKey.String(string(m.from)), toKey.String(string(m.to))))
}
