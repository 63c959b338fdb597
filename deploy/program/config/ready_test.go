package config

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
)

// APIKey returns the key for one call to Temporal.
func APIKey(t Temporal) (string, error) { return t.apiKey(context.Background()) }

// TestLoadReady_NeedsNoSecret: a container and a job of the chart ask with no setting, or with an address alone.
func TestLoadReady_NeedsNoSecret(t *testing.T) {
	t.Parallel()
	got, err := LoadReady(nil)
	require.NoError(t, err)
	require.Equal(t, Ready{APIAddress: "127.0.0.1:8080", HealthAddress: "127.0.0.1:8084"}, got)

	got, err = LoadReady([]string{"CHECKOUT_API_ADDRESS=shop:8080", "CHECKOUT_LOG_LEVEL=info"})
	require.NoError(t, err)
	require.Equal(t, "shop:8080", got.APIAddress)

	_, err = LoadReady([]string{"CHECKOUT_API_ADDRESS=shop"})
	require.ErrorContains(t, err, "CHECKOUT_API_ADDRESS")
}
