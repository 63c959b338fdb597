package activities

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

var (
	laneAttempts, _ = meter.Int64ObservableGauge("webhook.endpoint.attempts", metric.WithUnit("{attempt}"),
		metric.WithDescription("Attempts of this worker under way, or waiting a moment in its memory for a place."))
	laneLimits, _ = meter.Int64ObservableGauge("webhook.endpoint.limit", metric.WithUnit("{attempt}"),
		metric.WithDescription("How many attempts may be under way at the endpoints that have attempts."))
	laneBehind, _ = meter.Float64ObservableGauge("webhook.endpoint.behind", metric.WithUnit("s"),
		metric.WithDescription("How long the last delivery of the slowest endpoint waits for a place; 0 if none waits."))
)

const (
	endpointKindKey = attribute.Key("webhook.endpoint.kind")
	attemptStateKey = attribute.Key("webhook.attempt.state")
)

// endpointKind is a label: there is no label by endpoint, because merchants choose how many there are.
type endpointKind string

const (
	kindRegistration endpointKind = "registration"
	kindSession      endpointKind = "session" // the webhook_url of a session
)

// laneSums are figures of all lanes of a kind.
type laneSums struct {
	inFlight, waiting, limit int64
	behind                   time.Duration
}

func (ls *lanes) sums(now time.Time) map[endpointKind]laneSums {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	sums := map[endpointKind]laneSums{kindRegistration: {}, kindSession: {}}
	for _, l := range ls.byName {
		s := sums[l.kind]
		s.inFlight += int64(l.inFlight)
		s.waiting += int64(len(l.line))
		if !l.idle(now) {
			s.limit += int64(l.width())
		}
		s.behind = max(s.behind, l.lastTurn.Sub(now))
		sums[l.kind] = s
	}
	return sums
}

// MeasureEndpoints exports how the worker's attempts wait for their endpoints. It is no method, because
// the worker registers each method as an activity.
func MeasureEndpoints(d *Deliveries) error {
	_, err := meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		for kind, s := range d.lanes.sums(time.Now()) {
			of := endpointKindKey.String(string(kind))
			o.ObserveInt64(laneAttempts, s.inFlight, metric.WithAttributes(of, attemptStateKey.String("in_flight")))
			o.ObserveInt64(laneAttempts, s.waiting, metric.WithAttributes(of, attemptStateKey.String("waiting")))
			o.ObserveInt64(laneLimits, s.limit, metric.WithAttributes(of))
			o.ObserveFloat64(laneBehind, s.behind.Seconds(), metric.WithAttributes(of))
		}
		return nil
	}, laneAttempts, laneLimits, laneBehind)
	return err
}
