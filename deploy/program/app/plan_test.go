package app_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/checkout/storage"
	"example.com/checkout/storage/pg"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/webhook"
)

func TestMerchantPlan_ChangesTheFeeAndTellsTheMerchant(t *testing.T) {
	o := newOperator(t)
	id, store := o.merchant(), o.store()
	require.Contains(t, o.must("merchant", "plan", id, "growth"), "0.80 % of each payment; its webhooks get")
	got := decode[shownMerchant](t, o.must("merchant", "show", id, "--json"))
	require.Equal(t, "growth", got.Plan)
	require.Equal(t, 80, got.Fee)
	for _, mode := range []checkout.Mode{checkout.ModeTest, checkout.ModeLive} {
		events, err := store.Webhooks.Events(t.Context(), checkout.Owner{MerchantID: id, Mode: mode}, storage.EventFilter{Type: webhook.MerchantUpdated}, pg.Page{Limit: 10})
		require.NoError(t, err)
		require.Len(t, events, 1)
		require.Contains(t, string(events[0].Body), `"previous_attributes":{"plan":"standard"}`)
	}
	require.Contains(t, o.must("merchant", "plan", id, "growth"), "unchanged")
	require.Contains(t, o.must("merchant", "plan", id, "of their own", "--fee-basis-points", "65"), "0.65 %")
	entries := o.audited(id, checkout.ModeLive)
	require.Len(t, entries, 2)
	require.Equal(t, "operator", entries[1].Actor)
	require.Equal(t, "plan: standard (1.00 %) → growth (0.80 %)", entries[1].Detail)

	o.must("merchant", "plan", id, "fixed", "--fee-basis-points", "290", "--fee-fixed", "0.30")
	require.Contains(t, o.must("merchant", "plan", id, "fixed", "--fee-basis-points", "290", "--fee-fixed", "0.25"), "2.90 % + 0.25 of each payment; its webhooks get merchant.updated")
	require.Contains(t, o.must("merchant", "plan", id, "fixed", "--fee-basis-points", "290", "--fee-fixed", "0.25"), "unchanged")
	require.Regexp(t, `(?m)^fee +2\.90 % \+ 0\.25$`, o.must("merchant", "show", id))
	got = decode[shownMerchant](t, o.must("merchant", "show", id, "--json"))
	require.Equal(t, 290, got.Fee)
	require.Equal(t, json.Number("0.25"), got.FeeFixed)
	require.Equal(t, "plan: fixed (2.90 % + 0.30) → fixed (2.90 % + 0.25)", o.audited(id, checkout.ModeLive)[0].Detail)
	require.Contains(t, o.must("merchant", "plan", id, "growth", "--fee-fixed", "0"), "0.80 % of each payment;")

	for _, fixed := range []string{"-0.30", "0.305", "100.01", "0,30", "1e1", ""} {
		o.refused("must be from 0.00 to 100.00, with at most 2 decimals", "merchant", "plan", id, "theirs", "--fee-basis-points", "290", "--fee-fixed", fixed)
	}
	for call, want := range map[string]string{
		id + " growth --fee-fixed 0.30":       "another fee needs another name",
		id + " growth --fee-basis-points 1":   "another fee needs another name",
		id + " theirs --fee-fixed 0.30":       "needs --fee-basis-points",
		id + " free":                          "needs --fee-basis-points",
		id + " free --fee-basis-points 10001": "needs --fee-basis-points",
		id:                                    "the plan is missing",
		"shop growth":                         "not a valid id: expected mer_ and 26 characters",
		checkout.NewID(checkout.PrefixMerchant) + " growth": "there is no merchant",
	} {
		o.refused(want, append([]string{"merchant", "plan"}, strings.Fields(call)...)...)
	}
}
