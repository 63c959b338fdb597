package app_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/checkout/deploy/program/app"
	"example.com/checkout/storage"
	"example.com/checkout/storage/pg"
	"example.com/checkout/storage/storagetest"
	"example.com/checkout/workflows/checkout"
)

// heldPayout is the payout of a live payment that the customer disputes.
func (o operator) heldPayout(store *storage.Store) checkout.Ref {
	o.t.Helper()
	ctx, owner := o.t.Context(), checkout.Owner{MerchantID: o.merchant(), Mode: checkout.ModeLive}
	s := storagetest.Session(o.t, store, owner)
	id := storagetest.Begin(o.t, store, s.Ref, storage.NewPayment{}, "pi_1")
	payout := owner.Ref(storagetest.Finish(o.t, store, s.Ref, id, storagetest.Succeeded).PayoutID)
	_, err := store.RecordRisks(ctx, checkout.ModeLive, storage.ChargeLook{Reference: "pi_1"}, []checkout.ChargeRisk{
		{ID: "du_1", Kind: checkout.RiskDispute, Status: checkout.RiskOpen, Amount: 1050, Currency: checkout.EUR},
	})
	require.NoError(o.t, err)
	p, err := store.Payout(ctx, payout)
	require.NoError(o.t, err)
	_, err = store.HoldPayout(ctx, p, checkout.HoldRisk, time.Hour)
	require.NoError(o.t, err)
	return payout
}

// withStore returns a store of the operator's database, and what runs a command with its settings.
func (o operator) withStore() (*storage.Store, func(command ...string) (string, error)) {
	o.t.Helper()
	store := o.store()
	return store, func(command ...string) (string, error) {
		var out, notes bytes.Buffer
		settings := []string{"DATABASE_URL=" + o.url, "CHECKOUT_MASTER_KEYS=" + o.db.MasterKeys}
		err := app.Main(o.t.Context(), command, settings, &out, &notes)
		return out.String(), err
	}
}

func TestFindingClose_KeepsTheReasonAndIsAudited(t *testing.T) {
	t.Parallel()
	o := newOperator(t)
	store, command := o.withStore()
	held := o.heldPayout(store)
	_, err := store.OpenFinding(t.Context(), checkout.Finding{
		Mode: checkout.ModeLive, Kind: checkout.FindingRefundFailed, Subject: "pi_1", Detail: "Refused.",
	})
	require.NoError(t, err)
	_, err = store.OpenFinding(t.Context(), checkout.Finding{
		Mode: checkout.ModeLive, Kind: checkout.FindingChargeUnknown, Subject: "pi_none", Detail: "Unknown.",
	})
	require.NoError(t, err)

	out, err := command("finding", "list")
	require.NoError(t, err)
	shown := words(out)
	require.Len(t, shown, 4)
	ids := map[string]string{} // by what the finding is about
	for _, row := range shown[1:] {
		ids[row[3]] = row[0]
	}
	for _, about := range []string{"du_1", "pi_1", "pi_none"} {
		_, err = command("finding", "close", ids[about])
		require.ErrorContains(t, err, "--reason is missing")
		out, err = command("finding", "close", ids[about], "--reason", "settled by hand")
		require.NoError(t, err)
		require.Contains(t, out, "is closed")
		_, err = command("finding", "close", ids[about], "--reason", "again")
		require.ErrorContains(t, err, "is already closed")
	}
	left, err := store.OpenFindings(t.Context(), checkout.ModeLive)
	require.NoError(t, err)
	require.Empty(t, left)
	_, err = command("finding", "close", checkout.NewID(checkout.PrefixFinding), "--reason", "x")
	require.ErrorContains(t, err, "there is no finding")

	entries, err := store.AuditEntries(t.Context(), held.Owner, pg.Page{Limit: 10})
	require.NoError(t, err)
	require.Len(t, entries, 2, "the unknown charge has no merchant")
	require.Equal(t, []string{"finding.closed", ids["du_1"], "charge_disputed of du_1"},
		[]string{entries[1].Action, entries[1].Subject, entries[1].Detail})
}

func TestPayoutRelease_IsAudited(t *testing.T) {
	t.Parallel()
	o := newOperator(t)
	store, command := o.withStore()
	payout := func(args ...string) (string, error) { return command(append([]string{"payout"}, args...)...) }

	held := o.heldPayout(store)
	out, err := payout("show", held.ID)
	require.NoError(t, err)
	shown := words(out)
	require.Contains(t, shown[1], "risk")
	require.Equal(t, []string{"du_1", "dispute", "open", "10.50", "EUR"}, shown[len(shown)-1])

	out, err = payout("release", held.ID)
	require.NoError(t, err)
	require.Contains(t, out, "is released")
	entries, err := store.AuditEntries(t.Context(), held.Owner, pg.Page{Limit: 10})
	require.NoError(t, err)
	require.Equal(t, "payout.released", entries[0].Action)
	require.Equal(t, held.ID, entries[0].Subject)
	require.Equal(t, "operator", entries[0].Actor)

	p, err := store.Payout(t.Context(), held)
	require.NoError(t, err)
	_, err = store.HoldPayout(t.Context(), p, checkout.HoldFloat, time.Hour)
	require.NoError(t, err)
	_, err = payout("release", held.ID)
	require.ErrorContains(t, err, "is not held for risk or size")
	_, err = store.HoldPayout(t.Context(), p, checkout.HoldLarge, time.Hour)
	require.NoError(t, err)
	_, err = payout("release", held.ID)
	require.NoError(t, err)
	entries, err = store.AuditEntries(t.Context(), held.Owner, pg.Page{Limit: 10})
	require.NoError(t, err)
	require.Equal(t, []string{"payout.released", "it was held: large"}, []string{entries[0].Action, entries[0].Detail})
	_, err = store.HoldPayout(t.Context(), p, checkout.HoldUnsettled, time.Hour)
	require.NoError(t, err)
	out, err = payout("show", held.ID)
	require.NoError(t, err)
	require.Contains(t, words(out)[1], "unsettled")
	all, err := command("treasury", "show")
	require.NoError(t, err)
	require.Contains(t, all, "HELD")
	require.Regexp(t, `unsettled +1 +20`, all)
	require.Regexp(t, `LEDGER +ASSET +AMOUNT`, all)
	require.Regexp(t, `acquirer:disputed +EUR +10\.50\n`, all)
	require.Regexp(t, `merchant:payable +EUR +-10\.39\n`, all)
	none := checkout.NewID(checkout.PrefixPayout)
	for _, action := range []string{"release", "show"} {
		_, err = payout(action, none)
		require.ErrorContains(t, err, "there is no payout "+none)
	}
}
