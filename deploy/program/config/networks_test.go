package config_test

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"example.com/checkout/deploy/program/config"
	"example.com/checkout/workflows/checkout"
)

// settings is testdata/settings.yaml.
var settings = sync.OnceValue(func() (all struct {
	Environments map[string][]string
	Refused      []refusal
}) {
	text, err := os.ReadFile("testdata/settings.yaml")
	if err == nil {
		err = yaml.Unmarshal(text, &all)
	}
	if err != nil {
		panic(err)
	}
	return all
})

// A refusal has settings that are refused after other ones.
type refusal struct {
	After, Plus, Settings []string
	Instead, Command      string
}

// environment returns the settings of environments of the file, and more.
func environment(name string, more ...string) []string {
	return slices.Concat(settings().Environments[name], more)
}

// TestLoad_NamesTheWrongSettingAndQuotesNone: nothing starts with one real endpoint among simulated ones, for example.
func TestLoad_NamesTheWrongSettingAndQuotesNone(t *testing.T) {
	t.Parallel()
	require.Greater(t, len(settings().Refused), 10)
	for _, r := range settings().Refused {
		before := good()
		for _, name := range r.After {
			require.NotEmpty(t, environment(name), name)
			before = append(before, environment(name)...)
		}
		for _, bad := range r.Settings {
			requireFault(t, r, slices.Concat(before, r.Plus, []string{bad}), bad)
		}
	}
}

func requireFault(t *testing.T, r refusal, settings []string, bad string) {
	_, err := config.Load(settings)
	if r.Command == "setup" {
		_, err = config.LoadSetup(settings)
	}
	name, _, _ := strings.Cut(bad, "=")
	require.ErrorContains(t, err, cmp.Or(r.Instead, name), bad)
	require.NotContains(t, err.Error(), "canary", bad)
}

func TestLive_IsOffARealOneOrASimulatedOne(t *testing.T) {
	t.Parallel()
	c, err := config.Load(good())
	require.NoError(t, err)
	require.False(t, c.Live.On())
	for _, all := range [][]string{environment("live"), environment("simulated")} {
		c, err := config.Load(good(all...))
		require.NoError(t, err)
		require.True(t, c.Live.On())
		require.False(t, c.Live.Bitcoin(), "it has no node")
		require.NoError(t, c.Live.ForAPI())
		require.NoError(t, c.Live.ForWorker())
	}
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

func TestTestNetworks_AreTheSandboxByDefault(t *testing.T) {
	t.Parallel()
	keyOnly := good("CHECKOUT_TEST_STRIPE_SECRET_KEY=sk_test_canary", "CHECKOUT_TEST_ETHEREUM_TREASURY=0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed")
	for _, environment := range [][]string{good(), good(environment("live")...), keyOnly} {
		c, err := config.Load(environment)
		require.NoError(t, err)
		require.False(t, c.Test.On())
		require.NoError(t, c.Test.ForAPI())
		require.NoError(t, c.Test.ForWorker())
	}
}

func TestTestNetworks_HaveTheSettingsOfLiveMode(t *testing.T) {
	t.Parallel()
	c, err := config.Load(good(slices.Concat(environment("live"), environment("test"))...))
	require.NoError(t, err)
	require.NoError(t, c.Test.ForAPI())
	require.NoError(t, c.Test.ForWorker())
	require.True(t, c.Test.Cards && c.Test.Chains && c.Live.Cards && c.Live.Chains)
	require.Equal(t, "rk_test_canary", c.Test.StripeSecretKey)
	require.Equal(t, "rk_live_canary", c.Live.StripeSecretKey)
	require.EqualValues(t, 11155111, c.Test.EthereumChainID)
	require.EqualValues(t, 1, c.Live.EthereumChainID)
	require.Equal(t, "25.00 1000.00 100.00", fmt.Sprint(c.Test.MaxPayout, c.Test.MaxDay, c.Test.MaxMerchantDay))
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
		requireFault(t, refusal{}, good("CHECKOUT_SANCTIONS_FILE="+file), "CHECKOUT_SANCTIONS_FILE=")
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
