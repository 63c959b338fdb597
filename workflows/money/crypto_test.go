package money_test

import (
	"encoding/json"
	"math/big"
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/checkout/workflows/money"
)

func TestCrypto_IsADecimalWithAllItsPlaces(t *testing.T) {
	t.Parallel()
	one, half := money.MustCrypto("1", money.USDC), money.MustCrypto("0.5", money.USDC)
	require.Equal(t, "1.500000", one.Add(half).String())
	require.Equal(t, "-0.500000", half.Sub(one).String())
	require.Equal(t, money.MustCrypto("0", money.USDC), one.Sub(one), "equal amounts are deeply equal")
	require.Equal(t, []int{1, 0, -1}, []int{one.Cmp(half), one.Cmp(one), half.Cmp(one)})
	require.Equal(t, one, one.Add(money.Crypto{}), "no amount adds nothing")
	require.False(t, one.Is(money.MustCrypto("0.000000000001", money.ETH)), "the same number of units")
	require.Panics(t, func() { one.Add(money.MustCrypto("1", money.ETH)) })
	one.Units().SetInt64(9)
	require.Equal(t, "1.000000", one.String(), "it never changes")
}

func TestCrypto_RoundsToItsSmallestUnit(t *testing.T) {
	t.Parallel()
	third := big.NewRat(1, 3)
	require.Equal(t, "0.333333", money.FloorCrypto(third, money.USDC).String())
	require.Equal(t, "0.33333334", money.CeilCrypto(third, money.BTC).String())
	require.Equal(t, "2.000000", money.CeilCrypto(big.NewRat(2, 1), money.USDT).String())
}

func TestCrypto_InJSONAndSQL(t *testing.T) {
	t.Parallel()
	encoded, err := json.Marshal([]money.Crypto{{}, money.MustCrypto("0", money.BTC), money.MustCrypto("1.5", money.USDT)})
	require.NoError(t, err)
	require.Equal(t, `[null,"0.00000000","1.500000"]`, string(encoded))
	for text, want := range map[string]money.Crypto{
		"1.50 USDC": money.MustCrypto("1.5", money.USDC), " USDC": {},
	} {
		var got money.Crypto
		require.NoError(t, got.Scan(text))
		require.Equal(t, want, got)
		column, err := got.Value()
		require.NoError(t, err)
		require.Equal(t, want.String(), column)
	}
	for _, column := range []any{"1.5", "1.5 EUR", "-1 USDC", "1e3 USDC", nil, 1.5} {
		require.Error(t, new(money.Crypto).Scan(column), column)
	}
}
