package checkout_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/checkout/workflows/checkout"
)

func TestFee_IsAPartAndAFixedPartAndNeverMoreThanTheAmount(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		fee       checkout.Fee
		amount    checkout.Amount
		want      checkout.Amount
		takesAll  bool
		formatted string
	}{
		{checkout.Fee{BasisPoints: 100}, 1050, 11, false, "1.00 %"}, // 10.5 cents
		{checkout.Fee{BasisPoints: 290, Fixed: 30}, 1000, 59, false, "2.90 % + 0.30"},
		{checkout.Fee{BasisPoints: 290, Fixed: 30}, 50, 31, false, "2.90 % + 0.30"}, // 1.45 cents and 30
		{checkout.Fee{BasisPoints: 290, Fixed: 30}, 52, 32, false, "2.90 % + 0.30"}, // 1.508 cents and 30
		{checkout.Fee{BasisPoints: 290, Fixed: 48}, 50, 49, false, "2.90 % + 0.48"},
		{checkout.Fee{BasisPoints: 290, Fixed: 49}, 50, 50, true, "2.90 % + 0.49"},
		{checkout.Fee{Fixed: 100}, 50, 50, true, "0.00 % + 1.00"},
		{checkout.Fee{Fixed: 100}, 100, 100, true, "0.00 % + 1.00"},
		{checkout.Fee{BasisPoints: 10000, Fixed: 1}, 99_999_999, 99_999_999, true, "100.00 % + 0.01"},
		{checkout.Fee{BasisPoints: 10000}, 1000, 1000, false, "100.00 %"}, // as before there was a fixed part
		{checkout.Fee{}, 1000, 0, false, "0.00 %"},
	} {
		require.Equal(t, c.want, c.fee.Of(c.amount), "%s of %s", c.fee, c.amount)
		require.Equal(t, c.takesAll, c.fee.TakesAll(c.amount), "%s of %s", c.fee, c.amount)
		require.Equal(t, c.formatted, c.fee.String())
	}
}

func TestFee_LeastForIsTheLeastAmountThatLeavesEnough(t *testing.T) {
	t.Parallel()
	for _, fee := range []checkout.Fee{{}, {BasisPoints: 100}, {BasisPoints: 290, Fixed: 30}, {BasisPoints: 9_000, Fixed: 10_000}} {
		for _, net := range []checkout.Amount{1, 50, 1399, 1400, 1_000_000} {
			least, ok := fee.LeastFor(net)
			require.True(t, ok)
			require.GreaterOrEqual(t, least-fee.Of(least), net, "%s of %s", fee, net)
			require.Less(t, least-1-fee.Of(least-1), net, "%s of %s", fee, net)
		}
	}
	require.EqualValues(t, 10_100, checkout.Fee{BasisPoints: 100}.MostFor(9_999), "of 101.01 there are 100.00 left")
	require.Equal(t, checkout.MaxAmount, checkout.Fee{BasisPoints: 10_000}.MostFor(1), "nothing is ever left")
	require.Equal(t, checkout.MaxAmount, checkout.Fee{}.MostFor(checkout.MaxAmount+5))
	_, ok := checkout.Fee{BasisPoints: 10_000}.LeastFor(1)
	require.False(t, ok)
	_, ok = checkout.Fee{}.LeastFor(checkout.MaxAmount + 1)
	require.False(t, ok)
}
