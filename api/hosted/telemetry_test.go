package hosted

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
)

// Not parallel: it sets the global tracer provider.
func TestTelemetry_HoldsNeitherCardNorQuery(t *testing.T) {
	spans := tracetest.NewInMemoryExporter()
	before := otel.GetTracerProvider()
	otel.SetTracerProvider(sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans)))
	t.Cleanup(func() { otel.SetTracerProvider(before) })
	h := newHarnessAlone(t)
	h.pay = declines
	id := h.session()
	h.post("/"+id, goodCard())
	h.pay = unknown
	h.post("/"+id, goodCard())
	h.get("/" + id + "?payment=" + h.paid[1])
	h.get("/nothing/here")
	var all strings.Builder
	names := map[string]bool{}
	for _, span := range spans.GetSpans() {
		names[span.Name] = true
		fmt.Fprintln(&all, span.Name, span.Attributes, span.Events, span.Status)
	}
	require.True(t, names["POST /checkout/{id}"], names)
	require.True(t, names["GET /checkout/{id}"], names)
	for _, kept := range []string{all.String(), h.log.String()} {
		for _, secret := range []string{canaryCard, "4242 4242", "ada@example.com", "tok_1", "Aurora"} {
			require.NotContains(t, kept, secret)
		}
	}
	// The three digits alone may be a part of a time or an id.
	bare := regexp.MustCompile(`[^0-9A-Za-z.:_-]` + canaryCVC + `[^0-9A-Za-z.:_-]`)
	require.Empty(t, bare.FindString(all.String()))
	require.Empty(t, bare.FindString(h.log.String()))
	require.NotContains(t, all.String(), h.paid[1], "the query is not traced")
	require.NotContains(t, all.String(), id, "nor is the path, which opens the page")
}
