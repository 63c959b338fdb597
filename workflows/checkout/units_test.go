package checkout_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/checkout/workflows/checkout"
)

func TestParseUnits(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"1.5": "1500000", "0": "0", "0.000001": "1", "106.670000": "106670000", "1.50000000": "1500000", "007": "7000000",
		"12345678901234567890.123456": "12345678901234567890123456",
	} {
		got, err := checkout.ParseUnits(text, 6)
		require.NoError(t, err, text)
		require.Equal(t, want, got.String(), text)
		back, err := checkout.ParseUnits(checkout.FormatUnits(got, 6), 6)
		require.NoError(t, err)
		require.Equal(t, want, back.String(), text)
	}
	for _, text := range []string{"", ".", "-1", "+1", "1e3", "0.0000001", "1.2.3", "0x1", " 1", "1/2", "NaN", "1_000"} {
		_, err := checkout.ParseUnits(text, 6)
		require.Error(t, err, text)
	}
}

func TestPayout_GrossRoundsDown(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		source   checkout.Amount
		rate     string
		currency checkout.PayoutCurrency
		want     string
	}{
		{9_900, "1.08", checkout.USDC, "106.920000"},
		{1, "0.333333333333333333", checkout.USDC, "0.003333"},
		{99_999_999, "0.0003375", checkout.ETH, "337.499996625000000000"},
		{1, "0.00001", checkout.BTC, "0.00000010"},
		{1, "0.0000001", checkout.USDT, "0.000000"},
	} {
		p := checkout.Payout{SourceAmount: c.source, SourceCurrency: checkout.EUR, ExchangeRate: c.rate, Currency: c.currency}
		got, err := p.Gross()
		require.NoError(t, err)
		require.Equal(t, c.want, got)
	}
	for _, rate := range []string{"", "0", "-1", "x"} {
		_, err := checkout.Payout{SourceAmount: 1, SourceCurrency: checkout.EUR, ExchangeRate: rate, Currency: checkout.USDC}.Gross()
		require.Error(t, err, rate)
	}
}
