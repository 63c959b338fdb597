package activities_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.temporal.io/sdk/testsuite"

	"example.com/checkout/activities"
	"example.com/checkout/storage/storagetest/must"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/contract"
)

// collect returns the reader of this process's metrics. The global meter can be set once only.
var collect = sync.OnceValue(func() *metric.ManualReader {
	reader := metric.NewManualReader()
	otel.SetMeterProvider(metric.NewMeterProvider(metric.WithReader(reader)))
	return reader
})

// alarms returns the kinds of alarms of test mode that were raised.
func alarms(t *testing.T) map[string]bool {
	var all metricdata.ResourceMetrics
	require.NoError(t, collect().Collect(t.Context(), &all))
	raised := map[string]bool{}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			if m.Name != "checkout.alarm.raised" {
				continue
			}
			for _, p := range m.Data.(metricdata.Gauge[int64]).DataPoints {
				kind, _ := p.Attributes.Value("checkout.alarm")
				mode, _ := p.Attributes.Value("checkout.mode")
				require.Equal(t, "test", mode.AsString())
				require.WithinDuration(t, time.Now(), time.Unix(p.Value, 0), time.Minute)
				raised[kind.AsString()] = true
			}
		}
	}
	return raised
}

// TestAlarms_AreRaisedForWhatAPersonMustMend, and for nothing that ends by itself.
func TestAlarms_AreRaisedForWhatAPersonMustMend(t *testing.T) {
	d := newDesk(t) // no other test raises an alarm in test mode
	d.onNetworks()
	paid := d.payment(checkout.AcquirerStripe, testChain)
	d.must(d.ChargeCard, paid)
	d.must(d.ConfirmPayment, paid)
	payout := d.payout(paid)
	charge := func(err error) {
		d.Test.Cards[checkout.AcquirerStripe] = noting{d: d, prepare: func() error { return err }}
		require.Error(t, must.Err(d.do(nil, d.ChargeCard, d.payment(checkout.AcquirerStripe, testChain))))
	}
	hold := func(why checkout.PayoutHold) {
		d.Test.Chains[testChain] = activities.PayoutRoute{Payouts: noting{d: d, held: why}}
		d.must(d.BroadcastPayout, payout)
	}
	round := func(says ...string) {
		env := (&testsuite.WorkflowTestSuite{}).NewTestActivityEnvironment()
		treasury := &activities.Treasury{Follow: map[checkout.Mode]activities.Follow{
			checkout.ModeTest: func(context.Context) (activities.TreasuryResult, error) {
				return activities.TreasuryResult{Alarms: says}, nil
			},
		}}
		env.RegisterActivity(treasury)
		require.NoError(t, must.Err(env.ExecuteActivity(treasury.SyncTreasury, contract.ModeInput{Mode: checkout.ModeTest})))
	}

	charge(errors.New("no answer"))
	hold(checkout.HoldFloat)
	round()
	require.Empty(t, alarms(t))
	hold(checkout.HoldSigner)
	require.Equal(t, map[string]bool{"signer": true}, alarms(t))
	hold(checkout.HoldLarge)
	require.Equal(t, map[string]bool{"signer": true, "large": true}, alarms(t))
	round("the account is frozen")
	require.Equal(t, map[string]bool{"signer": true, "large": true, "treasury": true}, alarms(t))
	d.Test.Chains[testChain] = d.chain(testChain)
	charge(fmt.Errorf("prepare: %w", checkout.ErrChargeRefused))
	require.Equal(t, map[string]bool{"signer": true, "large": true, "treasury": true, "charge": true}, alarms(t))
}
