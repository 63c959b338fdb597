package devstack

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTemporalMetrics_OnlyWhereAsked(t *testing.T) {
	t.Parallel()
	require.NotContains(t, TemporalOptions{}.global(), "metrics")
	asked := TemporalOptions{MetricsAddress: "127.0.0.1:9"}.global()
	require.Equal(t, map[string]any{"prometheus": map[string]any{"listenAddress": "127.0.0.1:9"}}, asked["metrics"])
	require.Contains(t, asked, "membership")
}
