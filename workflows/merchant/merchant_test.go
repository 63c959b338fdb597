package merchant_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/checkout/workflows/merchant"
	"example.com/checkout/workflows/money"
)

func TestFee_IsAPartAndAFixedPartAndNeverMoreThanTheAmount(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		fee       merchant.Fee
		amount    money.Amount
		want      money.Amount
		takesAll  bool
		formatted string
	}{
		{merchant.Fee{BasisPoints: 100}, 1050, 11, false, "1.00 %"}, // 10.5 cents
		{merchant.Fee{BasisPoints: 290, Fixed: 30}, 1000, 59, false, "2.90 % + 0.30"},
		{merchant.Fee{BasisPoints: 290, Fixed: 30}, 50, 31, false, "2.90 % + 0.30"}, // 1.45 cents and 30
		{merchant.Fee{BasisPoints: 290, Fixed: 30}, 52, 32, false, "2.90 % + 0.30"}, // 1.508 cents and 30
		{merchant.Fee{BasisPoints: 290, Fixed: 48}, 50, 49, false, "2.90 % + 0.48"},
		{merchant.Fee{BasisPoints: 290, Fixed: 49}, 50, 50, true, "2.90 % + 0.49"},
		{merchant.Fee{Fixed: 100}, 50, 50, true, "0.00 % + 1.00"},
		{merchant.Fee{Fixed: 100}, 100, 100, true, "0.00 % + 1.00"},
		{merchant.Fee{BasisPoints: 10000, Fixed: 1}, 99_999_999, 99_999_999, true, "100.00 % + 0.01"},
		{merchant.Fee{BasisPoints: 10000}, 1000, 1000, false, "100.00 %"}, // as before there was a fixed part
		{merchant.Fee{}, 1000, 0, false, "0.00 %"},
	} {
		require.Equal(t, c.want, c.fee.Of(c.amount), "%s of %s", c.fee, c.amount)
		require.Equal(t, c.takesAll, c.fee.TakesAll(c.amount), "%s of %s", c.fee, c.amount)
		require.Equal(t, c.formatted, c.fee.String())
	}
}

func TestFee_LeastForIsTheLeastAmountThatLeavesEnough(t *testing.T) {
	t.Parallel()
	for _, fee := range []merchant.Fee{{}, {BasisPoints: 100}, {BasisPoints: 290, Fixed: 30}, {BasisPoints: 9_000, Fixed: 10_000}} {
		for _, net := range []money.Amount{1, 50, 1399, 1400, 1_000_000} {
			least, ok := fee.LeastFor(net)
			require.True(t, ok)
			require.GreaterOrEqual(t, least-fee.Of(least), net, "%s of %s", fee, net)
			require.Less(t, least-1-fee.Of(least-1), net, "%s of %s", fee, net)
		}
	}
	require.EqualValues(t, 10_100, merchant.Fee{BasisPoints: 100}.MostFor(9_999), "of 101.01 there are 100.00 left")
	require.Equal(t, money.MaxAmount, merchant.Fee{BasisPoints: 10_000}.MostFor(1), "nothing is ever left")
	require.Equal(t, money.MaxAmount, merchant.Fee{}.MostFor(money.MaxAmount+5))
	_, ok := merchant.Fee{BasisPoints: 10_000}.LeastFor(1)
	require.False(t, ok)
	_, ok = merchant.Fee{}.LeastFor(money.MaxAmount + 1)
	require.False(t, ok)
}
