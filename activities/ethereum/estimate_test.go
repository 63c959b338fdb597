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
	require.NoError(t, r.anvil.SetBaseFee(t.Context(), 3*gwei))
	r.mine(1)
	fee, err := c.TransferFee(t.Context(), money.ETH)
	require.NoError(t, err)
	require.Equal(t, "0.000084000000000000", fee.String(), "21,000 gas at 3 + 1 gwei")
	plan, err := c.Plan(t.Context(), []treasury.TransferRequest{request(money.ETH, r.payee(), "50.5")}, nil)
	require.NoError(t, err)
	require.Equal(t, plan.Fee, fee)
	for _, token := range []money.PayoutCurrency{money.USDC, money.USDT} {
		got, err := c.TransferFee(t.Context(), token)
		require.NoError(t, err)
		require.True(t, got.Cmp(money.MustCrypto("0.00016", money.ETH)) > 0, got)
		require.True(t, got.Cmp(money.MustCrypto("0.0008", money.ETH)) < 0, got)
	}
	_, err = c.TransferFee(t.Context(), money.BTC)
	require.ErrorContains(t, err, "no token is configured for BTC")
}
