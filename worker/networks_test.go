package worker

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/checkout/activities"
	"example.com/checkout/activities/ethereum"
	"example.com/checkout/activities/rate"
	"example.com/checkout/storage"
	"example.com/checkout/storage/storagetest/must"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/money"
	"example.com/checkout/workflows/treasury"
)

// TestOpenNetworks_OnlyPayoutsWaitForANode: a network that is away delays its own payouts only.
func TestOpenNetworks_OnlyPayoutsWaitForANode(t *testing.T) {
	t.Parallel()
	signer := must.Get(ethereum.NewRemoteSigner("http://127.0.0.1:1"))(t)
	rates := rate.Defaults()
	rates.Sources, rates.Lock = []string{rate.Kraken, rate.Coinbase}, time.Hour
	s := PayoutSettings{
		Ethereum: ethereum.Options{
			RPCURLs: []string{"http://127.0.0.1:1"}, ChainID: 31337, Treasury: "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed",
			Signer: signer, Confirmations: "finalized", MaxFeeGwei: 200, Tokens: map[money.PayoutCurrency]string{
				money.USDC: "0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48", money.USDT: "0xdAC17F958D2ee523a2206206994597C13D831ec7",
			},
		},
		Rates: rates, Limits: treasury.PayoutLimits{Payout: 100, Day: 100, MerchantDay: 100, MerchantUnsettled: 100},
	}
	ctx := t.Context()
	opened, err := openNetworks(ctx, Networks{Mode: checkout.ModeLive, Payouts: &s}, &storage.Store{})
	require.NoError(t, err)
	payouts := opened.networks(activities.Networks{}).Chains["eip155:31337"].Payouts
	_, err = payouts.Transfer(ctx, storage.PayoutToSend{Payout: checkout.Payout{Network: "ethereum"}})
	require.ErrorIs(t, err, errNoNodeYet)
	opened.treasury.synced.Store(1)
	_, err = opened.treasury.sync(ctx)
	require.ErrorIs(t, err, errNoNodeYet)
	require.EqualValues(t, 1, opened.treasury.synced.Load(), "an alarm is raised when no round succeeds")

	s.Ethereum.Treasury = "0x1"
	_, err = openNetworks(ctx, Networks{Mode: checkout.ModeTest, Payouts: &s}, &storage.Store{})
	require.ErrorContains(t, err, "the treasury's address", "a wrong setting stops the process")
}
