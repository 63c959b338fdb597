package app_test

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
)

// listedKey is a key in the output of key list --json, as deploy/release/README.md shows it.
type listedKey struct {
	ID         string   `json:"id"`
	MerchantID string   `json:"merchant_id"`
	Mode       string   `json:"mode"`
	Label      string   `json:"label"`
	Scopes     []string `json:"scopes"`
	Last4      string   `json:"last4"`
	CreatedAt  string   `json:"created_at"`
	UsedAt     *string  `json:"last_used_at"`
	RevokedAt  *string  `json:"revoked_at"`
}

func TestKeyCreate_PrintsAKeyThatWorksAloneOnStandardOutput(t *testing.T) {
	o := newOperator(t)
	mer, store := o.merchant(), o.store()
	for _, c := range []struct {
		args   []string // after key create
		prefix string
		scopes merchant.Scopes
	}{
		{[]string{mer, "--mode", "test", "--label", "server"}, "sk_test_", merchant.Scopes{"full"}},
		{[]string{"--mode=live", "--label=server", mer}, "sk_live_", merchant.Scopes{"full"}},
		{[]string{"--mode", "test", mer, "--scopes", "read", "--label", "Kasse 1 – Büro"}, "sk_test_", merchant.Scopes{"read"}},
		{[]string{mer, "--mode", "live", "--label", strings.Repeat("é", 100), "--scopes", "checkout:write, webhooks:read,checkout:write"},
			"sk_live_", merchant.Scopes{"checkout:write", "webhooks:read"}},
	} {
		out, notes, err := o.run(append([]string{"key", "create"}, c.args...)...)
		require.NoError(t, err)
		require.Regexp(t, "^"+c.prefix+"[0-9a-f]{64}\n$", out)
		require.Contains(t, notes, "it is not shown again")
		require.Regexp(t, "^key_[0-9a-z]{26} of "+mer, notes)
		caller, err := authenticate(t, store, strings.TrimSpace(out))
		require.NoError(t, err)
		require.Equal(t, mer, caller.Merchant.ID)
		require.Equal(t, c.scopes, caller.Key.Scopes)
	}
}

func TestKeyCreate_NeedsAMerchantThatThereIs(t *testing.T) {
	o := newOperator(t)
	unknown := checkout.NewID(checkout.PrefixMerchant)
	for _, call := range []string{
		"key create --mode test --label a", "key list", "key list --json", "merchant show", "merchant show --json",
	} {
		o.refused("there is no merchant "+unknown, append(strings.Fields(call), unknown)...)
	}
}

func TestKeyList_ShowsEveryKeyNewestFirst(t *testing.T) {
	o := newOperator(t)
	mer, other := o.merchant(), o.merchant()
	require.Equal(t, [][]string{{"ID", "MODE", "LABEL", "SCOPES", "LAST4", "CREATED", "LAST", "USED", "REVOKED"}}, words(o.must("key", "list", mer)))
	require.Equal(t, "[]\n", o.must("key", "list", mer, "--json"))

	first := strings.TrimSpace(o.must("key", "create", mer, "--mode", "test", "--label", "server"))
	time.Sleep(2 * time.Millisecond) // ids are in the order of their milliseconds
	second := strings.TrimSpace(o.must("key", "create", mer, "--mode", "live", "--label", "server", "--scopes", "read,payouts:read"))
	o.must("key", "create", other, "--mode", "test", "--label", "other")

	got := decode[[]listedKey](t, o.must("key", "list", "--json", mer))
	require.Len(t, got, 2)
	require.Equal(t, []string{second[68:], first[68:]}, []string{got[0].Last4, got[1].Last4})
	require.Equal(t, mer, got[0].MerchantID)
	require.Equal(t, "live", got[0].Mode)
	require.Equal(t, []string{"read", "payouts:read"}, got[0].Scopes)
	require.Regexp(t, `^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$`, got[0].CreatedAt)
	require.Nil(t, got[0].UsedAt)
	require.Nil(t, got[0].RevokedAt)

	table := words(o.must("key", "list", mer))
	require.Len(t, table, 3)
	require.Equal(t, []string{got[0].ID, "live", "server", "read,payouts:read", got[0].Last4}, table[1][:5])
	require.Equal(t, []string{"-", "-"}, table[1][6:], "neither used nor revoked")
}

func TestKeyRevoke_HoldsAtOnceAndIsSafeToRepeat(t *testing.T) {
	o := newOperator(t)
	mer, store := o.merchant(), o.store()
	key := strings.TrimSpace(o.must("key", "create", mer, "--mode", "live", "--label", "server"))
	_, err := authenticate(t, store, key)
	require.NoError(t, err)
	id := decode[[]listedKey](t, o.must("key", "list", mer, "--json"))[0].ID

	require.Contains(t, o.must("key", "revoke", id), "revoked "+id+` (live mode, label "server", …`+key[68:]+") of "+mer)
	_, err = authenticate(t, store, key)
	require.ErrorIs(t, err, checkout.ErrAPIKey)
	before := decode[[]listedKey](t, o.must("key", "list", mer, "--json"))[0]
	require.NotNil(t, before.UsedAt)
	require.NotNil(t, before.RevokedAt)

	require.Regexp(t, regexp.QuoteMeta(id)+` was already revoked at \d{4}-`, o.must("key", "revoke", id))
	require.Equal(t, before, decode[[]listedKey](t, o.must("key", "list", mer, "--json"))[0], "the first time stays")
	entries := o.audited(mer, checkout.ModeLive)
	require.Len(t, entries, 2)
	for i, action := range []string{"api_key.revoked", "api_key.created"} {
		require.Equal(t, []string{action, "operator"}, []string{entries[i].Action, entries[i].Actor})
		require.Contains(t, entries[i].Detail, key[68:])
		require.NotContains(t, entries[i].Detail, key[:20])
	}
	require.Equal(t, "“server”, ends in "+key[68:]+", may do everything", entries[1].Detail, "as for a key of the dashboard")
	unknown := checkout.NewID(checkout.PrefixAPIKey)
	o.refused("there is no key "+unknown, "key", "revoke", unknown)
}

func TestKeyList_ShowsWhatATerminalWouldActOn(t *testing.T) {
	o := newOperator(t)
	mer := o.merchant()
	// Use the store, because the command refuses this label.
	require.NoError(t, o.store().Merchants.CreateAPIKey(t.Context(), merchant.APIKey{
		Ref: checkout.Owner{MerchantID: mer, Mode: checkout.ModeTest}.Ref(checkout.NewID(checkout.PrefixAPIKey)), Label: "a\x1b[2J\tb",
	}, merchant.NewAPIKey(checkout.ModeTest)))
	require.Contains(t, o.must("key", "list", mer), "a\ufffd[2J\ufffdb")
}
