package checkout_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/money"
)

func TestPayout_GrossIsRoundedDown(t *testing.T) {
	t.Parallel()
	p := checkout.Payout{
		SourceAmount: 9_999, SourceCurrency: money.EUR, Currency: money.BTC,
		ExchangeRate: money.MustRate("0.000015467203279671"),
	}
	require.Equal(t, "0.00154656", p.Gross().String())
}
