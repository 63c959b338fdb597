package app_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/checkout/storage"
	"example.com/checkout/storage/storagetest"
	"example.com/checkout/workflows/books"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/money"
)

// heldPayout is the payout of a live payment that the customer disputes.
func (o operator) heldPayout(store *storage.Store) checkout.Ref {
	ctx, owner := o.t.Context(), checkout.Owner{MerchantID: o.merchant(), Mode: checkout.ModeLive}
	s := storagetest.Session(o.t, store, owner)
	id := storagetest.Begin(o.t, store, s.Ref, storage.NewPayment{}, "pi_1")
	payout := owner.Ref(storagetest.Finish(o.t, store, s.Ref, id, storagetest.Succeeded).PayoutID)
	_, err := store.Books.RecordRisks(ctx, checkout.ModeLive, storage.ChargeToCheck{Reference: "pi_1"}, []books.ChargeRisk{
		{ID: "du_1", Kind: books.RiskDispute, Status: books.RiskOpen, Amount: 1050, Currency: money.EUR},
	})
	require.NoError(o.t, err)
	p, err := store.Payouts.Payout(ctx, payout)
	require.NoError(o.t, err)
	_, err = store.Payouts.HoldPayout(ctx, p, checkout.HoldRisk, time.Hour)
	require.NoError(o.t, err)
	return payout
}

func TestFindingClose_KeepsTheReasonAndIsAudited(t *testing.T) {
	o := newOperator(t)
	store := o.store()
	held := o.heldPayout(store)
	o = o.withKeys()
	for kind, subject := range map[books.FindingKind]string{books.FindingRefundFailed: "pi_1", books.FindingChargeUnknown: "pi_none"} {
		_, err := store.Books.OpenFinding(t.Context(), books.Finding{Mode: checkout.ModeLive, Kind: kind, Subject: subject})
		require.NoError(t, err)
	}

	shown := words(o.must("finding", "list"))
	require.Len(t, shown, 4)
	ids := map[string]string{} // by what the finding is about
	for _, row := range shown[1:] {
		ids[row[3]] = row[0]
	}
	for _, about := range []string{"du_1", "pi_1", "pi_none"} {
		o.refused("--reason is missing", "finding", "close", ids[about])
		require.Contains(t, o.must("finding", "close", ids[about], "--reason", "settled by hand"), "is closed")
		o.refused("is already closed", "finding", "close", ids[about], "--reason", "again")
	}
	left, err := store.Books.OpenFindings(t.Context(), checkout.ModeLive)
	require.NoError(t, err)
	require.Empty(t, left)
	o.refused("there is no finding", "finding", "close", checkout.NewID(checkout.PrefixFinding), "--reason", "x")

	entries := o.audited(held.MerchantID, checkout.ModeLive)
	require.Len(t, entries, 2, "the unknown charge has no merchant")
	require.Equal(t, []string{"finding.closed", ids["du_1"], "charge_disputed of du_1"},
		[]string{entries[1].Action, entries[1].Subject, entries[1].Detail})
}

func TestPayoutRelease_IsAudited(t *testing.T) {
	o := newOperator(t)
	store := o.store()
	held := o.heldPayout(store)
	o = o.withKeys()
	shown := words(o.must("payout", "show", held.ID))
	require.Contains(t, shown[1], "risk")
	require.Equal(t, []string{"du_1", "dispute", "open", "10.50", "EUR"}, shown[len(shown)-1])

	require.Contains(t, o.must("payout", "release", held.ID), "is released")
	entries := o.audited(held.MerchantID, checkout.ModeLive)
	require.Equal(t, "payout.released", entries[0].Action)
	require.Equal(t, held.ID, entries[0].Subject)
	require.Equal(t, "operator", entries[0].Actor)

	p, err := store.Payouts.Payout(t.Context(), held)
	require.NoError(t, err)
	_, err = store.Payouts.HoldPayout(t.Context(), p, checkout.HoldFloat, time.Hour)
	require.NoError(t, err)
	o.refused("is not held for risk or size", "payout", "release", held.ID)
	_, err = store.Payouts.HoldPayout(t.Context(), p, checkout.HoldLarge, time.Hour)
	require.NoError(t, err)
	o.must("payout", "release", held.ID)
	entries = o.audited(held.MerchantID, checkout.ModeLive)
	require.Equal(t, []string{"payout.released", "it was held: large"}, []string{entries[0].Action, entries[0].Detail})
	_, err = store.Payouts.HoldPayout(t.Context(), p, checkout.HoldUnsettled, time.Hour)
	require.NoError(t, err)
	require.Contains(t, words(o.must("payout", "show", held.ID))[1], "unsettled")
	all := o.must("treasury", "show")
	require.Contains(t, all, "HELD")
	require.Regexp(t, `unsettled +1 +20`, all)
	require.Regexp(t, `LEDGER +ASSET +AMOUNT`, all)
	require.Regexp(t, `acquirer:disputed +EUR +10\.50\n`, all)
	require.Regexp(t, `merchant:disputed +EUR +-10\.50\n`, all)
	require.Regexp(t, `merchant:payable +EUR +0\.11\n`, all)
	none := checkout.NewID(checkout.PrefixPayout)
	for _, action := range []string{"release", "show"} {
		o.refused("there is no payout "+none, "payout", action, none)
	}
}
