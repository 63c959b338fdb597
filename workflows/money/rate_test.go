package money_test

import (
	"encoding/json"
	"math/big"
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/checkout/workflows/money"
)

func TestRate_IsAnExactDecimalAboveZero(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"1", "1.08", "1.080", "0.000015467203279671"} {
		rate, err := money.ParseRate(text)
		require.NoError(t, err)
		require.Equal(t, text, rate.String(), "it is written as it was read")
	}
	for _, text := range []string{"", "0", "0.00", "-1", "+1", "1e3", "1/3", "0x1", "NaN", "1_0", " 1", "."} {
		_, err := money.ParseRate(text)
		require.Error(t, err, text)
	}
	require.Equal(t, big.NewRat(27, 25), money.MustRate("1.080").Rat())
	require.Equal(t, big.NewRat(21, 2), money.MustRate("010.5").Rat())
	require.Panics(t, func() { money.Rate{}.Rat() })
	require.Equal(t, "0.333333333333333333333333333334", money.CeilRate(big.NewRat(1, 3)).String())
	require.Equal(t, "1200", money.CeilRate(big.NewRat(1200, 1)).String())
}

func TestRate_InJSONAndSQL(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]money.Rate{"1.080": money.MustRate("1.080"), "": {}} {
		encoded, err := json.Marshal(want)
		require.NoError(t, err)
		require.Equal(t, `"`+text+`"`, string(encoded))
		column, err := want.Value()
		require.NoError(t, err)
		require.Equal(t, text, column)
		var decoded, scanned money.Rate
		require.NoError(t, json.Unmarshal(encoded, &decoded))
		require.NoError(t, scanned.Scan(column))
		require.Equal(t, []money.Rate{want, want}, []money.Rate{decoded, scanned})
	}
	for _, column := range []any{"0", "-1", "1e3", nil, 1.5} {
		require.Error(t, new(money.Rate).Scan(column), column)
	}
}
