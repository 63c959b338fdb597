package dashboard

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"

	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
)

const goodAddress = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"

func TestSettings_ChangeTellsBothModes(t *testing.T) {
	d := newDesk(t)
	owner := d.as(merchant.RoleOwner)
	started := map[string]bool{}
	d.temporal.Start = func(o client.StartWorkflowOptions) error {
		started[o.ID] = true
		return nil
	}
	change := []string{"name", "Café Ünïcode", "payment_attempts", "5", "order_id_guard", none}
	opened := owner.form("/test/settings", "/test/settings")
	got := opened.send(change...)
	require.Equal(t, "/test/settings settings_changed", got.to())
	m, err := d.store.Merchants.Merchant(t.Context(), d.merchant)
	require.NoError(t, err)
	require.Equal(t, "Café Ünïcode", m.Name)
	require.Equal(t, 5, m.PaymentAttempts)
	require.False(t, m.OrderIDGuard)
	require.Equal(t, 2, value[int](d, `SELECT count(*) FROM event WHERE type = 'merchant.updated' AND merchant_id = $1`, d.merchant))
	require.Len(t, started, 2)
	body := value[string](d, `SELECT convert_from(body, 'UTF8') FROM event WHERE mode = 'live'`)
	require.Contains(t, body, `"previous_attributes":{"name":"Shop","settings":{"payment_attempts":3,"order_id_guard":true}}`)
	require.Contains(t, body, `"changed":["name","settings"]`)
	require.Contains(t, owner.get("/live/audit").text(), "name: “Shop” → “Café Ünïcode”; failed payments that end a session: 3 → 5; refusal of a second session for an order: on → off")
	require.Contains(t, owner.get("/test/settings").text(), "Café Ünïcode")
	require.Equal(t, "standard", value[string](d, `SELECT plan FROM merchant WHERE id = $1`, d.other))

	require.Equal(t, "/test/settings nothing_changed", opened.send(change...).to(), "the same again")
	require.Equal(t, "/test/settings nothing_changed", owner.form("/test/settings", "/test/settings").send().to())
	require.Equal(t, 2, value[int](d, `SELECT count(*) FROM event`))
}

func TestSettings_AreChangedWhileTemporalIsAway(t *testing.T) {
	d := newDesk(t)
	d.temporal.Start = func(client.StartWorkflowOptions) error { return errors.New("away") }
	require.Equal(t, 303, d.as(merchant.RoleOwner).form("/test/settings", "/test/settings").send("name", "New").status)
	require.Equal(t, "New", value[string](d, `SELECT name FROM merchant WHERE id = $1`, d.merchant))
}

func TestSettings_RefuseWhatIsWrong(t *testing.T) {
	d := newDesk(t)
	owner := d.as(merchant.RoleOwner)
	form := owner.form("/test/settings", "/test/settings")
	for _, fields := range [][]string{
		{"name", ""}, {"name", "a\x01b"}, {"name", none},
		{"name", "a\u202eb"}, {"name", "a\xff"}, {"name", strings.Repeat("é", 101)}, {"payment_attempts", "0"}, {"payment_attempts", "11"}, {"payment_attempts", "many"}, {"payment_attempts", none},
	} {
		require.Equal(t, 422, form.send(fields...).status, fields)
	}
	require.Equal(t, 422, owner.post("/test/settings/payout", "address_BTC", "sandbox:"+strings.Repeat("a", 193)).status)
	require.Zero(t, value[int](d, `SELECT count(*) FROM event`))
}

func TestPayoutAddresses_ChangeNeedsTheWarningAndThePassword(t *testing.T) {
	d := newDesk(t)
	owner := d.as(merchant.RoleOwner)
	stored := func() string {
		return value[string](d, `SELECT coalesce(string_agg(mode || ' ' || currency || ' ' || address, ', ' ORDER BY mode, currency), '') FROM payout_address WHERE merchant_id = $1`, d.merchant)
	}
	before := stored()
	form := []string{"address_USDC", goodAddress, "address_BTC", "bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4"}
	opened := owner.form("/live/settings", "/live/settings/payout")
	asked := owner.follow(opened.send(form...))
	require.Contains(t, asked.text(), "Check every character.")
	require.Contains(t, asked.text(), goodAddress)
	require.Equal(t, before, stored(), "not yet")
	require.Equal(t, 422, owner.formOf(asked, "/live/settings/payout").send("password", "wrong").status)
	require.Equal(t, before, stored())
	require.Equal(t, 303, owner.formOf(asked, "/live/settings/payout").send("password", password).status)
	require.Equal(t, "live BTC bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4, live USDC "+goodAddress+", "+before, stored())
	require.Equal(t, 1, value[int](d, `SELECT count(*) FROM event WHERE mode = 'live'`))
	require.Zero(t, value[int](d, `SELECT count(*) FROM event WHERE mode = 'test'`), "of the one mode only")
	body := value[string](d, `SELECT convert_from(body, 'UTF8') FROM event`)
	require.Contains(t, body, `"previous_attributes":{"payout_addresses":[]}`)
	require.Contains(t, body, `"livemode":true`)

	opened = owner.form("/live/settings", "/live/settings/payout")
	wrong := opened.send("address_USDC", "0x123", "password", password)
	require.Equal(t, 422, wrong.status)
	require.Contains(t, wrong.text(), "40 hexadecimal digits")
	wrong = opened.send("address_USDC", "0x0000000000000000000000000000000000000001", "password", password)
	require.Contains(t, wrong.text(), "The address is below 0x10000, where the network's own contracts are")
	require.Equal(t, 422, opened.send("address_USDC", "sandbox:shop", "password", password).status)
	require.Equal(t, 303, opened.send("address_BTC", "", "password", password).status)
	require.Equal(t, "live USDC "+goodAddress+", "+before, stored(), "an empty one is removed")
	require.Equal(t, 403, d.as(merchant.RoleDeveloper).post("/live/settings/payout", append(form, "password", password)...).status)
}

func TestSettings_ShowWhatPeopleTypedAsText(t *testing.T) {
	d := newDesk(t)
	owner := d.as(merchant.RoleOwner)
	for _, payload := range payloads {
		got := owner.form("/test/settings", "/test/settings").send("name", payload, "payment_attempts", "x")
		require.Equal(t, 422, got.status)
		require.NotContains(t, got.body, payload)
		got = owner.post("/test/settings/payout", "address_BTC", payload)
		require.NotContains(t, got.body, payload)
		d.exec(`UPDATE merchant SET name = $2 WHERE id = $1`, d.merchant, payload)
		d.exec(`UPDATE payout_address SET address = $2 WHERE merchant_id = $1`, d.merchant, payload)
		require.NotContains(t, owner.get("/test/settings").body, payload)
		require.NotContains(t, owner.get("/test/members").body, payload)
	}
}

// payloads are texts that do harm on a page that does not escape them.
var payloads = []string{
	`<script>alert(1)</script>`, `"><img src=x onerror=alert(1)>`, `' onmouseover='alert(1)`, `</title><svg onload=alert(1)>`,
	`<iframe src=javascript:alert(1)>`, `"><a href="javascript:alert(1)">x</a>`, `{{.}}<b>`, `<style>*{display:none}</style>`,
	`--><script>alert(1)</script>`, `<math><mtext></form><form><mglyph><style></math><img src onerror=alert(1)>`, `\"><script>x</script>`, `<div hx-get="/signout" hx-trigger="load">`,
}

func TestPayoutAddresses_LiveModeRefusesReservedAddresses(t *testing.T) {
	d := newDesk(t, func(c *Config) { c.Addresses.Reserved = map[checkout.Mode][]string{checkout.ModeLive: {goodAddress}} })
	owner := d.as(merchant.RoleOwner)
	refused := owner.form("/live/settings", "/live/settings/payout").send("address_ETH", goodAddress, "password", password)
	require.Equal(t, 422, refused.status)
	require.Contains(t, refused.text(), "The address is the treasury's or a contract's")
	require.Zero(t, value[int](d, `SELECT count(*) FROM payout_address WHERE merchant_id = $1 AND mode = 'live'`, d.merchant))
	require.Equal(t, 303, owner.form("/test/settings", "/test/settings/payout").send("address_ETH", goodAddress, "password", password).status)
}

func TestPayoutAddresses_AChangedLiveOneWaitsAndAnyOwnerStopsIt(t *testing.T) {
	d := newDesk(t, func(c *Config) { c.AddressDelay = 24 * time.Hour })
	owner, second := d.as(merchant.RoleOwner), d.as(merchant.RoleOwner)
	stored := func() string {
		return value[string](d, `SELECT coalesce(max(address), '') FROM current_payout_address WHERE merchant_id = $1 AND mode = 'live' AND currency = 'ETH'`, d.merchant)
	}
	const other = "0x52908400098527886E0F7030069857D2E4169EE7"
	change := func(address string) received {
		d.exec(`DELETE FROM token_bucket`)
		asked := owner.form("/live/settings", "/live/settings/payout").send("address_ETH", address)
		return owner.formOf(asked, "/live/settings/payout").send("password", password)
	}
	require.Equal(t, "/live/settings settings_changed", change(goodAddress).to(), "a first one does not wait")
	require.Equal(t, goodAddress, stored())
	d.exec(`DELETE FROM mail`)
	asked := owner.form("/live/settings", "/live/settings/payout").send("address_ETH", other)
	require.Contains(t, owner.follow(asked).text(), "24 h after you confirm")
	require.Equal(t, "/live/settings address_announced", change(other).to())
	require.Equal(t, goodAddress, stored())
	require.Equal(t, 2, value[int](d, `SELECT count(*) FROM mail WHERE kind = 'address_asked' AND detail LIKE '%' || $1 || '%'`, other))
	shown := second.get("/live/settings")
	require.Contains(t, shown.text(), "ETH payouts go to "+"<code>"+other+"</code>"+" from <time datetime=")
	require.Contains(t, second.get("/live/").text(), "ETH payouts go to "+"<code>"+other+"</code>"+" from <time datetime=")
	require.NotContains(t, second.get("/test/settings").text()+second.get("/test/").text(), other)
	developer := d.as(merchant.RoleDeveloper)
	require.Contains(t, developer.get("/live/settings").text(), other)
	require.Equal(t, 403, developer.post("/live/settings/payout/stop", "currency", "ETH", "address", other).status)
	stop := second.formOf(shown, "/live/settings/payout/stop")
	require.Equal(t, "/live/settings address_stopped", stop.send().to())
	require.Equal(t, "/live/settings address_not_there", stop.send().to())
	require.NotContains(t, second.get("/live/settings").text(), other)
	log := second.get("/live/audit").text()
	require.Contains(t, log, "ETH: "+goodAddress+" → "+other+", from ")
	require.Contains(t, log, "ETH: "+goodAddress+" stays, not "+other)

	require.Equal(t, "/live/settings address_announced", change("").to(), "a removal waits too")
	require.Equal(t, goodAddress, stored())
	require.Contains(t, owner.get("/live/settings").text(), "ETH payouts go nowhere from")
	require.Equal(t, "/test/settings settings_changed", owner.formOf(owner.form("/test/settings", "/test/settings/payout").
		send("address_USDC", goodAddress), "/test/settings/payout").send("password", password).to(), "test mode does not wait")
}
