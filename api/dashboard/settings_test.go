package dashboard

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"

	"example.com/checkout/storage/storagetest/must"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
)

const goodAddress = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"

func TestSettings_ChangeTellsBothModes(t *testing.T) {
	d, owner := newDeskAs(t, merchant.RoleOwner)
	started := map[string]bool{}
	d.temporal.Start = func(o client.StartWorkflowOptions) error {
		started[o.ID] = true
		return nil
	}
	change := []string{"name", "Café Ünïcode", "payment_attempts", "5", "order_id_guard", none}
	opened := owner.form("/test/settings", "/test/settings")
	opened.send(change...).leads("/test/settings settings_changed")
	m := must.Get(d.store.Merchants.Merchant(t.Context(), d.merchant))(t)
	require.Equal(t, "Café Ünïcode", m.Name)
	require.Equal(t, 5, m.PaymentAttempts)
	require.False(t, m.OrderIDGuard)
	require.Equal(t, 2, value[int](d, `SELECT count(*) FROM event WHERE type = 'merchant.updated' AND merchant_id = $1`, d.merchant))
	require.Len(t, started, 2)
	body := value[string](d, `SELECT convert_from(body, 'UTF8') FROM event WHERE mode = 'live'`)
	require.Contains(t, body, `"previous_attributes":{"name":"Shop","settings":{"payment_attempts":3,"order_id_guard":true}}`)
	require.Contains(t, body, `"changed":["name","settings"]`)
	owner.get("/live/audit").shows("name: “Shop” → “Café Ünïcode”; failed payments that end a session: 3 → 5; refusal of a second session for an order: on → off")
	owner.get("/test/settings").shows("Café Ünïcode")
	require.Equal(t, "standard", value[string](d, `SELECT plan FROM merchant WHERE id = $1`, d.other))

	opened.send(change...).leads("/test/settings nothing_changed") // the same again
	owner.form("/test/settings", "/test/settings").send().leads("/test/settings nothing_changed")
	require.Equal(t, 2, value[int](d, `SELECT count(*) FROM event`))
}

func TestSettings_AreChangedWhileTemporalIsAway(t *testing.T) {
	d := newDesk(t)
	d.temporal.Start = func(client.StartWorkflowOptions) error { return errors.New("away") }
	d.as(merchant.RoleOwner).form("/test/settings", "/test/settings").send("name", "New").is(303)
	require.Equal(t, "New", value[string](d, `SELECT name FROM merchant WHERE id = $1`, d.merchant))
}

func TestSettings_RefuseWhatIsWrong(t *testing.T) {
	d, owner := newDeskAs(t, merchant.RoleOwner)
	form := owner.form("/test/settings", "/test/settings")
	for _, fields := range [][]string{
		{"name", ""}, {"name", "a\x01b"}, {"name", none},
		{"name", "a\u202eb"}, {"name", "a\xff"}, {"name", strings.Repeat("é", 101)}, {"payment_attempts", "0"}, {"payment_attempts", "11"}, {"payment_attempts", "many"}, {"payment_attempts", none},
	} {
		form.send(fields...).is(422, fields)
	}
	owner.post("/test/settings/payout", "address_BTC", "sandbox:"+strings.Repeat("a", 193)).is(422)
	require.Zero(t, value[int](d, `SELECT count(*) FROM event`))
}

func TestPayoutAddresses_ChangeNeedsTheWarningAndThePassword(t *testing.T) {
	d, owner := newDeskAs(t, merchant.RoleOwner)
	stored := func() string {
		return value[string](d, `SELECT coalesce(string_agg(mode || ' ' || currency || ' ' || address, ', ' ORDER BY mode, currency), '') FROM payout_address WHERE merchant_id = $1`, d.merchant)
	}
	before := stored()
	form := []string{"address_USDC", goodAddress, "address_BTC", "bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4"}
	opened := owner.form("/live/settings", "/live/settings/payout")
	asked := owner.follow(opened.send(form...)).shows("Check every character.", goodAddress)
	require.Equal(t, before, stored(), "not yet")
	owner.formOf(asked, "/live/settings/payout").send("password", "wrong").is(422)
	require.Equal(t, before, stored())
	owner.formOf(asked, "/live/settings/payout").send("password", password).is(303)
	require.Equal(t, "live BTC bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4, live USDC "+goodAddress+", "+before, stored())
	require.Equal(t, 1, value[int](d, `SELECT count(*) FROM event WHERE mode = 'live'`))
	require.Zero(t, value[int](d, `SELECT count(*) FROM event WHERE mode = 'test'`), "of the one mode only")
	body := value[string](d, `SELECT convert_from(body, 'UTF8') FROM event`)
	require.Contains(t, body, `"previous_attributes":{"payout_addresses":[]}`)
	require.Contains(t, body, `"livemode":true`)

	opened = owner.form("/live/settings", "/live/settings/payout")
	opened.send("address_USDC", "0x123", "password", password).is(422).shows("40 hexadecimal digits")
	wrong := opened.send("address_USDC", "0x0000000000000000000000000000000000000001", "password", password)
	wrong.shows("The address is below 0x10000, where the network's own contracts are")
	opened.send("address_USDC", "sandbox:shop", "password", password).is(422)
	opened.send("address_BTC", "", "password", password).is(303)
	require.Equal(t, "live USDC "+goodAddress+", "+before, stored(), "an empty one is removed")
	d.as(merchant.RoleDeveloper).post("/live/settings/payout", append(form, "password", password)...).is(403)
}

func TestPayoutAddresses_LiveModeRefusesReservedAddresses(t *testing.T) {
	d, owner := newDeskAs(t, merchant.RoleOwner, func(c *Config) { c.Addresses.Reserved = map[checkout.Mode][]string{checkout.ModeLive: {goodAddress}} })
	refused := owner.form("/live/settings", "/live/settings/payout").send("address_ETH", goodAddress, "password", password)
	refused.is(422).shows("The address is the treasury's or a contract's")
	require.Zero(t, value[int](d, `SELECT count(*) FROM payout_address WHERE merchant_id = $1 AND mode = 'live'`, d.merchant))
	owner.form("/test/settings", "/test/settings/payout").send("address_ETH", goodAddress, "password", password).is(303)
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
	change(goodAddress).leads("/live/settings settings_changed") // a first one does not wait
	require.Equal(t, goodAddress, stored())
	d.exec(`DELETE FROM mail`)
	asked := owner.form("/live/settings", "/live/settings/payout").send("address_ETH", other)
	owner.follow(asked).shows("24 h after you confirm")
	change(other).leads("/live/settings address_announced")
	require.Equal(t, goodAddress, stored())
	require.Equal(t, 2, value[int](d, `SELECT count(*) FROM mail WHERE kind = 'address_asked' AND detail LIKE '%' || $1 || '%'`, other))
	const announced = "ETH payouts go to <code>" + other + "</code> from <time datetime="
	shown := second.get("/live/settings").shows(announced)
	second.get("/live/").shows(announced)
	second.get("/test/settings").hides(other)
	second.get("/test/").hides(other)
	developer := d.as(merchant.RoleDeveloper)
	developer.get("/live/settings").shows(other)
	developer.post("/live/settings/payout/stop", "currency", "ETH", "address", other).is(403)
	stop := second.formOf(shown, "/live/settings/payout/stop")
	stop.send().leads("/live/settings address_stopped")
	stop.send().leads("/live/settings address_not_there") // a second click
	second.get("/live/settings").hides(other)
	second.get("/live/audit").shows("ETH: "+goodAddress+" → "+other+", from ", "ETH: "+goodAddress+" stays, not "+other)

	change("").leads("/live/settings address_announced") // a removal waits too
	require.Equal(t, goodAddress, stored())
	owner.get("/live/settings").shows("ETH payouts go nowhere from")
	require.Equal(t, "/test/settings settings_changed", owner.formOf(owner.form("/test/settings", "/test/settings/payout").
		send("address_USDC", goodAddress), "/test/settings/payout").send("password", password).to(), "test mode does not wait")
}
