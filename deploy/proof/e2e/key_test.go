package e2e_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/checkout/deploy/proof/e2e"
	"example.com/checkout/workflows/checkout"
)

// TestKey_IsMadeUsedAndRevokedByAnOperator goes the way of a key from a shell to
// the running API and back.
func TestKey_IsMadeUsedAndRevokedByAnOperator(t *testing.T) {
	t.Parallel()
	run := func(args ...string) []string { // the lines of what a command says
		out, err := e2e.CheckoutCommand(t, e2e.Shared, args...)
		require.NoError(t, err, out)
		return strings.Split(strings.TrimSpace(out), "\n")
	}
	last := func(lines []string) string { return lines[len(lines)-1] }
	id := last(run("merchant", "create", "--name", "Shop", "--payout", "USDC=ethereum:sandbox:shop"))
	m := &e2e.Merchant{T: t, Stack: e2e.Shared, ID: id, Key: last(run("key", "create", id, "--mode", "test", "--label", "server", "--scopes", "read"))}

	m.Must(http.StatusOK, http.MethodGet, "/v1/checkout", "")
	m.Must(http.StatusNotFound, http.MethodGet, "/v1/checkout/"+checkout.NewID(checkout.PrefixSession), "")
	refused := m.Must(http.StatusForbidden, http.MethodPost, "/v1/checkout", e2e.Terms)
	require.Equal(t, "forbidden", refused.Field("error"))

	type listed struct {
		ID        string  `json:"id"`
		Label     string  `json:"label"`
		UsedAt    *string `json:"last_used_at"`
		RevokedAt *string `json:"revoked_at"`
	}
	list := func() (keys []listed) {
		require.NoError(t, json.Unmarshal([]byte(strings.Join(run("key", "list", id, "--json"), "\n")), &keys))
		return keys
	}
	keys := list()
	require.Len(t, keys, 1)
	require.Equal(t, "server", keys[0].Label)
	require.NotNil(t, keys[0].UsedAt)
	require.Nil(t, keys[0].RevokedAt)

	run("key", "revoke", keys[0].ID)
	gone := m.Must(http.StatusUnauthorized, http.MethodGet, "/v1/checkout", "")
	require.Equal(t, "invalid_api_key", gone.Field("error"))
	keys = list()
	require.NotNil(t, keys[0].UsedAt)
	require.NotNil(t, keys[0].RevokedAt)
}
