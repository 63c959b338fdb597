package merchant_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
	"example.com/checkout/workflows/money"
)

func TestCompareRisk_DisputesThenDebtThenPaymentsThenTheNewest(t *testing.T) {
	risk := func(id string, payments, disputed int, owed ...money.Amount) merchant.Risk {
		r := merchant.Risk{Merchant: merchant.Merchant{ID: id}, Payments: payments, Disputed: disputed}
		for _, amount := range owed {
			r.Balances = append(r.Balances, checkout.Balance{Owed: amount})
		}
		return r
	}
	want := []merchant.Risk{
		risk("no payments in the time", 0, 2), risk("half", 2, 1), risk("tenth", 100, 10, 500),
		risk("owes most", 1, 0, 100, 900), risk("owes", 50, 0, 300, 300), risk("many payments", 9, 0), risk("b", 1, 0), risk("a", 1, 0),
	}
	got := slices.Clone(want)
	slices.Reverse(got)
	slices.SortFunc(got, merchant.CompareRisk)
	require.Equal(t, want, got)
}
