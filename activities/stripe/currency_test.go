package stripe

import (
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/checkout/workflows/money"
)

func TestCheckMoney_TakesEveryCurrencyOfACharge(t *testing.T) {
	t.Parallel()
	for _, c := range money.Currencies {
		require.NoError(t, checkMoney(10_50, c))
	}
}
