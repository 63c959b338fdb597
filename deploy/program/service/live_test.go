package service

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/accounts/keystore"
	"github.com/shopspring/decimal"
	"github.com/stretchr/testify/require"
	"github.com/stripe/stripe-go/v85/webhook"

	"example.com/checkout/activities"
	"example.com/checkout/deploy/program/config"
	"example.com/checkout/storage"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/treasury"
)

// TestVerifier_TheSecretSaysTheMode: a report counts for the mode whose secret signed it, and only if it
// says the same itself.
func TestVerifier_TheSecretSaysTheMode(t *testing.T) {
	t.Parallel()
	live := config.Networks{Mode: checkout.ModeLive, StripeWebhookSecrets: []string{"whsec_live"}}
	test := config.Networks{Mode: checkout.ModeTest, StripeWebhookSecrets: []string{"whsec_test"}}
	verify := func(livemode bool, secret string, modes ...config.Networks) (checkout.Mode, error) {
		body := fmt.Appendf(nil, `{"id": "evt_1", "object": "event", "type": "payment_intent.succeeded", "created": 1767225600,
			"livemode": %t, "data": {"object": {"object": "payment_intent", "id": "pi_1"}}}`, livemode)
		at := time.Now()
		signature := fmt.Sprintf("t=%d,v1=%x", at.Unix(), webhook.ComputeSignature(at, body, secret))
		got, err := verifier(modes...)(body, signature)
		return got.Mode, err
	}
	for _, c := range []struct {
		livemode bool
		secret   string
		want     checkout.Mode // "": refused
	}{
		{true, "whsec_live", checkout.ModeLive}, {false, "whsec_test", checkout.ModeTest},
		{false, "whsec_live", ""}, {true, "whsec_test", ""}, {true, "whsec_other", ""}, {false, "", ""},
	} {
		got, err := verify(c.livemode, c.secret, live, test)
		require.Equal(t, c.want, got, c)
		require.Equal(t, c.want == "", err != nil, c)
	}
	_, err := verify(false, "whsec_test", live, config.Networks{Mode: checkout.ModeTest})
	require.Error(t, err, "test mode is the sandbox")
}

// TestOpenNetworks_AWrongKeystoreStopsTheProcess: waiting does not help, and nothing is quoted.
func TestOpenNetworks_AWrongKeystoreStopsTheProcess(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	password := filepath.Join(dir, "password")
	require.NoError(t, os.WriteFile(password, []byte("battery canary\n"), 0o600))
	account, err := keystore.NewKeyStore(dir, keystore.LightScryptN, keystore.LightScryptP).NewAccount("correct horse")
	require.NoError(t, err)
	n := config.Networks{
		Mode: checkout.ModeLive, Chains: true, EthereumRPCURLs: []string{"http://127.0.0.1:1"}, EthereumChainID: 31337,
		EthereumTreasury: account.Address.Hex(), EthereumKeystore: account.URL.Path, EthereumPasswordFile: password,
		Limits: treasury.PayoutLimits{Payout: 100, Day: 100, MerchantDay: 100, MerchantUnsettled: 100},
	}
	_, err = openNetworks(t.Context(), n, nil)
	require.ErrorContains(t, err, "the password is wrong")
	require.NotContains(t, err.Error(), "canary")
	n.EthereumPasswordFile = filepath.Join(dir, "none")
	_, err = openNetworks(t.Context(), n, nil)
	require.ErrorContains(t, err, "CHECKOUT_ETHEREUM_KEYSTORE_PASSWORD_FILE cannot be read")
	n.Limits.MerchantUnsettled = 0
	_, err = openNetworks(t.Context(), n, nil)
	require.ErrorContains(t, err, "CHECKOUT_LIVE_MERCHANT_MAX_UNSETTLED is not set: live mode needs it")
}

// TestOpenNetworks_OnlyPayoutsWaitForANode: a network that is away delays its own payouts only.
func TestOpenNetworks_OnlyPayoutsWaitForANode(t *testing.T) {
	t.Parallel()
	for _, mode := range []checkout.Mode{checkout.ModeTest, checkout.ModeLive} {
		t.Run(string(mode), func(t *testing.T) { onlyPayoutsWait(t, mode) })
	}
}

func onlyPayoutsWait(t *testing.T, mode checkout.Mode) {
	n := config.Networks{
		Mode: mode, Chains: true, EthereumRPCURLs: []string{"http://127.0.0.1:1"}, EthereumChainID: 31337,
		EthereumTreasury: "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed", EthereumSignerURL: "http://127.0.0.1:1",
		EthereumConfirmations: "finalized", EthereumMaxFeeGwei: 200, RateSources: []string{"kraken", "coinbase"}, RateMaxAge: time.Minute,
		EthereumUSDC: "0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48", EthereumUSDT: "0xdAC17F958D2ee523a2206206994597C13D831ec7",
		MaxDeviation: decimal.New(1, -2), Spread: decimal.New(1, -2), SpreadStable: decimal.New(5, -3),
		Limits: treasury.PayoutLimits{Payout: 100, Day: 100, MerchantDay: 100, MerchantUnsettled: 100},
	}
	ctx := t.Context()
	opened, err := openNetworks(ctx, n, &storage.Store{})
	require.NoError(t, err)
	_, err = opened.networks(activities.Networks{}).Chains["eip155:31337"].Payouts.Transfer(ctx, storage.PayoutToSend{Payout: checkout.Payout{Network: "ethereum"}})
	require.ErrorIs(t, err, errNoNodeYet)
	opened.payer.followed.Store(1)
	_, err = opened.payer.follow(ctx)
	require.ErrorIs(t, err, errNoNodeYet)
	require.EqualValues(t, 1, opened.payer.followed.Load(), "an alarm is raised when no round ends well")

	wrong := n
	wrong.EthereumTreasury = "0x1"
	_, err = openNetworks(ctx, wrong, &storage.Store{})
	require.ErrorContains(t, err, "the treasury's address", "a wrong setting stops the process")
}
