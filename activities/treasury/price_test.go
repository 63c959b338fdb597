package treasury

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/checkout/workflows/checkout"
)

// rates are quotes of US dollars and of another currency, to USDC.
type rates [2]string

func (r rates) Quote(_ context.Context, from checkout.Currency, _ checkout.PayoutCurrency) (checkout.Quote, error) {
	if from == checkout.USD {
		return checkout.Quote{Rate: checkout.MustRate(r[0])}, nil
	}
	return checkout.Quote{Rate: checkout.MustRate(r[1])}, nil
}

// TestMost_IsNeverMoreThanTheTreasuryPays: also when the currency gains a hundredth until the signature. It is
// not much less either.
func TestMost_IsNeverMoreThanTheTreasuryPays(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	worth := func(at rates, from checkout.Currency, amount checkout.Amount) checkout.Amount {
		got, err := value(t.Context(), at, checkout.Payout{SourceCurrency: from, SourceAmount: amount})
		require.NoError(t, err)
		return got
	}
	for range 5000 {
		limit := checkout.Amount(100 + random.Int64N(10_000_000))
		limits := checkout.PayoutLimits{Payout: limit, MerchantDay: limit + checkout.Amount(random.Int64N(900)), Day: limit + 1}
		dollar, euro := 0.9+random.Float64()/5, 0.4+random.Float64()*2
		at := rates{fmt.Sprintf("%.12f", dollar), fmt.Sprintf("%.12f", euro)}
		most, err := Most(t.Context(), at, checkout.EUR, limits)
		require.NoError(t, err)
		later := rates{at[0], fmt.Sprintf("%.12f", euro*1.0099999)}
		require.LessOrEqual(t, worth(later, checkout.EUR, most), limit, at)
		require.Greater(t, worth(at, checkout.EUR, most+most/90+2), limit, at)

		most, err = Most(t.Context(), at, checkout.USD, limits)
		require.NoError(t, err)
		require.Equal(t, limit, most)
		require.Equal(t, limit, worth(at, checkout.USD, most))
	}
	most, err := Most(t.Context(), rates{"1", "1"}, checkout.USD, checkout.PayoutLimits{Payout: 500, MerchantDay: 400, Day: 300})
	require.NoError(t, err)
	require.EqualValues(t, 300, most, "no day has room for more")
}
