package telemetry_test

import (
	"bytes"
	"io"
	"log"
	"log/slog"
	"net"
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/checkout/deploy/program/telemetry"
)

// When a receiver sends data unasked, net/http quotes the data in its log line.
func TestSetup_TheStandardLogGoesNowhere(t *testing.T) {
	var out bytes.Buffer
	flush, err := telemetry.Setup(t.Context(), telemetry.Options{Service: "test", Out: &out})
	require.NoError(t, err)
	defer flush()
	log.Printf("Unsolicited response received on idle HTTP channel starting with %q", "canary")
	slog.InfoContext(t.Context(), "hello")
	require.Contains(t, out.String(), "hello")
	require.NotContains(t, out.String(), "canary")
}

// "checkout release" beside a worker runs with the worker's environment.
func TestSetup_ACommandThatEndsTakesNobodysPort(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	_, port, err := net.SplitHostPort(listener.Addr().String())
	require.NoError(t, err)
	t.Setenv("OTEL_METRICS_EXPORTER", "prometheus")
	t.Setenv("OTEL_EXPORTER_PROMETHEUS_HOST", "127.0.0.1")
	t.Setenv("OTEL_EXPORTER_PROMETHEUS_PORT", port)

	flush, err := telemetry.Setup(t.Context(), telemetry.Options{Service: "release", Out: io.Discard})
	require.NoError(t, err)
	flush()
	_, err = telemetry.Setup(t.Context(), telemetry.Options{Service: "worker", Stays: true, Out: io.Discard})
	require.ErrorContains(t, err, "127.0.0.1:"+port, "who wants to be scraped must learn that it cannot be")

	require.NoError(t, listener.Close())
	flush, err = telemetry.Setup(t.Context(), telemetry.Options{Service: "worker", Stays: true, Out: io.Discard})
	require.NoError(t, err)
	flush()
}
