package web_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/baggage"
	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"example.com/checkout/api/web"
)

// Not parallel: it sets the global tracer provider and the global propagator, to one
// that would take everything.
func TestTrace_NothingThatTheCallerWroteIsInASpan(t *testing.T) {
	spans := tracetest.NewInMemoryExporter()
	provider, propagator := otel.GetTracerProvider(), otel.GetTextMapPropagator()
	t.Cleanup(func() { otel.SetTracerProvider(provider); otel.SetTextMapPropagator(propagator) })
	otel.SetTracerProvider(sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans)))
	otel.SetTextMapPropagator(propagation.NewCompositeTextMapPropagator(propagation.TraceContext{}, propagation.Baggage{}))

	var got *http.Request
	var body []byte
	h := web.Trace("checkout-test", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = r
		body, _ = io.ReadAll(r.Body) // of a string: never fails
		w.WriteHeader(http.StatusAccepted)
	}))
	const traceID = "0af7651916cd43dd8448eb211c80319c"
	r := httptest.NewRequestWithContext(t.Context(), "CANARY", "http://canary.example/invitation/canary?token=canary", strings.NewReader("canary body"))
	r.Pattern = "/invitation/{token}"
	for _, name := range []string{"User-Agent", "Referer", "X-Forwarded-For", "X-Request-Id", "Cookie", "Authorization"} {
		r.Header.Set(name, "canary")
	}
	r.Header.Set("Traceparent", "00-"+traceID+"-b7ad6b7169203331-01")
	r.Header.Set("Tracestate", "canary=canary")
	r.Header.Set("Baggage", "canary=canary")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)

	require.Equal(t, http.StatusAccepted, w.Code)
	require.Equal(t, "canary body", string(body), "the handler has the whole request")
	require.Equal(t, "/invitation/canary", got.URL.Path)
	require.Equal(t, "CANARY", got.Method)
	require.Equal(t, "canary", got.Header.Get("User-Agent"))
	require.Zero(t, baggage.FromContext(got.Context()).Len())
	require.Empty(t, trace.SpanContextFromContext(got.Context()).TraceState().String())

	exported := spans.GetSpans()
	require.Len(t, exported, 1)
	s := exported[0]
	attributes := map[string]string{}
	for _, a := range s.Attributes {
		attributes[string(a.Key)] = a.Value.String()
	}
	require.Equal(t, "/invitation/{token}", attributes["url.path"])
	require.Equal(t, "/invitation/{token}", attributes["http.route"])
	require.Equal(t, "202", attributes["http.response.status_code"])
	require.Equal(t, "11", attributes["http.request.body.size"])
	require.Equal(t, "checkout-test", attributes["server.address"])
	require.Len(t, s.Links, 1)
	require.Equal(t, traceID, s.Links[0].SpanContext.TraceID().String())
	require.NotEqual(t, traceID, s.SpanContext.TraceID().String(), "linked, not obeyed")
	require.NotContains(t, strings.ToLower(fmt.Sprint(s.Name, attributes, s.Events, s.Links, s.Status)), "canary")
}
