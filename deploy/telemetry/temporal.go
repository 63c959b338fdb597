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
		Meter: otel.Meter(temporalMeter), OnError: otel.Handle, // by itself it would panic
		UseMonotonicCounters: true, // else Prometheus takes them for gauges
	})
	return nil
}

// spanKey is where the tracing keeps the span of a workflow's context.
type spanKey struct{}

// runTracing puts what an update makes a run do into the trace of the run: the
// charge that a customer's form asks for belongs to the session's story. The
// update itself stays in the trace of its sender. It comes after the tracing.
type runTracing struct {
	interceptor.InterceptorBase
}

// InterceptWorkflow implements interceptor.WorkerInterceptor.
func (*runTracing) InterceptWorkflow(_ workflow.Context, next interceptor.WorkflowInboundInterceptor) interceptor.WorkflowInboundInterceptor {
	return &tracedRun{WorkflowInboundInterceptorBase: interceptor.WorkflowInboundInterceptorBase{Next: next}}
}

type tracedRun struct {
	interceptor.WorkflowInboundInterceptorBase

	span any // of the run
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
