package checkout_test

import (
	"encoding/json"
	"math/big"
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/checkout/workflows/checkout"
)

func TestCrypto_IsADecimalWithAllItsPlaces(t *testing.T) {
	t.Parallel()
	one, half := checkout.MustCrypto("1", checkout.USDC), checkout.MustCrypto("0.5", checkout.USDC)
	require.Equal(t, "1.500000", one.Add(half).String())
	require.Equal(t, "-0.500000", half.Sub(one).String())
	require.Equal(t, checkout.MustCrypto("0", checkout.USDC), one.Sub(one), "equal amounts are deeply equal")
	require.Equal(t, []int{1, 0, -1}, []int{one.Cmp(half), one.Cmp(one), half.Cmp(one)})
	require.Equal(t, one, one.Add(checkout.Crypto{}), "no amount adds nothing")
	require.False(t, one.Is(checkout.MustCrypto("0.000000000001", checkout.ETH)), "the same number of units")
	require.Panics(t, func() { one.Add(checkout.MustCrypto("1", checkout.ETH)) })
	one.Units().SetInt64(9)
	require.Equal(t, "1.000000", one.String(), "it never changes")
}

func TestCrypto_RoundsToItsSmallestUnit(t *testing.T) {
	t.Parallel()
	third := big.NewRat(1, 3)
	require.Equal(t, "0.333333", checkout.FloorCrypto(third, checkout.USDC).String())
	require.Equal(t, "0.33333334", checkout.CeilCrypto(third, checkout.BTC).String())
	require.Equal(t, "2.000000", checkout.CeilCrypto(big.NewRat(2, 1), checkout.USDT).String())
}

func TestCrypto_InJSONAndSQL(t *testing.T) {
	t.Parallel()
	encoded, err := json.Marshal([]checkout.Crypto{{}, checkout.MustCrypto("0", checkout.BTC), checkout.MustCrypto("1.5", checkout.USDT)})
	require.NoError(t, err)
	require.Equal(t, `[null,"0.00000000","1.500000"]`, string(encoded))
	for text, want := range map[string]checkout.Crypto{
		"1.50 USDC": checkout.MustCrypto("1.5", checkout.USDC), " USDC": {},
	} {
		var got checkout.Crypto
		require.NoError(t, got.Scan(text))
		require.Equal(t, want, got)
		column, err := got.Value()
		require.NoError(t, err)
		require.Equal(t, want.String(), column)
	}
	for _, column := range []any{"1.5", "1.5 EUR", "-1 USDC", "1e3 USDC", nil, 1.5} {
		require.Error(t, new(checkout.Crypto).Scan(column), column)
	}
}
