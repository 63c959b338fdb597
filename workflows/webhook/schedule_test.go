package webhook

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestFallbackDelay_BeginsAndEndsLikeTheSchedule(t *testing.T) {
	t.Parallel()
	require.InDelta(t, 6.16, FallbackFactor, 1e-9)
	for n, want := range []time.Duration{30 * time.Second, 185 * time.Second, 1138 * time.Second, 7012 * time.Second, 12 * time.Hour} {
		require.InDelta(t, want, FallbackDelay(n+1), float64(10*time.Second), "after attempt %d", n+1)
	}
}
