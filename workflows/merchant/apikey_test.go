package merchant_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
)

func TestParseScopes(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]merchant.Scopes{
		"":                                 {"full"},
		"read":                             {"read"},
		"checkout:write, events:read":      {"checkout:write", "events:read"},
		"checkout:read,checkout:read,read": {"checkout:read", "read"},
	} {
		got, err := merchant.ParseScopes(text)
		require.NoError(t, err)
		require.Equal(t, want, got, text)
	}
	for _, text := range []string{"Full", "write", "checkout", "events:write", "payouts:send", ",", "read,", "read;full", "*"} {
		_, err := merchant.ParseScopes(text)
		require.ErrorContains(t, err, "is not a scope; scopes are full, read, checkout:read", text)
	}
}

func TestScopes_Allow(t *testing.T) {
	t.Parallel()
	require.False(t, merchant.Scopes(nil).Allow("checkout", false))
	require.True(t, merchant.Scopes{"checkout:write"}.Allow("checkout", false), "write includes read")
	require.False(t, merchant.Scopes{"checkout:read"}.Allow("checkout", true))
	require.False(t, merchant.Scopes{"read"}.Allow("checkout", true))
	require.False(t, merchant.Scopes{"webhooks:write"}.Allow("checkout", false))
	require.False(t, merchant.Scopes{"checkout:write", "payouts:write"}.Allow("refunds", false), "as in version 1.0.0")
	require.True(t, merchant.Scopes{"events:read", "full"}.Allow("checkout", true))
}

// TestNewAPIKey_HoldsTheCell changes the cell of the process, so it does not run beside other tests.
func TestNewAPIKey_HoldsTheCell(t *testing.T) { //nolint:paralleltest // see above
	t.Cleanup(func() { checkout.SetCell(checkout.FirstCell) })
	checkout.SetCell("7z")
	require.Regexp(t, "^sk_test_7z[0-9a-f]{62}$", merchant.NewAPIKey(checkout.ModeTest))
	require.Regexp(t, "^sk_live_7z[0-9a-f]{62}$", merchant.NewAPIKey(checkout.ModeLive))
}
