package storage_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/checkout/storage"
	"example.com/checkout/storage/pgtemp"
	"example.com/checkout/workflows/checkout"
)

// TestSetCell_OnlyBeforeTheFirstMerchant does not run beside other tests: the cell belongs to the
// whole process.
func TestSetCell_OnlyBeforeTheFirstMerchant(t *testing.T) { //nolint:paralleltest // see above
	t.Cleanup(func() { checkout.SetCell(checkout.FirstCell) })
	url := pgtemp.ForTest(t, storage.Migrate)
	open := func() *storage.Accounts {
		accounts, err := storage.OpenAccounts(t.Context(), storage.Options{URL: url})
		require.NoError(t, err)
		t.Cleanup(accounts.Close)
		return accounts
	}
	accounts := open()
	require.ErrorContains(t, accounts.SetCell(t.Context(), "0i"), `the cell "0i" must be two of the characters`)
	require.NoError(t, accounts.SetCell(t.Context(), "7z"))

	accounts = open()
	merchant := checkout.Merchant{ID: checkout.NewID(checkout.PrefixMerchant), Name: "Seven", Plan: "standard", PaymentAttempts: 3}
	cell, ok := checkout.CellOf(merchant.ID)
	require.True(t, ok)
	require.EqualValues(t, "7z", cell)
	require.NoError(t, accounts.CreateMerchant(t.Context(), merchant, checkout.ModeTest, nil))
	require.NoError(t, accounts.SetCell(t.Context(), "7z"), "the same again")
	require.ErrorContains(t, accounts.SetCell(t.Context(), "00"), "the cell cannot change: a merchant is there")
}
