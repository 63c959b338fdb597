package service

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"example.com/checkout/deploy/program/config"
	"example.com/checkout/storage/storagetest"
	"example.com/checkout/workflows/books"
	"example.com/checkout/workflows/checkout"
)

// TestMeter_TellsTheFloatAndTheFindings: the global meter can be set once only, so one test has it.
func TestMeter_TellsTheFloatAndTheFindings(t *testing.T) {
	t.Parallel()
	db := storagetest.New(t)
	store := db.Open(t, 0)
	_, err := store.Books.OpenFinding(t.Context(), books.Finding{Mode: checkout.ModeLive, Kind: books.FindingCostDiffers, Subject: "pi_1"})
	require.NoError(t, err)
	db.Exec(t, `
		WITH account AS (
			INSERT INTO treasury_account (id, mode, network, chain_id, address, next_nonce, next_block, seen_height, seen_balances, created_at)
			VALUES ('tre_1', 'live', 'bitcoin', 'bip122:1', 'a wallet', 0, 1, 9, '{"BTC": "1.5"}', now()))
		INSERT INTO transfer (id, account_id, nonce, status, base, cost, created_at, proved, ended_at)
		VALUES ('tr_1', 'tre_1', 0, 'dead', 1, '0.5', now(), 1, now())`)

	reader := metric.NewManualReader()
	otel.SetMeterProvider(metric.NewMeterProvider(metric.WithReader(reader)))
	require.NoError(t, measureBacklog(store))
	require.NoError(t, measureFloat(config.Networks{Mode: checkout.ModeLive, Chains: true, FloatDays: 2}, store))
	var all metricdata.ResourceMetrics
	require.NoError(t, reader.Collect(t.Context(), &all))
	got := map[string]float64{}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			add(got, m)
		}
	}
	for series, want := range map[string]float64{
		"checkout.finding.open checkout.finding.kind=cost_differs,checkout.mode=live":                         1,
		"checkout.treasury.float checkout.float.part=balance,checkout.mode=live,checkout.payout.currency=BTC": 1.5,
		"checkout.treasury.float checkout.float.part=pending,checkout.mode=live,checkout.payout.currency=BTC": 0,
		"checkout.treasury.float.remaining checkout.mode=live,checkout.payout.currency=BTC":                   3,
		"checkout.treasury.float.least checkout.mode=live":                                                    2,
	} {
		require.Contains(t, got, series)
		require.InDelta(t, want, got[series], 0, series)
	}
}

// add adds the series of a gauge, by its name and labels.
func add(got map[string]float64, m metricdata.Metrics) {
	switch data := m.Data.(type) {
	case metricdata.Gauge[int64]:
		for _, p := range data.DataPoints {
			got[m.Name+" "+p.Attributes.Encoded(attribute.DefaultEncoder())] = float64(p.Value)
		}
	case metricdata.Gauge[float64]:
		for _, p := range data.DataPoints {
			got[m.Name+" "+p.Attributes.Encoded(attribute.DefaultEncoder())] = p.Value
		}
	}
}
