package dashboard

import (
	"encoding/xml"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/checkout/storage"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
	"example.com/checkout/workflows/money"
	"example.com/checkout/workflows/webhook"
)

func TestHome_CountsWhatIsTheMerchantsAndTheModes(t *testing.T) {
	d, viewer := newDeskAs(t, merchant.RoleViewer)
	viewer.get("/test/").shows("Nothing has happened here yet")

	free := func(s *checkout.Session) { s.Metadata = []byte(`{}`) }
	d.pay(d.newSession(d.merchant, checkout.ModeTest, free), "")
	d.pay(d.newSession(d.merchant, checkout.ModeTest, free), "")
	d.pay(d.newSession(d.merchant, checkout.ModeTest, free), checkout.FailureFraudBlocked)
	d.pay(d.newSession(d.other, checkout.ModeTest, free), "")
	d.pay(d.newSession(d.merchant, checkout.ModeLive, free), "")
	// The hour or the day may have changed since. Move all sessions into the current ones.
	d.exec(`UPDATE checkout_session SET created_at = date_trunc('milliseconds', clock_timestamp())`)

	got := viewer.get("/test/")
	got.hides("Nothing has happened here yet").shows("2,469.00 EUR",
		"2 completed, 1 failed and 0 expired. The highest bar has 3.", `hx-trigger="every 15s"`)
	viewer.get("/live/").shows("1 completed, 0 failed and 0 expired.")

	drawings := regexp.MustCompile(`(?s)<svg.*?</svg>`).FindAllString(got.body, -1)
	require.Len(t, drawings, 2, "sessions and EUR")
	for _, drawing := range drawings {
		require.NoError(t, xml.Unmarshal([]byte(drawing), new(struct{})), "well-formed")
		require.Contains(t, drawing, `role="img"`)
		require.Contains(t, drawing, "<title")
		require.Contains(t, drawing, "<desc")
		require.NotContains(t, drawing, "style=")
	}
	require.Equal(t, 1, strings.Count(got.body, "Show as a table"))
}

// TestHome_IsNotAllWellWhileDeliveriesFail checks that a delivery that waits for a retry does not
// count as delivered.
func TestHome_IsNotAllWellWhileDeliveriesFail(t *testing.T) {
	s := plainSender(t)
	s.exec(`DELETE FROM webhook_delivery`)
	s.exec(`INSERT INTO event SELECT 'evt_' || lpad(i::text, 26, 'z'), $1, 'test', 'payout.sent', 'po_' || i, NULL, now(), '{}' FROM generate_series(1, 765) i`, s.merchant)
	s.exec(`INSERT INTO webhook_delivery (id, event_id, merchant_id, mode, endpoint_id, url, status, run, created_at)
		SELECT 'whd_' || lpad(i::text, 26, 'z'), 'evt_' || lpad(i::text, 26, 'z'), $1, 'test', $2, 'https://shop.example',
			CASE WHEN i <= 266 THEN 'delivered' ELSE 'pending' END, 1, date_trunc('hour', now()) - i * interval '1 minute' FROM generate_series(1, 765) i`, s.merchant, s.endpoint.ID)
	s.exec(`INSERT INTO webhook_attempt (delivery_id, run, number, scheduled_at, started_at, duration_ms, error_kind)
		SELECT id, 1, 1, now(), now(), 5, 'http' FROM webhook_delivery WHERE status = 'pending' ORDER BY id LIMIT 491`)
	s.exec(`UPDATE webhook_delivery SET attempts = 1 WHERE id IN (SELECT id FROM webhook_delivery WHERE status = 'delivered' LIMIT 200)`)
	text := s.as(merchant.RoleViewer).get("/test/").text()
	require.NotContains(t, text, "100 %")
	require.Contains(t, text, "35.1 % <small>of 757 arrived</small>")
	require.Contains(t, text, "26.4 % of 757 on the first attempt")
	require.Contains(t, text, `<a href="/test/deliveries?status=retrying">491 not arrived yet</a>`)
	oldest := value[time.Time](s.desk, `SELECT min(created_at) FROM webhook_delivery WHERE status = 'pending'`)
	require.Contains(t, text, `The oldest waiting one is from <time datetime="`+oldest.UTC().Format("2006-01-02T15:04:05Z"))
}

func TestHome_ChartsOfOneRangeAndCurrency(t *testing.T) {
	d := newDesk(t)
	free := func(c money.Currency) func(*checkout.Session) {
		return func(s *checkout.Session) { s.Metadata, s.Currency = []byte(`{}`), c }
	}
	d.pay(d.newSession(d.merchant, checkout.ModeTest, free(money.EUR)), "")
	d.pay(d.newSession(d.merchant, checkout.ModeTest, free(money.GBP)), "")
	viewer := d.as(merchant.RoleViewer)
	for query, want := range map[string][]string{
		"":                        {"Last 24 hours", "Paid in EUR, by hour"},
		"?range=30d":              {"Last 30 days", "Paid in EUR, by day", `href="/test/?currency=GBP&range=30d"`},
		"?currency=GBP":           {"Paid in GBP, by hour", `href="/test/?currency=GBP&range=30d"`, `hx-get="/test/?currency=GBP&range=24h"`},
		"?currency=USD&range=30d": {"Paid in USD, by day", "Nothing in this period"},
		"?currency=BTC&range=x":   {"Paid in EUR, by hour"},
	} {
		got := viewer.open("/test/" + query)
		for _, text := range want {
			require.Contains(t, got.text(), text, query)
		}
		require.Equal(t, 2, strings.Count(got.body, `<figure class="chart">`), query)
	}
}

func TestHome_AnAlarmForARegistrationThatFails(t *testing.T) {
	s := plainSender(t)
	developer, viewer := s.as(merchant.RoleDeveloper), s.as(merchant.RoleViewer)
	viewer.get("/test/").hides("has been failing since")
	for n := range 3 {
		s.attempt("run", n+1, 500, "")
	}
	for _, path := range []string{"/test/webhooks", "/test/webhooks/" + s.endpoint.ID} {
		viewer.get(path).shows(`<span class="status failed">failing</span>`) // nothing arrives, so it is not green
	}
	viewer.get("/test/").shows("<strong>https://shop.example/hook</strong></a> (Orders) has been failing since",
		"Retries continue").hides("/hold")
	s.end(webhook.DeliveryFailed)
	developer.get("/test/").shows("One delivery failed permanently")
	at := "/test/webhooks/" + s.endpoint.ID
	developer.post(at + "/hold").is(303)
	shown := developer.get("/test/").text()
	require.Contains(t, shown, "and is on hold")
	require.Contains(t, shown, `action="`+at+`/resume"`)
	again := regexp.MustCompile(`href="(` + at + `/replay\?[^"]*)"`).FindStringSubmatch(shown)
	require.NotNil(t, again)
	developer.get(again[1]).shows("One delivery") // it counts them at once
	developer.get("/live/").hides("has been failing since")
}

// Six registrations on one host fail. Each alarm names its own, and three are enough to see above the figures.
func TestHome_AlarmsNameTheURLAndFoldBeyondThree(t *testing.T) {
	d, viewer := newDeskAs(t, merchant.RoleViewer)
	for _, path := range []string{"orders", "stock", "mail", "ledger", "crm", "search"} {
		d.exec(`INSERT INTO webhook_endpoint_failure (endpoint_id, since, last_at, marked_at)
			VALUES ($1, now(), now(), now())`, d.newEndpoint("https://shop.example/"+path+"?token=canary").ID)
	}
	shown := viewer.get("/test/")
	before, folded, ok := strings.Cut(shown.body, `<details id="more-alarms">`)
	require.True(t, ok)
	folded, _, _ = strings.Cut(folded, "</details>")
	require.Equal(t, 3, strings.Count(before, `class="alarm"`))
	require.Equal(t, 3, strings.Count(folded, `class="alarm"`))
	require.Contains(t, folded, "3 more webhooks are failing")
	names := map[string]bool{}
	for _, name := range regexp.MustCompile(`<strong>(https://shop.example/\w+)</strong>`).FindAllString(before+folded, -1) {
		names[name] = true
	}
	require.Len(t, names, 6)
	shown.hides("canary")
	d.exec(`DELETE FROM webhook_endpoint_failure WHERE endpoint_id IN (SELECT endpoint_id FROM webhook_endpoint_failure LIMIT 2)`)
	viewer.get("/test/").shows("1 more webhook is failing")
}

func TestChart_StacksBarsToScale(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 21, 14, 0, 0, 0, time.UTC)
	periods := []storage.Period{
		{From: at, Sessions: map[checkout.Status]int{checkout.StatusCompleted: 3, checkout.StatusExpired: 1, checkout.StatusPending: 9}, Paid: map[money.Currency]money.Amount{money.USD: 1234}},
		{From: at.Add(time.Hour)},
	}
	c := sessionsChart("x", "Sessions", "15:04", periods)
	require.Equal(t, "4", c.Top)
	require.Equal(t, "14:00: 3 completed, 0 failed, 1 expired", c.Bars[0].Label)
	require.Equal(t, []part{{"completed", "25.00", "75.00"}, {"expired", "0.00", "25.00"}}, c.Bars[0].Parts)
	require.Empty(t, c.Bars[1].Parts)
	paid := paidChart("x", "Paid", "15:04", money.USD, periods)
	require.Equal(t, "12.34 USD", paid.Total)
	require.Equal(t, "20.00 USD", paid.Top)
	require.Equal(t, []part{{"paid", "38.30", "61.70"}}, paid.Bars[0].Parts)
	require.Empty(t, paidChart("x", "Paid", "15:04", money.EUR, periods).Total)
	require.Empty(t, sessionsChart("x", "Sessions", "15:04", periods[1:]).Total)
}

func TestRoundUp(t *testing.T) {
	t.Parallel()
	for n, want := range map[int64]int64{0: 1, 1: 1, 2: 2, 3: 4, 6: 6, 9: 10, 11: 20, 61: 80, 99: 100, 100: 100, 101: 200, 12345: 20000} {
		require.Equal(t, want, roundUp(n), n)
	}
}

func TestPercentage_Is100OnlyWhenAllAreGood(t *testing.T) {
	t.Parallel()
	require.Empty(t, percentage(0, 0))
	require.Equal(t, "100 %", percentage(7, 0))
	require.Equal(t, "99.9 %", percentage(9999, 1))
	require.Equal(t, "50 %", percentage(1, 1))
	require.Equal(t, "0 %", percentage(0, 3))
}

func TestRoot_LeadsToTheModeInWhichTheMerchantWorks(t *testing.T) {
	d, owner := newDeskAs(t, merchant.RoleOwner)
	owner.get("/").leads("/test/") // no live address
	d.exec(`INSERT INTO payout_address SELECT merchant_id, 'live', currency, network, address FROM payout_address`)
	owner.get("/").leads("/live/") // set up for live mode
	d.newSession(d.merchant, checkout.ModeTest)
	d.newSession(d.other, checkout.ModeLive)
	owner.get("/").leads("/test/") // test sessions only
	d.newSession(d.merchant, checkout.ModeLive)
	owner.get("/").leads("/live/")
}

func TestPages_SayThatLiveModeIsSimulatedAndLeadToTheDocumentation(t *testing.T) {
	t.Parallel()
	const simulated, docs = "Simulated live mode.", `href="https://api.example.com/docs"`
	plain := newDeskAlone(t).as(merchant.RoleViewer)
	full := newDeskAlone(t, func(c *Config) { c.Simulated, c.APIURL = true, "https://api.example.com" }).as(merchant.RoleViewer)
	for _, path := range []string{"/test/", "/test/webhooks"} {
		plain.get(path).hides(simulated, `/docs"`)
		full.get(path).hides(simulated).shows(docs)
	}
	plain.get("/live/audit").hides(simulated, `/docs"`)
	full.get("/live/audit").shows(simulated, docs)
}
