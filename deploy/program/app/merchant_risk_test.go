package app_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/checkout/storage"
	"example.com/checkout/storage/storagetest"
	"example.com/checkout/workflows/books"
	"example.com/checkout/workflows/checkout"
)

func TestMerchantList_BeginsWithTheHighestRisk(t *testing.T) {
	o := newOperator(t)
	require.Equal(t, "[]\n", o.must("merchant", "list", "--json"))
	risky := o.merchant()
	time.Sleep(2 * time.Millisecond) // ids are in the order of their milliseconds
	second := o.merchant()
	time.Sleep(2 * time.Millisecond)
	newest := o.merchant()
	store := o.store()
	s := storagetest.Session(t, store, checkout.Owner{MerchantID: risky, Mode: checkout.ModeLive})
	id := storagetest.Begin(t, store, s.Ref, storage.NewPayment{}, "")
	storagetest.Finish(t, store, s.Ref, id, storagetest.Succeeded)
	_, err := store.Books.RecordRisks(t.Context(), checkout.ModeLive, storage.ChargeToCheck{Reference: id}, []books.ChargeRisk{
		{ID: "du_1", Kind: books.RiskDispute, Status: books.RiskLost, Amount: 2000, Currency: "EUR"},
	})
	require.NoError(t, err)

	require.Equal(t, [][]string{
		{"ID", "NAME", "PLAN", "PAYMENTS", "VOLUME", "DISPUTED", "REFUNDED", "OWES", "PENDING", "AVAILABLE", "RESERVED", "SUSPENDED"},
		{risky, "Shop", "standard", "1", "10.50", "EUR", "100.00", "%", "0.00", "%", "9.61", "EUR", "-", "-", "-", "-"},
		{newest, "Shop", "standard", "0", "-", "0.00", "%", "0.00", "%", "-", "-", "-", "-", "-"},
		{second, "Shop", "standard", "0", "-", "0.00", "%", "0.00", "%", "-", "-", "-", "-", "-"},
	}, words(o.must("merchant", "list")))
	require.Equal(t, newest, words(o.must("merchant", "list", "--mode", "test"))[1][0])

	listed := decode[[]map[string]any](t, o.must("merchant", "list", "--json"))[0]
	want := map[string]any{
		"mode": "live", "payments": 1.0, "volume": []any{map[string]any{"currency": "EUR", "amount": 10.5}},
		"disputed": 1.0, "disputed_percent": 100.0, "refunded": 0.0, "refunded_percent": 0.0,
		"balances": []any{map[string]any{"currency": "EUR", "pending": 0.0, "available": 0.0, "reserved": 0.0, "owed": 9.61}},
	}
	shown := decode[map[string]any](t, o.must("merchant", "show", risky, "--json"))
	for key, value := range want {
		require.Equal(t, []any{value, value}, []any{listed[key], shown[key]}, key)
	}
	text := o.must("merchant", "show", risky)
	require.Regexp(t, `(?m)^disputed in 30 days, live mode +1 \(100\.00 %\)$`, text)
	require.Regexp(t, `(?m)^owes, live mode +9\.61 EUR$`, text)
}
