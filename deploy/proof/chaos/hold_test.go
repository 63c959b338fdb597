package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/checkout/deploy/proof/chaos/invariant"
)

// serveMetrics returns the address of a server with these metrics.
func serveMetrics(t *testing.T, text string) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(text)) // an error means that the client has gone
	}))
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://")
}

func TestGoroutinesOf_ReadsAMetric(t *testing.T) {
	t.Parallel()
	n, err := goroutinesOf(t.Context(), serveMetrics(t, "# TYPE go_goroutine_count gauge\nother 3\ngo_goroutine_count{scope=\"x\"} 1.2e+02\n"))
	require.NoError(t, err)
	require.Equal(t, 120, n)
	_, err = goroutinesOf(t.Context(), serveMetrics(t, "other 3\n"))
	require.ErrorContains(t, err, "has no go_goroutine_count")
	_, err = goroutinesOf(t.Context(), serveMetrics(t, "go_goroutine_count many\n"))
	require.Error(t, err)
}

func TestCompareHolds_LooksAtProcessesOfTheServiceOnly(t *testing.T) {
	t.Parallel()
	r := &rig{parts: []*part{
		{name: "API 1", pid: os.Getpid, metrics: serveMetrics(t, "go_goroutine_count 120\n")},
		{name: "PostgreSQL", pid: func() int { return -1 }},
	}}
	before := map[string]invariant.Hold{"API 1": {Files: 1000, Goroutines: 100, Memory: 1e6}}
	held, err := (&chaos{rig: r, before: before}).compareHolds(t.Context())
	require.NoError(t, err)
	require.Len(t, held, 1)
	require.Equal(t, before["API 1"], held[0].Before)
	require.Equal(t, 120, held[0].After.Goroutines)
	require.Greater(t, held[0].After.Files, 2, "the standard streams")
	require.Greater(t, held[0].After.Memory, 1.0, "MB")
}
