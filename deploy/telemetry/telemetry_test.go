package telemetry_test

import (
	"bytes"
	"log"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/checkout/deploy/telemetry"
)

// What net/http logs of a receiver that speaks unasked quotes what it said.
func TestSetup_TheStandardLogGoesNowhere(t *testing.T) {
	var out bytes.Buffer
	flush, err := telemetry.Setup(t.Context(), "test", &out, slog.LevelInfo)
	require.NoError(t, err)
	defer flush()
	log.Printf("Unsolicited response received on idle HTTP channel starting with %q", "canary")
	slog.InfoContext(t.Context(), "hello")
	require.Contains(t, out.String(), "hello")
	require.NotContains(t, out.String(), "canary")
}
