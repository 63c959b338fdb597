package activities

import (
	"context"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"

	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/webhook"
)

// Metrics that the HTTP and Temporal libraries do not have. An attribute has few values, all defined in this code. It
// is never an id, an address or another value that a merchant, customer or receiver chose.
var (
	meter = otel.Meter("example.com/checkout/activities")

	// An error here means a bad instrument name: a bug.
	sessionsEnded, _ = meter.Int64Counter("checkout.session.ended",
		metric.WithUnit("{session}"), metric.WithDescription("Sessions that reached their final status."))
	reconciled, _ = meter.Int64Counter("checkout.reconcile.runs",
		metric.WithUnit("{run}"),
		metric.WithDescription("Runs that Reconcile restarted, resumed or canceled, or failed to look at."))
	attemptDuration, _ = meter.Float64Histogram("webhook.attempt.duration",
		metric.WithUnit("s"),
		metric.WithDescription("How long attempts of webhook deliveries took; error.type says why one failed."),
		// The boundaries of http.client.request.duration.
		metric.WithExplicitBucketBoundaries(0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10))
)

const (
	modeKey   = attribute.Key("checkout.mode")
	statusKey = attribute.Key("checkout.session.status")
	alarmKey  = attribute.Key("checkout.alarm")

	reconcileOutcomeKey = attribute.Key("checkout.reconcile.outcome")
)

// countReconciled counts runs: "restarted", "resumed", "canceled" or "failed".
func countReconciled(ctx context.Context, outcome string, n int) {
	reconciled.Add(ctx, int64(n), metric.WithAttributes(reconcileOutcomeKey.String(outcome)))
}

// countSession counts a session that has just been decided. When a worker dies and the decision is
// repeated, the session counts twice.
func countSession(ctx context.Context, mode checkout.Mode, status checkout.Status) {
	if status.Final() {
		sessionsEnded.Add(ctx, 1, metric.WithAttributes(modeKey.String(string(mode)), statusKey.String(string(status))))
	}
}

// measureAttempt records an attempt. It leaves out the receiver's status code, because a receiver
// may answer with any number.
func measureAttempt(ctx context.Context, mode checkout.Mode, a webhook.Attempt) {
	attributes := []attribute.KeyValue{modeKey.String(string(mode))}
	if a.ErrorKind != "" {
		attributes = append(attributes, semconv.ErrorTypeKey.String(string(a.ErrorKind)))
	}
	attemptDuration.Record(ctx, a.Duration.Seconds(), metric.WithAttributes(attributes...))
}
