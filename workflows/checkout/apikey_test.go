package checkout_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/checkout/workflows/checkout"
)

func TestParseScopes(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]checkout.Scopes{
		"":                                 {"full"},
		"read":                             {"read"},
		"checkout:write, events:read":      {"checkout:write", "events:read"},
		"checkout:read,checkout:read,read": {"checkout:read", "read"},
	} {
		got, err := checkout.ParseScopes(text)
		require.NoError(t, err)
		require.Equal(t, want, got, text)
	}
	for _, text := range []string{"Full", "write", "checkout", "events:write", "payouts:send", ",", "read,", "read;full", "*"} {
		_, err := checkout.ParseScopes(text)
		require.ErrorContains(t, err, "is not a scope; scopes are full, read, checkout:read", text)
	}
}

func TestScopes_Allow(t *testing.T) {
	t.Parallel()
	require.False(t, checkout.Scopes(nil).Allow("checkout", false))
	require.True(t, checkout.Scopes{"checkout:write"}.Allow("checkout", false), "write includes read")
	require.False(t, checkout.Scopes{"checkout:read"}.Allow("checkout", true))
	require.False(t, checkout.Scopes{"read"}.Allow("checkout", true))
	require.False(t, checkout.Scopes{"webhooks:write"}.Allow("checkout", false))
	require.True(t, checkout.Scopes{"events:read", "full"}.Allow("checkout", true))
}
