package ethereum

import (
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/checkout/deploy/standin/chains"
	"example.com/checkout/storage/storagetest/must"
	"example.com/checkout/workflows/money"
	"example.com/checkout/workflows/treasury"
)

func TestCancel_TakesTheNonceAndPaysNobody(t *testing.T) {
	r := newRig(t, chains.Options{})
	c := r.open()
	v := r.sent(c, money.USDC, "20", 0)
	plan := must.Get(c.Cancel(t.Context(), v))(t)
	require.True(t, plan.Cancels)
	require.Empty(t, plan.Outputs)
	canceling := must.Get(c.Sign(t.Context(), plan))(t)
	require.NoError(t, c.Send(t.Context(), canceling), "its price is high enough to replace the first version")
	r.sees(c, treasury.TransferStatePending, v, canceling)
	next := r.bumped(c, canceling) // a cancellation that is stuck is raised too
	require.True(t, next.Cancels)
	require.NoError(t, c.Send(t.Context(), next))
	r.mine(1)
	r.sees(c, treasury.TransferStateMined, v, canceling, next)
	r.mine(2)
	require.Equal(t, next.TxHash, r.sees(c, treasury.TransferStateCanceled, v, canceling, next).TxHash)
	require.Equal(t, "0.000000", r.has(money.USDC, v.Outputs[0].Destination))
	require.Equal(t, "1000000.000000", r.has(money.USDC, r.key.account.Hex()))
	out := r.outflows(c, 0)
	require.Len(t, out.All, 1)
	require.Equal(t, []string{next.TxHash, "0.000000000000000000"}, []string{out.All[0].TxHash, out.All[0].Amount.String()})
}

// The budget of a payout does not limit what its cancellation costs; the price of a unit of gas does.
func TestCancel_HasOnlyTheLimitOfThePrice(t *testing.T) {
	r := newRig(t, chains.Options{})
	c := r.open(func(o *Options) { o.StuckFee = "0" })
	v := r.signed(c, money.USDC, "20", 0)
	r.setBaseFee(150 * gwei)
	require.ErrorIs(t, must.Err(c.Bump(t.Context(), v)), treasury.ErrFeeTooHigh)
	require.NoError(t, must.Err(c.Cancel(t.Context(), v)))
	r.setBaseFee(250 * gwei)
	require.ErrorIs(t, must.Err(c.Cancel(t.Context(), v)), treasury.ErrFeeTooHigh)
}
