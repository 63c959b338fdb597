package rate

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"example.com/checkout/workflows/money"
)

// collect returns the reader of this process's metrics. The global meter can be set once only.
var collect = sync.OnceValue(func() *metric.ManualReader {
	reader := metric.NewManualReader()
	otel.SetMeterProvider(metric.NewMeterProvider(metric.WithReader(reader)))
	return reader
})

func TestMetrics(t *testing.T) {
	reader := collect()
	d := newDesk(t, "one", "two", "three")
	d.set("one", btcUSD, "64000")
	d.set("two", btcUSD, "64000")
	d.put("three", btcUSD, reading{err: errNotJSON})
	d.put("three", eurUSD, reading{err: errAway})
	d.poll()

	var all metricdata.ResourceMetrics
	require.NoError(t, reader.Collect(t.Context(), &all))
	prices, markets := map[string]bool{}, map[string]bool{}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			switch data := m.Data.(type) {
			case metricdata.Sum[int64]:
				for _, p := range data.DataPoints {
					source, _ := p.Attributes.Value(sourceKey)
					kind, _ := p.Attributes.Value("error.type")
					prices[source.AsString()+" "+kind.AsString()] = true
				}
			case metricdata.Gauge[int64]:
				for _, p := range data.DataPoints {
					from, _ := p.Attributes.Value(fromKey)
					to, _ := p.Attributes.Value(toKey)
					markets[from.AsString()+" "+to.AsString()] = true
				}
			}
		}
	}
	for name, want := range map[string]bool{"one ": true, "two ": true, "three wrong": true, "three away": true,
		"one wrong": false, "one away": false, "three ": false} {
		require.Equal(t, want, prices[name], name)
	}
	require.Len(t, markets, len(money.Currencies)*len(money.PayoutCurrencies))
}
