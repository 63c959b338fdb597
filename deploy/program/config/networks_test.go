package config_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/checkout/deploy/program/config"
	"example.com/checkout/workflows/checkout"
)

// real are the settings of live mode of both processes together.
var real = []string{
	"CHECKOUT_STRIPE_SECRET_KEY=rk_live_canary", "CHECKOUT_STRIPE_PUBLISHABLE_KEY=pk_live_1", "CHECKOUT_STRIPE_WEBHOOK_SECRETS=whsec_canary,whsec_canary2",
	"CHECKOUT_ETHEREUM_RPC_URLS=https://a.example/canary,https://b.example", "CHECKOUT_ETHEREUM_TREASURY=0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed",
	"CHECKOUT_ETHEREUM_SIGNER_URL=http://signer.example", "CHECKOUT_LIVE_MAX_PAYOUT=2500", "CHECKOUT_LIVE_MAX_DAY=100000", "CHECKOUT_LIVE_MERCHANT_MAX_DAY=10000.50",
	"CHECKOUT_LIVE_MERCHANT_MAX_UNSETTLED=5000",
}

var simulated = []string{
	"CHECKOUT_LIVE_SIMULATED=true", "CHECKOUT_STRIPE_SECRET_KEY=sk_test_canary", "CHECKOUT_STRIPE_PUBLISHABLE_KEY=pk_test_1",
	"CHECKOUT_STRIPE_WEBHOOK_SECRETS=whsec_canary", "CHECKOUT_STRIPE_API_URL=http://127.0.0.1:1", "CHECKOUT_STRIPE_JS_URL=http://127.0.0.1:2/stripe.js",
	"CHECKOUT_ETHEREUM_RPC_URLS=http://127.0.0.1:3", "CHECKOUT_ETHEREUM_CHAIN_ID=31337", "CHECKOUT_ETHEREUM_TREASURY=0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed",
	"CHECKOUT_ETHEREUM_SIGNER_URL=http://127.0.0.1:3", "CHECKOUT_RATE_KRAKEN_URL=http://127.0.0.1:4", "CHECKOUT_RATE_COINBASE_URL=http://127.0.0.1:4",
	"CHECKOUT_LIVE_MAX_PAYOUT=2500", "CHECKOUT_LIVE_MAX_DAY=100000", "CHECKOUT_LIVE_MERCHANT_MAX_DAY=10000",
	"CHECKOUT_LIVE_MERCHANT_MAX_UNSETTLED=5000",
}

func TestLive_IsOffARealOneOrASimulatedOne(t *testing.T) {
	t.Parallel()
	c, err := config.Load(good())
	require.NoError(t, err)
	require.False(t, c.Live.On())
	for _, all := range [][]string{real, simulated} {
		c, err := config.Load(good(all...))
		require.NoError(t, err)
		require.True(t, c.Live.On())
		require.False(t, c.Live.Bitcoin(), "it has no node")
		require.NoError(t, c.Live.ForAPI())
		require.NoError(t, c.Live.ForWorker())
	}
}

// TestLive_OneRealEndpointAmongSimulatedOnes and the reverse: nothing starts.
func TestLive_OneRealEndpointAmongSimulatedOnes(t *testing.T) {
	t.Parallel()
	refused(t, simulated,
		"CHECKOUT_STRIPE_API_URL=", "CHECKOUT_STRIPE_API_URL=https://api.stripe.com", "CHECKOUT_STRIPE_JS_URL=https://js.stripe.com/dahlia/stripe.js",
		"CHECKOUT_ETHEREUM_RPC_URLS=http://127.0.0.1:3,http://10.0.0.1:3", "CHECKOUT_ETHEREUM_RPC_URLS=https://node.example/canary", "CHECKOUT_RATE_KRAKEN_URL=",
		"CHECKOUT_RATE_COINBASE_URL=https://api.exchange.coinbase.com", "CHECKOUT_ETHEREUM_SIGNER_URL=http://signer.example", "CHECKOUT_ETHEREUM_CHAIN_ID=1",
		"CHECKOUT_STRIPE_SECRET_KEY=sk_live_canary",
	)
	refused(t, real,
		"CHECKOUT_STRIPE_API_URL=http://127.0.0.1:1", "CHECKOUT_STRIPE_JS_URL=http://127.0.0.1:2/stripe.js", "CHECKOUT_RATE_KRAKEN_URL=http://127.0.0.1:4",
		"CHECKOUT_RATE_COINBASE_URL=http://127.0.0.1:4",
	)
}

func TestLive_RefusesWrongSettings(t *testing.T) {
	t.Parallel()
	refused(t, real,
		"CHECKOUT_STRIPE_SECRET_KEY=sk_test_canary", "CHECKOUT_STRIPE_SECRET_KEY=canary", "CHECKOUT_STRIPE_PUBLISHABLE_KEY=pk_test_canary",
		"CHECKOUT_STRIPE_WEBHOOK_SECRETS=canary", "CHECKOUT_RATE_MAX_DEVIATION=canary", "CHECKOUT_RATE_SPREAD=1", "CHECKOUT_RATE_SPREAD_STABLE=-1%",
		"CHECKOUT_LIVE_MAX_PAYOUT=canary", "CHECKOUT_LIVE_MAX_DAY=-1", "CHECKOUT_LIVE_MERCHANT_MAX_DAY=1.005", "CHECKOUT_LIVE_MAX_DAY=1e400", "CHECKOUT_RATE_CHAINLINK_FEEDS=canary",
		"CHECKOUT_ETHEREUM_CHAIN_ID=canary", "CHECKOUT_LIVE_PAYOUT_PATIENCE=1s", "CHECKOUT_LIVE_SIMULATED=canary",
		"CHECKOUT_LIVE_MERCHANT_MAX_UNSETTLED=0", "CHECKOUT_LIVE_PAYOUT_DELAY=-1s", "CHECKOUT_SANCTIONS_FILE=/canary", "CHECKOUT_SANCTIONS_ORACLE=canary",
	)
	requireFault(t, slices.Concat(real, []string{"CHECKOUT_ETHEREUM_KEYSTORE=/tmp/key"}), "CHECKOUT_ETHEREUM_SIGNER_URL")
}

// refused checks each bad setting after the others.
func refused(t *testing.T, settings []string, bad ...string) {
	for _, b := range bad {
		requireFault(t, slices.Concat(settings, []string{b}), b)
	}
}

// requireFault checks that the settings are refused with an error that names the setting bad, and quotes no secret.
func requireFault(t *testing.T, settings []string, bad string) {
	_, err := config.Load(good(settings...))
	name, _, _ := strings.Cut(bad, "=")
	require.ErrorContains(t, err, name, bad)
	require.NotContains(t, err.Error(), "canary", bad)
}

func TestLive_NamesWhatEachProcessNeeds(t *testing.T) {
	t.Parallel()
	c, err := config.Load(good("CHECKOUT_STRIPE_SECRET_KEY=sk_live_canary", "CHECKOUT_ETHEREUM_KEYSTORE=/tmp/key"))
	require.NoError(t, err)
	for _, name := range []string{"CHECKOUT_STRIPE_PUBLISHABLE_KEY", "CHECKOUT_STRIPE_WEBHOOK_SECRETS", "CHECKOUT_ETHEREUM_TREASURY", "CHECKOUT_ETHEREUM_RPC_URLS",
		"CHECKOUT_LIVE_MAX_PAYOUT", "CHECKOUT_LIVE_MAX_DAY", "CHECKOUT_LIVE_MERCHANT_MAX_DAY",
	} {
		require.ErrorContains(t, c.Live.ForAPI(), name)
	}
	for _, name := range []string{
		"CHECKOUT_ETHEREUM_RPC_URLS", "CHECKOUT_ETHEREUM_TREASURY", "CHECKOUT_ETHEREUM_KEYSTORE_PASSWORD_FILE", "CHECKOUT_LIVE_MAX_PAYOUT", "CHECKOUT_LIVE_MAX_DAY",
		"CHECKOUT_LIVE_MERCHANT_MAX_DAY", "CHECKOUT_LIVE_MERCHANT_MAX_UNSETTLED",
	} {
		require.ErrorContains(t, c.Live.ForWorker(), name)
	}
	require.NotContains(t, c.Live.ForWorker().Error(), "canary")
}

// ofTest are the settings of test mode's own networks of both processes together.
var ofTest = []string{
	"CHECKOUT_TEST_CARDS=stripe", "CHECKOUT_TEST_CHAINS=networks",
	"CHECKOUT_TEST_STRIPE_SECRET_KEY=rk_test_canary", "CHECKOUT_TEST_STRIPE_PUBLISHABLE_KEY=pk_test_1", "CHECKOUT_TEST_STRIPE_WEBHOOK_SECRETS=whsec_canary",
	"CHECKOUT_TEST_ETHEREUM_RPC_URLS=https://sepolia.example/canary", "CHECKOUT_TEST_ETHEREUM_CHAIN_ID=11155111",
	"CHECKOUT_TEST_ETHEREUM_TREASURY=0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed", "CHECKOUT_TEST_ETHEREUM_SIGNER_URL=http://signer.example",
	"CHECKOUT_TEST_MAX_PAYOUT=25", "CHECKOUT_TEST_MAX_DAY=1000", "CHECKOUT_TEST_MERCHANT_MAX_DAY=100",
	"CHECKOUT_TEST_MERCHANT_MAX_UNSETTLED=50", "CHECKOUT_TEST_PAYOUT_DELAY=1h",
}

func TestTestNetworks_AreTheSandboxByDefault(t *testing.T) {
	t.Parallel()
	keyOnly := good("CHECKOUT_TEST_STRIPE_SECRET_KEY=sk_test_canary", "CHECKOUT_TEST_ETHEREUM_TREASURY=0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed")
	for _, environment := range [][]string{good(), good(real...), keyOnly} {
		c, err := config.Load(environment)
		require.NoError(t, err)
		require.False(t, c.Test.On())
		require.NoError(t, c.Test.ForAPI())
		require.NoError(t, c.Test.ForWorker())
	}
}

func TestTestNetworks_HaveTheSettingsOfLiveMode(t *testing.T) {
	t.Parallel()
	c, err := config.Load(good(slices.Concat(real, ofTest)...))
	require.NoError(t, err)
	require.NoError(t, c.Test.ForAPI())
	require.NoError(t, c.Test.ForWorker())
	require.True(t, c.Test.Cards && c.Test.Chains && c.Live.Cards && c.Live.Chains)
	require.Equal(t, "rk_test_canary", c.Test.StripeSecretKey)
	require.Equal(t, "rk_live_canary", c.Live.StripeSecretKey)
	require.EqualValues(t, 11155111, c.Test.EthereumChainID)
	require.EqualValues(t, 1, c.Live.EthereumChainID)
	require.Equal(t, "25.00 1000.00 100.00", fmt.Sprint(c.Test.Limits.Payout, c.Test.Limits.Day, c.Test.Limits.MerchantDay))
	require.Equal(t, "0.01 0.005 0.01", fmt.Sprint(c.Test.MaxDeviation, c.Test.SpreadStable, c.Test.Spread))
	require.EqualValues(t, 200, c.Test.EthereumMaxFeeGwei, "a default")
	require.Equal(t, c.Live.PayoutPatience, c.Test.PayoutPatience)
	require.Equal(t, []time.Duration{time.Hour, 0}, []time.Duration{c.Test.PayoutDelay, c.Live.PayoutDelay})
}

// TestSanctions_TheFileIsReadAtStart: a wrong line stops the process, and the error names the line. Each mode
// has a file of its own.
func TestSanctions_TheFileIsReadAtStart(t *testing.T) {
	t.Parallel()
	const payee = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"
	file := filepath.Join(t.TempDir(), "sanctions")
	require.NoError(t, os.WriteFile(file, []byte("# of a day\n\n"+payee+" # one\r\nbc1qar0srrr7xfkvy5l643lydnw9re59gtzzwf5mdq\n"), 0o600))
	for name, mode := range map[string]checkout.Mode{
		"CHECKOUT_SANCTIONS_FILE=": checkout.ModeLive, "CHECKOUT_TEST_SANCTIONS_FILE=": checkout.ModeTest,
	} {
		c, err := config.Load(good(name + file))
		require.NoError(t, err)
		rules := c.PayoutAddressRules()
		for _, other := range []checkout.Mode{checkout.ModeLive, checkout.ModeTest} {
			for _, address := range []string{payee, strings.ToLower(payee)} {
				refused := rules.Check(other, "ethereum", address)
				require.Equal(t, other == mode, refused != nil, "%s in mode %s", name, other)
			}
		}
		require.ErrorContains(t, rules.Check(mode, "bitcoin", "bc1qar0srrr7xfkvy5l643lydnw9re59gtzzwf5mdq"), "cannot be used")
	}

	for content, line := range map[string]string{"\n" + payee + "\n0x12canary\n": "line 3", "canary": "line 1"} {
		require.NoError(t, os.WriteFile(file, []byte(content), 0o600))
		refused(t, nil, "CHECKOUT_SANCTIONS_FILE="+file)
		_, err := config.LoadStores([]string{"DATABASE_URL=postgres://u:p@127.0.0.1:5432/db", "CHECKOUT_SANCTIONS_FILE=" + file})
		require.EqualError(t, err, "CHECKOUT_SANCTIONS_FILE "+line+" is no address of Ethereum or Bitcoin")
	}
	_, err := config.Load(good("CHECKOUT_SANCTIONS_ORACLE=" + payee)) // as of an API whose live mode is switched off
	require.NoError(t, err)
}

func TestTestNetworks_EachMayBeTheSandboxAlone(t *testing.T) {
	t.Parallel()
	for choice, needs := range map[string]string{"CHECKOUT_TEST_CARDS=stripe": "CHECKOUT_TEST_STRIPE_", "CHECKOUT_TEST_CHAINS=networks": "CHECKOUT_TEST_ETHEREUM_"} {
		c, err := config.Load(good(choice, "CHECKOUT_TEST_ETHEREUM_CHAIN_ID=31337"))
		require.NoError(t, err)
		for _, err := range []error{c.Test.ForAPI(), c.Test.ForWorker()} {
			require.ErrorContains(t, err, needs)
			require.ErrorContains(t, err, "test mode needs it")
			require.False(t, strings.Contains(err.Error(), "STRIPE_") && strings.Contains(err.Error(), "ETHEREUM_"), err)
		}
	}
}

func TestTestNetworks_RefusesWrongSettings(t *testing.T) {
	t.Parallel()
	refused(t, ofTest,
		"CHECKOUT_TEST_CARDS=canary", "CHECKOUT_TEST_CHAINS=stripe", "CHECKOUT_TEST_STRIPE_SECRET_KEY=sk_live_canary",
		"CHECKOUT_TEST_STRIPE_SECRET_KEY=rk_live_canary", "CHECKOUT_TEST_STRIPE_PUBLISHABLE_KEY=pk_live_canary", "CHECKOUT_TEST_STRIPE_WEBHOOK_SECRETS=canary",
		"CHECKOUT_TEST_ETHEREUM_CHAIN_ID=1", "CHECKOUT_TEST_ETHEREUM_CHAIN_ID=canary", "CHECKOUT_TEST_STRIPE_API_URL=http://127.0.0.1:1",
		"CHECKOUT_TEST_SIMULATED=canary", "CHECKOUT_TEST_MAX_PAYOUT=canary", "CHECKOUT_TEST_PAYOUT_PATIENCE=1s", "CHECKOUT_TEST_RATE_SPREAD=1",
		"CHECKOUT_TEST_PAYOUT_DELAY=-1s", "CHECKOUT_TEST_SANCTIONS_FILE=/canary", "CHECKOUT_TEST_SANCTIONS_ORACLE=0x1",
	)
	const isSimulated = "CHECKOUT_TEST_SIMULATED=true"
	refused(t, []string{"CHECKOUT_TEST_CHAINS=networks", isSimulated}, "CHECKOUT_TEST_ETHEREUM_CHAIN_ID=1")
	requireFault(t, slices.Concat(ofTest, []string{isSimulated}), "CHECKOUT_TEST_ETHEREUM_RPC_URLS")
	requireFault(t, slices.Concat(simulated, ofTest, []string{"CHECKOUT_TEST_ETHEREUM_CHAIN_ID=31337"}),
		"CHECKOUT_TEST_ETHEREUM_TREASURY")
}
