package e2e_test

import (
	"encoding/json"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"example.com/checkout/deploy/proof/e2e"
	"example.com/checkout/deploy/standin/devstack"
	"example.com/checkout/storage/storagetest/must"
)

// span is what the tests need of the console exporter's spans.
type span struct {
	Name        string
	SpanContext struct{ TraceID, SpanID string }
	Parent      struct{ SpanID string }
	Attributes  []struct {
		Key   string
		Value struct{ Value any }
	}
}

// spanLogs are what was read of the logs of api and worker. The console exporter writes the spans there, between the
// log's lines.
var spanLogs = struct {
	sync.Mutex
	read  map[string]int64 // bytes
	spans map[string][]span
}{read: map[string]int64{}, spans: map[string][]span{}}

func spans(t *testing.T, name string) []span {
	spanLogs.Lock()
	defer spanLogs.Unlock()
	file := must.Get(os.Open(e2e.Shared.Log(name)))(t)
	defer func() { _ = file.Close() }() // only read
	must.Get(file.Seek(spanLogs.read[name], io.SeekStart))(t)
	for d, began := json.NewDecoder(file), spanLogs.read[name]; ; spanLogs.read[name] = began + d.InputOffset() {
		var s span
		if d.Decode(&s) != nil { // the end, or a value that is being written
			return spanLogs.spans[name]
		}
		if s.SpanContext.TraceID != "" {
			spanLogs.spans[name] = append(spanLogs.spans[name], s)
		}
	}
}

// awaitSpan waits for a span of api or worker that has value in its name or
// attributes and, unless traceID is "", belongs to that trace.
func awaitSpan(t *testing.T, process, value, traceID string) span {
	var found span
	e2e.Await(t, "a span of "+process+" with "+value, 20*time.Second, func() bool {
		for _, s := range spans(t, process) {
			if (traceID == "" || s.SpanContext.TraceID == traceID) && s.has(value) {
				found = s
				return true
			}
		}
		return false
	})
	return found
}

func (s span) has(value string) bool {
	for _, a := range s.Attributes {
		if a.Value.Value == value {
			return true
		}
	}
	return strings.Contains(s.Name, value)
}

// lineage returns the names of a span of the trace and of all above it, up to the
// one that began the trace; nil while one of them is not there yet.
func lineage(t *testing.T, trace, id string) []string {
	byID := map[string]span{}
	for _, process := range []string{"api", "worker"} {
		for _, s := range spans(t, process) {
			if s.SpanContext.TraceID == trace {
				byID[s.SpanContext.SpanID] = s
			}
		}
	}
	const none = "0000000000000000"
	var names []string
	for id != none {
		s, ok := byID[id]
		if !ok {
			return nil
		}
		names, id = append(names, s.Name), s.Parent.SpanID
	}
	return names
}

// TestTrace_GoesFromTheRequestToTheReceiver: one trace from the merchant's request through workflow, charge, event and
// attempt to the merchant's own server. The charge was asked for by another request, that of the customer.
func TestTrace_GoesFromTheRequestToTheReceiver(t *testing.T) {
	t.Parallel()
	m := e2e.NewMerchant(t, e2e.Shared)
	m.Sell(e2e.CardSucceeds)
	session := []string{"RunWorkflow:CheckoutSession", "StartWorkflow:CheckoutSession", "POST /v1/checkout"}
	delivery := []string{"RunActivity:SendAttempt", "StartActivity:SendAttempt", "RunWorkflow:WebhookDelivery", "StartChildWorkflow:WebhookDelivery"}
	for _, a := range m.Arrivals(2, 10*time.Second) {
		parts := strings.Split(a.Header.Get("traceparent"), "-")
		require.Len(t, parts, 4)
		trace, attempt := parts[1], parts[2]
		above := func(id string) (names []string) {
			e2e.Await(t, "the spans above "+id, 20*time.Second, func() bool {
				names = lineage(t, trace, id)
				return names != nil
			})
			return names
		}
		got := slices.DeleteFunc(above(attempt), func(name string) bool { // a busy worker gives the payout a run
			return a.Type == "payout.sent" && strings.HasSuffix(name, "Workflow:Payout")
		})
		require.Equal(t, slices.Concat(delivery, session), got)
		for _, activity := range []string{"ChargeCard", "FinishPayment", "SendSandboxPayout"} { // the second writes the event
			span := awaitSpan(t, "worker", "RunActivity:"+activity, trace)
			want := append([]string{"RunActivity:" + activity, "StartActivity:" + activity}, session...)
			require.Equal(t, want, above(span.SpanContext.SpanID))
		}
		logged := e2e.Log(t, e2e.Shared, "worker")
		require.Contains(t, logged, `"delivery_id":"`+a.Delivery+`"`)
		require.Contains(t, logged, `"trace_id":"`+trace+`"`)
	}
}

// TestTelemetry_AnAbsentOrSlowCollectorChangesNothing: with a collector that takes everything and never answers, and
// with none, requests are answered and deliveries made as ever, and a stop takes no longer than it may.
func TestTelemetry_AnAbsentOrSlowCollectorChangesNothing(t *testing.T) { // alone: it measures time
	collector := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t) // the system takes connections, and nobody answers
	stack := e2e.Beside(t, devstack.Options{Env: []string{
		"OTEL_EXPORTER_OTLP_ENDPOINT=http://" + collector.Addr().String(), "OTEL_METRIC_EXPORT_INTERVAL=200", "OTEL_BSP_SCHEDULE_DELAY=200", "CHECKOUT_LOG_LEVEL=warn",
	}})
	m := e2e.NewMerchant(t, stack)
	paysAndStops := func(deliveries int) {
		for range 5 {
			began := time.Now()
			m.Sell(e2e.CardSucceeds)
			require.Less(t, time.Since(began), 10*time.Second, "an export that does not return takes 10 s")
		}
		m.Arrivals(deliveries, 10*time.Second)
		began := time.Now()
		var group errgroup.Group
		for _, process := range []*devstack.Process{stack.API, stack.Worker} {
			group.Go(func() error { return process.Stop(20 * time.Second) })
		}
		require.NoError(t, group.Wait())
		t.Logf("both stopped after %s", time.Since(began).Round(time.Millisecond))
		require.Less(t, time.Since(began), 10*time.Second, "five are for what is left to export")
	}
	paysAndStops(10)
	require.NoError(t, collector.(*net.TCPListener).SetDeadline(time.Now().Add(time.Second)))
	must.Get(collector.Accept())(t) // something was exported

	require.NoError(t, collector.Close()) // connections are refused from now on
	require.NoError(t, stack.StartWorker(t.Context()))
	require.NoError(t, stack.StartAPI(t.Context()))
	paysAndStops(20)
}
