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

func TestRetrySchedule_IsTheOneOfTheInterfaceDocument(t *testing.T) {
	t.Parallel()
	require.Equal(t, Schedule{30 * time.Second, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 12 * time.Hour}, RetrySchedule)
	for n, want := range map[int]time.Duration{0: 0, 1: 30 * time.Second, 5: 12 * time.Hour, 6: 0} {
		got, ok := RetrySchedule.RetryDelay(n)
		require.Equal(t, want, got, "after attempt %d", n)
		require.Equal(t, want > 0, ok, "after attempt %d", n)
	}
}
