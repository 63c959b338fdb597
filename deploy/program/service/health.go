package service

import (
	"context"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
	"go.temporal.io/sdk/client"

	"example.com/checkout/api/health"
)

var meter = otel.Meter("example.com/checkout/deploy/program/service")

// newState returns the health of a process that waits for PostgreSQL, and exports whether Temporal
// answers it. temporal may be nil until there is a connection.
func newState(temporal client.Client) *health.State {
	state := health.Starting(waitsForStore)
	if temporal != nil {
		state.SetChecks(nil, health.Temporal(temporal))
	}
	// An error here means a bad instrument name: a bug.
	_, _ = meter.Int64ObservableGauge("checkout.temporal.available",
		metric.WithDescription("1 if Temporal answered this process within the last second, 0 if not."),
		metric.WithInt64Callback(func(ctx context.Context, o metric.Int64Observer) error {
			o.Observe(oneIf(state.Readiness(ctx).Temporal == nil))
			return nil
		}))
	return state
}

func oneIf(is bool) int64 {
	if is {
		return 1
	}
	return 0
}
