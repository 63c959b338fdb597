package config_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/checkout/deploy/config"
)

// real are the settings of live mode of both processes together.
var real = []string{
	"CHECKOUT_STRIPE_SECRET_KEY=rk_live_canary", "CHECKOUT_STRIPE_PUBLISHABLE_KEY=pk_live_1", "CHECKOUT_STRIPE_WEBHOOK_SECRETS=whsec_canary,whsec_canary2",
	"CHECKOUT_ETHEREUM_RPC_URLS=https://a.example/canary,https://b.example", "CHECKOUT_ETHEREUM_TREASURY=0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed",
	"CHECKOUT_ETHEREUM_SIGNER_URL=http://signer.example", "CHECKOUT_LIVE_MAX_PAYOUT=2500", "CHECKOUT_LIVE_MAX_DAY=100000", "CHECKOUT_LIVE_MERCHANT_MAX_DAY=10000.50",
}

var simulated = []string{
	"CHECKOUT_LIVE_SIMULATED=true", "CHECKOUT_STRIPE_SECRET_KEY=sk_test_canary", "CHECKOUT_STRIPE_PUBLISHABLE_KEY=pk_test_1",
	"CHECKOUT_STRIPE_WEBHOOK_SECRETS=whsec_canary", "CHECKOUT_STRIPE_API_URL=http://127.0.0.1:1", "CHECKOUT_STRIPE_JS_URL=http://127.0.0.1:2/stripe.js",
	"CHECKOUT_ETHEREUM_RPC_URLS=http://127.0.0.1:3", "CHECKOUT_ETHEREUM_CHAIN_ID=31337", "CHECKOUT_ETHEREUM_TREASURY=0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed",
	"CHECKOUT_ETHEREUM_SIGNER_URL=http://127.0.0.1:3", "CHECKOUT_RATE_KRAKEN_URL=http://127.0.0.1:4", "CHECKOUT_RATE_COINBASE_URL=http://127.0.0.1:4",
	"CHECKOUT_LIVE_MAX_PAYOUT=2500", "CHECKOUT_LIVE_MAX_DAY=100000", "CHECKOUT_LIVE_MERCHANT_MAX_DAY=10000",
}

func TestLive_IsOffWithoutItsSettings(t *testing.T) {
	t.Parallel()
	c, err := config.Load(good())
	require.NoError(t, err)
	require.False(t, c.Live.On())
}

func TestLive_AcceptsARealAndASimulatedOne(t *testing.T) {
	t.Parallel()
	for _, all := range [][]string{real, simulated} {
		c, err := config.Load(good(all...))
		require.NoError(t, err)
		require.True(t, c.Live.On())
		require.NoError(t, c.Live.ForAPI())
		require.NoError(t, c.Live.ForWorker())
	}
}

// TestLive_OneRealEndpointAmongSimulatedOnes and the reverse: nothing starts.
func TestLive_OneRealEndpointAmongSimulatedOnes(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{
		"CHECKOUT_STRIPE_API_URL=", "CHECKOUT_STRIPE_API_URL=https://api.stripe.com", "CHECKOUT_STRIPE_JS_URL=https://js.stripe.com/dahlia/stripe.js",
		"CHECKOUT_ETHEREUM_RPC_URLS=http://127.0.0.1:3,http://10.0.0.1:3", "CHECKOUT_ETHEREUM_RPC_URLS=https://node.example/canary", "CHECKOUT_RATE_KRAKEN_URL=",
		"CHECKOUT_RATE_COINBASE_URL=https://api.exchange.coinbase.com", "CHECKOUT_ETHEREUM_SIGNER_URL=http://signer.example", "CHECKOUT_ETHEREUM_CHAIN_ID=1",
		"CHECKOUT_STRIPE_SECRET_KEY=sk_live_canary",
	} {
		refused(t, append(append([]string{}, simulated...), bad), bad)
	}
	for _, bad := range []string{
		"CHECKOUT_STRIPE_API_URL=http://127.0.0.1:1", "CHECKOUT_STRIPE_JS_URL=http://127.0.0.1:2/stripe.js", "CHECKOUT_RATE_KRAKEN_URL=http://127.0.0.1:4",
		"CHECKOUT_RATE_COINBASE_URL=http://127.0.0.1:4",
	} {
		refused(t, append(append([]string{}, real...), bad), bad)
	}
}

func TestLive_RefusesWrongSettings(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{
		"CHECKOUT_STRIPE_SECRET_KEY=sk_test_canary", "CHECKOUT_STRIPE_SECRET_KEY=canary", "CHECKOUT_STRIPE_PUBLISHABLE_KEY=pk_test_canary",
		"CHECKOUT_STRIPE_WEBHOOK_SECRETS=canary", "CHECKOUT_RATE_MAX_DEVIATION=canary", "CHECKOUT_RATE_SPREAD=1", "CHECKOUT_RATE_SPREAD_STABLE=-1%",
		"CHECKOUT_LIVE_MAX_PAYOUT=canary", "CHECKOUT_LIVE_MAX_DAY=-1", "CHECKOUT_LIVE_MERCHANT_MAX_DAY=1.005", "CHECKOUT_LIVE_MAX_DAY=1e400", "CHECKOUT_RATE_CHAINLINK_FEEDS=canary",
		"CHECKOUT_ETHEREUM_CHAIN_ID=canary", "CHECKOUT_LIVE_PAYOUT_PATIENCE=1s", "CHECKOUT_LIVE_SIMULATED=canary",
	} {
		refused(t, append(append([]string{}, real...), bad), bad)
	}
	both := append(append([]string{}, real...), "CHECKOUT_ETHEREUM_KEYSTORE=/tmp/key")
	refused(t, both, "CHECKOUT_ETHEREUM_SIGNER_URL=")
}

func refused(t *testing.T, settings []string, bad string) {
	t.Helper()
	_, err := config.Load(good(settings...))
	name, _, _ := strings.Cut(bad, "=")
	require.ErrorContains(t, err, name, bad)
	require.NotContains(t, err.Error(), "canary", bad)
}

func TestLive_NamesWhatEachProcessNeeds(t *testing.T) {
	t.Parallel()
	c, err := config.Load(good("CHECKOUT_STRIPE_SECRET_KEY=sk_live_canary", "CHECKOUT_ETHEREUM_KEYSTORE=/tmp/key"))
	require.NoError(t, err)
	for _, name := range []string{"CHECKOUT_STRIPE_PUBLISHABLE_KEY", "CHECKOUT_STRIPE_WEBHOOK_SECRETS", "CHECKOUT_ETHEREUM_TREASURY", "CHECKOUT_ETHEREUM_RPC_URLS"} {
		require.ErrorContains(t, c.Live.ForAPI(), name)
	}
	for _, name := range []string{
		"CHECKOUT_ETHEREUM_RPC_URLS", "CHECKOUT_ETHEREUM_TREASURY", "CHECKOUT_ETHEREUM_KEYSTORE_PASSWORD_FILE", "CHECKOUT_LIVE_MAX_PAYOUT", "CHECKOUT_LIVE_MAX_DAY",
		"CHECKOUT_LIVE_MERCHANT_MAX_DAY",
	} {
		require.ErrorContains(t, c.Live.ForWorker(), name)
	}
	require.NotContains(t, c.Live.ForWorker().Error(), "canary")
}
