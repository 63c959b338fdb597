package telemetry

import (
	"go.opentelemetry.io/otel"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/contrib/opentelemetry"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/workflow"
)

// temporalMeter is the scope of the metrics of Temporal's SDK.
const temporalMeter = "temporal"

// Temporal carries traces and metrics into Temporal's client and its workers.
func Temporal(o *client.Options) error {
	tracing, err := opentelemetry.NewTracingInterceptor(opentelemetry.TracerOptions{
		SpanContextKey: spanKey{}, TextMapPropagator: propagator, DisableBaggage: true,
	})
	if err != nil {
		return err
	}
	o.Interceptors = append(o.Interceptors, tracing, &runTracing{})
	o.MetricsHandler = opentelemetry.NewMetricsHandler(opentelemetry.MetricsHandlerOptions{
		Meter: otel.Meter(temporalMeter), OnError: otel.Handle, // the default would panic
		UseMonotonicCounters: true, // otherwise Prometheus reads counters as gauges
	})
	return nil
}

// spanKey is the key of the current span in a workflow's context.
type spanKey struct{}

// runTracing puts the activities that an update causes into the trace of the run. For example, the
// charge that a customer's form causes appears in the session's trace. The update itself stays in
// the trace of its sender. runTracing must come after the tracing interceptor.
type runTracing struct {
	interceptor.InterceptorBase
}

// InterceptWorkflow implements interceptor.WorkerInterceptor.
func (*runTracing) InterceptWorkflow(
	_ workflow.Context, next interceptor.WorkflowInboundInterceptor,
) interceptor.WorkflowInboundInterceptor {
	return &tracedRun{WorkflowInboundInterceptorBase: interceptor.WorkflowInboundInterceptorBase{Next: next}}
}

type tracedRun struct {
	interceptor.WorkflowInboundInterceptorBase

	span any // the run's span
}

// ExecuteWorkflow implements interceptor.WorkflowInboundInterceptor.
func (r *tracedRun) ExecuteWorkflow(ctx workflow.Context, in *interceptor.ExecuteWorkflowInput) (any, error) {
	r.span = ctx.Value(spanKey{})
	return r.Next.ExecuteWorkflow(ctx, in)
}

// ExecuteUpdate implements interceptor.WorkflowInboundInterceptor.
func (r *tracedRun) ExecuteUpdate(ctx workflow.Context, in *interceptor.UpdateInput) (any, error) {
	if r.span != nil {
		ctx = workflow.WithValue(ctx, spanKey{}, r.span)
	}
	return r.Next.ExecuteUpdate(ctx, in)
}
