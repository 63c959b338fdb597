package e2e

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// span is what the tests need of the console exporter's spans.
type span struct {
	Name        string
	SpanContext struct{ TraceID string }
	Attributes  []struct {
		Key   string
		Value struct{ Value any }
	}
}

// spans reads the spans from the log of api or worker, where the console
// exporter writes them between the log's lines.
func spans(t *testing.T, name string) []span {
	t.Helper()
	text, err := os.ReadFile(shared.Log(name))
	require.NoError(t, err)
	var all []span
	for d := json.NewDecoder(bytes.NewReader(text)); ; {
		var s span
		if d.Decode(&s) != nil { // the end, or a value that is being written
			return all
		}
		if s.SpanContext.TraceID != "" {
			all = append(all, s)
		}
	}
}

// awaitSpan waits for a span of api or worker that has value in its name or
// attributes and, unless traceID is "", belongs to that trace.
func awaitSpan(t *testing.T, process, value, traceID string) span {
	t.Helper()
	var found span
	await(t, "a span of "+process+" with "+value, 20*time.Second, func() bool {
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

// TestTrace_GoesFromTheRequestToTheReceiver: one trace from the merchant's
// request through workflow and activities to the merchant's own server.
func TestTrace_GoesFromTheRequestToTheReceiver(t *testing.T) {
	t.Parallel()
	m := newMerchant(t, shared)
	id := m.create(terms)
	m.mustPay(id, cardSucceeds)
	for _, a := range m.arrivals(2, 10*time.Second) {
		parts := strings.Split(a.Header.Get("traceparent"), "-")
		require.Len(t, parts, 4)
		trace := parts[1]
		awaitSpan(t, "api", "/v1/checkout", trace)
		awaitSpan(t, "api", "StartWorkflow:CheckoutSession", trace)
		awaitSpan(t, "worker", "RunWorkflow:CheckoutSession", trace)
		awaitSpan(t, "worker", "RunWorkflow:WebhookDelivery", trace)
		awaitSpan(t, "worker", "RunActivity:SendAttempt", trace)
		logged, err := os.ReadFile(shared.Log("worker"))
		require.NoError(t, err)
		require.Contains(t, string(logged), `"delivery_id":"`+a.Delivery+`"`)
		require.Contains(t, string(logged), `"trace_id":"`+trace+`"`)
	}
}

// TestMetrics_AreNamedByTheConventions: rate, errors and duration of every route.
func TestMetrics_AreNamedByTheConventions(t *testing.T) {
	t.Parallel()
	m := newMerchant(t, shared)
	m.create(terms)
	await(t, "metrics are exported", 20*time.Second, func() bool {
		api, err := os.ReadFile(shared.Log("api"))
		require.NoError(t, err)
		worker, err := os.ReadFile(shared.Log("worker"))
		require.NoError(t, err)
		return bytes.Contains(api, []byte("http.server.request.duration")) && bytes.Contains(api, []byte(`"/v1/checkout"`)) &&
			bytes.Contains(worker, []byte("temporal_activity_execution_latency"))
	})
}
