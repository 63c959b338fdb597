package ethereum

import (
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/checkout/deploy/standin/chains"
	"example.com/checkout/workflows/money"
	"example.com/checkout/workflows/treasury"
)

func TestTransferFee_IsWhatAPayoutWouldPay(t *testing.T) {
	r := newRig(t, chains.Options{})
	c := r.open()
	r.setBaseFee(3 * gwei)
	fee := must(c.TransferFee(t.Context(), money.ETH))(t)
	require.Equal(t, "0.000084000000000000", fee.String(), "21,000 gas at 3 + 1 gwei")
	plan := must(c.Plan(t.Context(), []treasury.TransferRequest{request(money.ETH, r.payee(), "50.5")}, nil))(t)
	require.Equal(t, plan.Fee, fee)
	for _, token := range []money.PayoutCurrency{money.USDC, money.USDT} {
		got := must(c.TransferFee(t.Context(), token))(t)
		require.True(t, got.Cmp(money.MustCrypto("0.00016", money.ETH)) > 0, got)
		require.True(t, got.Cmp(money.MustCrypto("0.0008", money.ETH)) < 0, got)
	}
	require.ErrorContains(t, errorOf(c.TransferFee(t.Context(), money.BTC)), "no token is configured for BTC")
}
