// Package telemetry sets up the log, and OpenTelemetry from the standard OTEL_* variables. Without
// these variables nothing is exported. An absent or slow collector does not disturb the service.
package telemetry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"os"
	"runtime/debug"
	"time"

	"go.opentelemetry.io/contrib/exporters/autoexport"
	"go.opentelemetry.io/contrib/instrumentation/runtime"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/instrumentation"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	"go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"
	oteltrace "go.opentelemetry.io/otel/trace"
)

// Options describe the process that reports.
type Options struct {
	Service string // "api", "worker" or another command
	// Stays: the process runs until it is stopped. A short-lived process exports no
	// metrics: it would need the metrics port of the process that stays.
	Stays bool
	Out   io.Writer // takes the log, as JSON lines
	Level slog.Level
}

// propagator carries trace ids but no baggage. Callers write the baggage, and it may hold customers' e-mail addresses.
// With baggage, these would reach Temporal's histories and the receivers.
var propagator = propagation.TraceContext{}

// Setup installs the global providers, the propagator and the default logger. The returned function
// exports the remaining data within five seconds.
func Setup(ctx context.Context, o Options) (func(), error) {
	slog.SetDefault(
		slog.New(traceHandler{slog.NewJSONHandler(o.Out, &slog.HandlerOptions{Level: o.Level})}).
			With("service", o.Service),
	)
	// The standard log would write through slog. Only net/http's client still uses it: it quotes
	// data that a receiver sent unasked.
	log.SetOutput(io.Discard)
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { slog.Warn("telemetry", "error", err) }))
	otel.SetTextMapPropagator(propagator)

	service := cmp.Or(os.Getenv("OTEL_SERVICE_NAME"), "checkout-"+o.Service)
	res, err := resource.New(
		ctx, resource.WithFromEnv(), resource.WithTelemetrySDK(),
		resource.WithAttributes(semconv.ServiceName(service), semconv.ServiceVersion(Version())),
	)
	if err != nil {
		return nil, fmt.Errorf("telemetry resource: %w", err)
	}
	var shutdowns []func(context.Context) error
	if configured("TRACES") {
		exporter, err := autoexport.NewSpanExporter(ctx)
		if err != nil {
			return nil, fmt.Errorf("trace exporter: %w", err)
		}
		provider := trace.NewTracerProvider(trace.WithBatcher(exporter), trace.WithResource(res))
		otel.SetTracerProvider(provider)
		shutdowns = append(shutdowns, provider.Shutdown)
	} else {
		// Without an exporter, trace ids are still made for the log and the receivers.
		otel.SetTracerProvider(trace.NewTracerProvider(trace.WithResource(res)))
	}
	if o.Stays && configured("METRICS") {
		reader, err := autoexport.NewMetricReader(ctx)
		if err != nil {
			return nil, fmt.Errorf("metric reader: %w", err)
		}
		provider := metric.NewMeterProvider(metric.WithReader(reader), metric.WithResource(res), metric.WithView(inSeconds))
		otel.SetMeterProvider(provider)
		shutdowns = append(shutdowns, provider.Shutdown)
		if err := runtime.Start(); err != nil {
			return nil, fmt.Errorf("runtime metrics: %w", err)
		}
	}
	return func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		var errs []error
		for _, shutdown := range shutdowns {
			errs = append(errs, shutdown(ctx))
		}
		if err := errors.Join(errs...); err != nil {
			slog.Warn("telemetry not flushed", "error", err)
		}
	}, nil
}

// version is for the linker: -X example.com/checkout/deploy/program/telemetry.version=1.2.3
var version string

// Version returns the version of this program: what the linker was told, else what go build knows of the source tree.
func Version() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "unknown"
}

// inSeconds are the buckets for latencies in seconds, as Temporal's SDK measures them. The default
// buckets suit milliseconds.
var inSeconds = metric.NewView(
	metric.Instrument{Kind: metric.InstrumentKindHistogram, Scope: instrumentation.Scope{Name: temporalMeter}},
	metric.Stream{Aggregation: metric.AggregationExplicitBucketHistogram{
		Boundaries: []float64{0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 600, 3600},
	}},
)

// configured reports whether the variables ask for an exporter of the signal. OpenTelemetry's
// default, a collector on localhost, is not used: without a collector it would only log failures.
func configured(signal string) bool {
	for _, name := range []string{"OTEL_" + signal + "_EXPORTER", "OTEL_EXPORTER_OTLP_ENDPOINT",
		"OTEL_EXPORTER_OTLP_" + signal + "_ENDPOINT"} {
		if os.Getenv(name) != "" {
			return true
		}
	}
	return false
}

// traceHandler adds the ids of the current span to each line.
type traceHandler struct{ slog.Handler }

func (h traceHandler) Handle(ctx context.Context, r slog.Record) error {
	if span := oteltrace.SpanContextFromContext(ctx); span.IsValid() {
		r.AddAttrs(slog.String("trace_id", span.TraceID().String()), slog.String("span_id", span.SpanID().String()))
	}
	return h.Handler.Handle(ctx, r)
}

func (h traceHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return traceHandler{h.Handler.WithAttrs(attrs)}
}

func (h traceHandler) WithGroup(name string) slog.Handler {
	return traceHandler{h.Handler.WithGroup(name)}
}
