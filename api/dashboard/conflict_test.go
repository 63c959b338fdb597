package dashboard

import (
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/checkout/workflows/merchant"
	"example.com/checkout/workflows/webhook"
)

const (
	oldBitcoin = "bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4"
	newBitcoin = "1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa"
)

// addresses are what is stored for live mode.
func (d *desk) addresses() string {
	return value[string](d, `SELECT coalesce(string_agg(currency || ' ' || address, ', ' ORDER BY currency), '') FROM payout_address WHERE merchant_id = $1 AND mode = 'live'`, d.merchant)
}

func TestTwoTabs_OnePutsNoOldPayoutAddressBack(t *testing.T) {
	d := newDesk(t)
	d.exec(`INSERT INTO payout_address VALUES ($1, 'live', 'BTC', 'bitcoin', $2)`, d.merchant, oldBitcoin)
	owner := d.as(merchant.RoleOwner)
	const path = "/live/settings/payout"
	a, b := owner.form("/live/settings", path), owner.form("/live/settings", path)
	b.send("address_BTC", newBitcoin, "password", password).is(303)
	require.Equal(t, "BTC "+newBitcoin, d.addresses())
	a.send("address_USDC", goodAddress, "password", password).is(303)
	require.Equal(t, "BTC "+newBitcoin+", USDC "+goodAddress, d.addresses(), "only what was changed in the tab is written")

	lost := a.send("address_BTC", "", "password", password).is(409).shows("Someone else changed this in the meantime")
	lost.shows(newBitcoin) // what it is now
	require.Equal(t, "BTC "+newBitcoin+", USDC "+goodAddress, d.addresses())

	// Another person changes the address after the warning and before the password.
	asked := owner.follow(owner.form("/live/settings", path).send("address_BTC", oldBitcoin))
	owner.form("/live/settings", path).send("address_BTC", "", "password", password).is(303)
	owner.formOf(asked, path).send("password", password).is(409)
	require.Equal(t, "USDC "+goodAddress, d.addresses())
}

func TestTwoTabs_OneOverwritesNoSettings(t *testing.T) {
	d, owner := newDeskAs(t, merchant.RoleOwner)
	const path = "/test/settings"
	a, b, c := owner.form(path, path), owner.form(path, path), owner.form(path, path)
	a.send("name", "From a").is(303)
	b.send("payment_attempts", "7").is(303)
	stored := func() string {
		return value[string](d, `SELECT name || ' ' || payment_attempts || ' ' || order_id_guard FROM merchant WHERE id = $1`, d.merchant)
	}
	require.Equal(t, "From a 7 true", stored())
	lost := c.send("name", "From c", "order_id_guard", none).is(409).shows("You had entered “From c”")
	require.Equal(t, "From a 7 true", stored(), "all or nothing")
	again := owner.formOf(lost, path)
	require.Equal(t, "From a", again.fields.Get("name"), "what it is now")
	require.False(t, again.fields.Has("order_id_guard"), "what was typed stays where nobody else was")
	again.send("name", "From c").is(303)
	require.Equal(t, "From c 7 false", stored())

	d.exec(`UPDATE merchant SET name = 'From b' WHERE id = $1`, d.merchant)
	refused := a.send("name", "").is(422)
	owner.formOf(refused, path).send("name", "From a again").is(409) // a refused form knows what it showed at first
}

func TestTwoTabs_OneOverwritesNoWebhook(t *testing.T) {
	s := plainSender(t)
	dev, at := s.as(merchant.RoleDeveloper), "/test/webhooks/"+s.endpoint.ID
	a, b, c := dev.form(at+"/edit", at), dev.form(at+"/edit", at), dev.form(at+"/edit", at)
	a.send("url", "https://a.example/").is(303)
	b.send("events", "payout.failed").is(303)
	e := s.stored()
	require.Equal(t, "https://a.example/", e.URL, "the other tab's stays")
	require.Equal(t, []webhook.EventType{webhook.PayoutFailed}, e.Events)
	lost := c.send("url", "https://c.example/", "description", "From c")
	lost.is(409).shows("You had entered “https://c.example/”")
	e = s.stored()
	require.Equal(t, "Orders", *e.Description)
	again := dev.formOf(lost, at)
	require.Equal(t, "https://a.example/", again.fields.Get("url"))
	require.Equal(t, "From c", again.fields.Get("description"))
	again.send().is(303)
	dev.form(at+"/edit", at).send().leads(at + " nothing_changed")
}

// The form came back with the stored values, and what the person had typed was lost.
func TestTwoTabs_AConflictOfTheBrandKeepsWhatWasTyped(t *testing.T) {
	d, owner := newDeskAs(t, merchant.RoleOwner)
	const path = "/test/settings/brand"
	a, b := owner.form("/test/settings", path), owner.form("/test/settings", path)
	a.send("color", "#aaaaaa", "default_color", none, "support", "a@shop.example").is(303)
	b.send().leads("/test/settings nothing_changed") // a form without a change
	lost := b.send("color", "#bbbbbb", "default_color", none, "support", "b@shop.example",
		"terms_url", "https://shop.example/terms", "receipts", "on")
	lost.is(409)
	require.Equal(t, "#aaaaaa", value[string](d, `SELECT brand_color FROM merchant WHERE id = $1`, d.merchant))
	lost.shows("You had entered “#bbbbbb”", "You had entered “b@shop.example”")

	again := owner.formOf(lost, path)
	require.Equal(t, "#aaaaaa", again.fields.Get("color"), "what it is now")
	require.Equal(t, "a@shop.example", again.fields.Get("support"))
	require.Equal(t, "https://shop.example/terms", again.fields.Get("terms_url"), "what was typed stays where nobody else was")
	require.True(t, again.fields.Has("receipts"))
	again.send("color", "#bbbbbb").is(303)
	require.Equal(t, "#bbbbbb a@shop.example https://shop.example/terms t", value[string](d,
		`SELECT concat_ws(' ', brand_color, support, terms_url, receipts) FROM merchant WHERE id = $1`, d.merchant))
}

func TestPlan_IsShownAndNotTheOwnersToChoose(t *testing.T) {
	d, owner := newDeskAs(t, merchant.RoleOwner)
	owner.get("/test/settings").shows("Plan: <strong>Standard</strong>, 1.00 % of each payment. ")
	d.exec(`UPDATE merchant SET fee_fixed = 30 WHERE id = $1`, d.merchant)
	owner.get("/test/settings").shows("1.00 % + 0.30 of each payment; the 0.30 is in the payment’s currency. ")
	form := owner.form("/test/settings", "/test/settings")
	require.NotContains(t, form.fields, "plan")
	form.send("plan", "growth", "name", "New")
	require.Equal(t, "New standard 100", value[string](d, `SELECT name || ' ' || plan || ' ' || fee_basis_points FROM merchant WHERE id = $1`, d.merchant))
}
