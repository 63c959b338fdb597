package money_test

import (
	"math/big"
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/checkout/workflows/money"
)

func TestParseUnits(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"1.5": "1500000", "0": "0", "0.000001": "1", "106.670000": "106670000", "1.50000000": "1500000", "007": "7000000",
		"12345678901234567890.123456": "12345678901234567890123456",
	} {
		got, err := money.ParseUnits(text, 6)
		require.NoError(t, err, text)
		require.Equal(t, want, got.String(), text)
		back, err := money.ParseUnits(money.FormatUnits(got, 6), 6)
		require.NoError(t, err)
		require.Equal(t, want, back.String(), text)
	}
	for _, text := range []string{"", ".", "-1", "+1", "1e3", "0.0000001", "1.2.3", "0x1", " 1", "1/2", "NaN", "1_000"} {
		_, err := money.ParseUnits(text, 6)
		require.Error(t, err, text)
	}
}

func TestFormatUnits_OfLessThanNothing(t *testing.T) {
	t.Parallel()
	require.Equal(t, "-0.05", money.FormatUnits(big.NewInt(-5), 2))
	require.Equal(t, "-1.500000", money.FormatUnits(big.NewInt(-1_500_000), 6))
	require.Equal(t, "-7", money.FormatUnits(big.NewInt(-7), 0))
}
