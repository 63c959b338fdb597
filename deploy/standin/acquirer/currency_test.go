package acquirer

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/checkout/workflows/money"
)

func TestMinimums_AreOfEveryCurrencyOfACharge(t *testing.T) {
	t.Parallel()
	for _, c := range money.Currencies {
		require.Positive(t, minimums[strings.ToLower(string(c))], c)
	}
}
