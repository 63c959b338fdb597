package service

import (
	"context"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
	"go.temporal.io/sdk/client"

	"example.com/checkout/api"
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

// gate answers with one handler until it gets the next one.
type gate struct{ handler atomic.Pointer[http.Handler] }

// newGate returns a gate that answers with state's health until it is opened. Open it before state works.
func newGate(state *health.State) *gate {
	g := &gate{}
	g.open(api.Waiting(state, g))
	return g
}

func (g *gate) open(next http.Handler) { g.handler.Store(&next) }

func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) { (*g.handler.Load()).ServeHTTP(w, r) }

// untilStopped returns a context that lasts delay longer than stopped. When stopped ends, state is not ready at
// once. So proxies learn of the stop while the process still answers.
func untilStopped(
	stopped context.Context, state *health.State, delay time.Duration,
) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(stopped))
	forget := context.AfterFunc(stopped, func() {
		state.MarkStopping()
		slog.InfoContext(ctx, "stopping", "delay", delay)
		time.AfterFunc(delay, cancel)
	})
	return ctx, func() {
		forget()
		cancel()
	}
}

// either returns a context that ends with the first of both.
func either(a, b context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(a)
	forget := context.AfterFunc(b, cancel)
	return ctx, func() {
		forget()
		cancel()
	}
}
