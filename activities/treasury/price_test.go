package treasury

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/money"
	"example.com/checkout/workflows/treasury"
)

// rates are quotes of US dollars and of another currency, to USDC.
type rates [2]string

func (r rates) Quote(_ context.Context, from money.Currency, _ money.PayoutCurrency) (checkout.Quote, error) {
	if from == money.USD {
		return checkout.Quote{Rate: money.MustRate(r[0])}, nil
	}
	return checkout.Quote{Rate: money.MustRate(r[1])}, nil
}

// Also when the currency gains a hundredth until the signature. It is not much less either.
func TestMost_IsNeverMoreThanTheTreasuryPays(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	worth := func(at rates, from money.Currency, amount money.Amount) money.Amount {
		got, err := value(t.Context(), at, checkout.Payout{SourceCurrency: from, SourceAmount: amount})
		require.NoError(t, err)
		return got
	}
	for range 5000 {
		limit := money.Amount(100 + random.Int64N(10_000_000))
		limits := treasury.PayoutLimits{Payout: limit, MerchantDay: limit + money.Amount(random.Int64N(900)), Day: limit + 1}
		dollar, euro := 0.9+random.Float64()/5, 0.4+random.Float64()*2
		at := rates{fmt.Sprintf("%.12f", dollar), fmt.Sprintf("%.12f", euro)}
		most, err := Most(t.Context(), at, money.EUR, limits)
		require.NoError(t, err)
		later := rates{at[0], fmt.Sprintf("%.12f", euro*1.0099999)}
		require.LessOrEqual(t, worth(later, money.EUR, most), limit, at)
		require.Greater(t, worth(at, money.EUR, most+most/90+2), limit, at)

		most, err = Most(t.Context(), at, money.USD, limits)
		require.NoError(t, err)
		require.Equal(t, limit, most)
		require.Equal(t, limit, worth(at, money.USD, most))
	}
	most, err := Most(t.Context(), rates{"1", "1"}, money.USD, treasury.PayoutLimits{Payout: 500, MerchantDay: 400, Day: 300})
	require.NoError(t, err)
	require.EqualValues(t, 300, most, "no day has room for more")
}
