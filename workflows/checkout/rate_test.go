package checkout_test

import (
	"encoding/json"
	"math/big"
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/checkout/workflows/checkout"
)

func TestRate_IsAnExactDecimalAboveZero(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"1", "1.08", "1.080", "0.000015467203279671"} {
		rate, err := checkout.ParseRate(text)
		require.NoError(t, err)
		require.Equal(t, text, rate.String(), "it is written as it was read")
	}
	for _, text := range []string{"", "0", "0.00", "-1", "+1", "1e3", "1/3", "0x1", "NaN", "1_0", " 1", "."} {
		_, err := checkout.ParseRate(text)
		require.Error(t, err, text)
	}
	require.Equal(t, big.NewRat(27, 25), checkout.MustRate("1.080").Rat())
	require.Equal(t, big.NewRat(21, 2), checkout.MustRate("010.5").Rat())
	require.Panics(t, func() { checkout.Rate{}.Rat() })
	require.Equal(t, "0.333333333333333333333333333334", checkout.CeilRate(big.NewRat(1, 3)).String())
	require.Equal(t, "1200", checkout.CeilRate(big.NewRat(1200, 1)).String())
}

func TestRate_InJSONAndSQL(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]checkout.Rate{"1.080": checkout.MustRate("1.080"), "": {}} {
		encoded, err := json.Marshal(want)
		require.NoError(t, err)
		require.Equal(t, `"`+text+`"`, string(encoded))
		column, err := want.Value()
		require.NoError(t, err)
		require.Equal(t, text, column)
		var decoded, scanned checkout.Rate
		require.NoError(t, json.Unmarshal(encoded, &decoded))
		require.NoError(t, scanned.Scan(column))
		require.Equal(t, []checkout.Rate{want, want}, []checkout.Rate{decoded, scanned})
	}
	for _, column := range []any{"0", "-1", "1e3", nil, 1.5} {
		require.Error(t, new(checkout.Rate).Scan(column), column)
	}
}

func TestPayout_GrossIsRoundedDown(t *testing.T) {
	t.Parallel()
	p := checkout.Payout{
		SourceAmount: 9_999, SourceCurrency: checkout.EUR, Currency: checkout.BTC,
		ExchangeRate: checkout.MustRate("0.000015467203279671"),
	}
	require.Equal(t, "0.00154656", p.Gross().String())
}
