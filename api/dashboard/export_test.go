package dashboard

import (
	"encoding/csv"
	"fmt"
	"html"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/checkout/api/limit"
	"example.com/checkout/storage/storagetest/must"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
)

// copyRows makes n more rows of a table out of one. Ids count from 1; set has further columns.
func (d *desk) copyRows(table, prefix, id string, n int, set string) {
	d.exec(fmt.Sprintf(`DO $$ BEGIN SET LOCAL session_replication_role = replica;
		INSERT INTO %[1]s SELECT (jsonb_populate_record(r, jsonb_build_object('id', '%[2]s_' || lpad(i::text, 26, '0')%[5]s))).*
		FROM %[1]s r, generate_series(1, %[4]d) i WHERE r.id = '%[3]s'; END $$`, table, prefix, id, n, set))
}

// table reads a download. Each row has the head's names.
func (b *browser) table(path string) (rows []map[string]string) {
	got := b.open(path)
	require.Equal(b.t, "text/csv; charset=utf-8", got.header.Get("Content-Type"))
	all := must.Get(csv.NewReader(strings.NewReader(got.body)).ReadAll())(b.t)
	for _, cells := range all[1:] {
		row := map[string]string{}
		for i, name := range all[0] {
			row[name] = cells[i]
		}
		rows = append(rows, row)
	}
	return rows
}

// requireAll checks that the ids are n, all different, newest first.
func requireAll(t *testing.T, n int, rows []map[string]string) {
	require.Len(t, rows, n)
	for i := 1; i < n; i++ {
		require.Less(t, rows[i]["id"], rows[i-1]["id"])
	}
}

// TestExport_HasEveryRowOnce: so have the pages of a list, and all of them have its filter.
func TestExport_HasEveryRowOnce(t *testing.T) {
	const n = 4 * exportPage
	s := plainSender(t)
	s.attempt("run", 1, 500, "")
	session := s.newSession(s.merchant, checkout.ModeTest)
	_, settled := s.pay(session, "")
	s.exec(`DELETE FROM webhook_delivery WHERE id <> $1`, s.ref.ID)
	s.copyRows("checkout_session", "cs", session.ID, n-1, `, 'order_id', null, 'metadata', jsonb_build_object('order_id', 'o-' || i, 'note', E'a "b",\n;' || i)`)
	s.copyRows("payout", "po", settled.PayoutID, n-1, `, 'session_id', 'cs_' || lpad(i::text, 26, '0')`)
	s.copyRows("event", "evt", s.event.ID, n-1, `, 'subject_id', i`)
	s.copyRows("webhook_delivery", "whd", s.ref.ID, n-1, `, 'event_id', 'evt_' || lpad(i::text, 26, '0')`)
	s.exec(`ANALYZE`) // as autovacuum does
	viewer := s.as(merchant.RoleViewer)

	sessions := viewer.table("/test/sessions.csv")
	requireAll(t, n, sessions)
	require.Equal(t, []string{session.ID, "completed", "1234.50", "EUR", "12.35", "1222.15", "order 7", "4242", settled.PayoutID, "pending"},
		columns(sessions[0], "id", "status", "amount", "currency", "fee", "net", "order_id", "card_last4", "payout_id", "payout_status"))
	require.Equal(t, []string{"o-1", `{"note": "a \"b\",\n;1", "order_id": "o-1"}`}, columns(sessions[n-1], "order_id", "metadata"))
	payouts := viewer.table("/test/payouts.csv")
	requireAll(t, n, payouts)
	require.Equal(t, []string{settled.PayoutID, session.ID, "1222.15", "EUR", "order 7"},
		columns(payouts[0], "id", "session_id", "source_amount", "source_currency", "order_id"))
	deliveries := viewer.table("/test/deliveries.csv")
	requireAll(t, n, deliveries)
	require.Equal(t, []string{s.ref.ID, "retrying", s.event.ID, "payout.sent", s.endpoint.ID, "1", "answered 500"},
		columns(deliveries[0], "id", "state", "event_id", "event_type", "webhook_id", "last_attempt", "last_result"))

	for path, rows := range map[string][]map[string]string{
		"/test/sessions?status=completed": sessions, "/test/payouts?status=pending": payouts,
		"/test/deliveries?webhook=" + s.endpoint.ID: deliveries,
	} {
		shows := func(got received, rows []map[string]string) {
			shown := regexp.MustCompile(`<tr id="(\w+)"|id="open-(cs_\w+)"`).FindAllStringSubmatch(got.body, -1)
			require.Len(t, shown, len(rows), path)
			for i, row := range rows {
				require.Equal(t, row["id"], shown[i][1]+shown[i][2], path)
			}
		}
		first := viewer.get(path)
		shows(first, rows[:pageSize])
		first.hides("Newest")
		older := html.UnescapeString(regexp.MustCompile(`href="([^"]+)">Older`).FindStringSubmatch(first.body)[1])
		second := viewer.get(older)
		shows(second, rows[pageSize:2*pageSize])
		second.shows(`href="` + path + `">Newest`) // the filter is kept
		second.hides("hx-get")                     // what is old does not change
		last := viewer.get(path + "&before=" + rows[n-pageSize-1]["id"])
		shows(last, rows[n-pageSize:])
		last.hides(">Older")
	}
}

func columns(row map[string]string, names ...string) (cells []string) {
	for _, name := range names {
		cells = append(cells, row[name])
	}
	return cells
}

func TestExport_HasTheFiltersOfThePageAndNothingOfOthers(t *testing.T) {
	s := plainSender(t)
	pending := s.newSession(s.merchant, checkout.ModeTest)
	free := func(s *checkout.Session) { s.Metadata = []byte(`{}`) }
	paid := s.newSession(s.merchant, checkout.ModeTest, free)
	s.pay(paid, "")
	foreign := s.newSession(s.other, checkout.ModeTest, free)
	s.pay(foreign, "")
	live := s.newSession(s.merchant, checkout.ModeLive, free)
	s.pay(live, "")
	newSender(s.desk, s.other, s.mode, "https://other.example/", "", `{}`)
	viewer := s.as(merchant.RoleViewer)
	tomorrow := time.Now().UTC().AddDate(0, 0, 1).Format(time.DateOnly)
	for path, n := range map[string]int{
		"sessions.csv": 2, "sessions.csv?status=pending": 1, "sessions.csv?search=" + paid.ID: 1, "sessions.csv?from=" + tomorrow: 0,
		"payouts.csv": 1, "payouts.csv?from=" + tomorrow: 0, "payouts.csv?status=failed": 0, "payouts.csv?currency=BTC": 0, "payouts.csv?to=" + tomorrow: 1,
		"deliveries.csv": 1, "deliveries.csv?status=failed": 0, "deliveries.csv?type=payout.sent": 1, "deliveries.csv?session=" + paid.ID: 0,
	} {
		got := viewer.get("/test/" + path)
		require.Len(t, viewer.table("/test/"+path), n, path)
		got.hides(foreign.ID, live.ID)
		list, _, _ := strings.Cut(path, ".")
		require.Equal(t, `attachment; filename="`+list+`-test-`+time.Now().UTC().Format(time.DateOnly)+`.csv"`, got.header.Get("Content-Disposition"))
		query := strings.TrimPrefix(path, list+".csv")
		viewer.get("/test/" + list + query).shows(`href="/test/` + path + `" download`)
	}
	require.Equal(t, pending.ID, viewer.table("/test/sessions.csv?status=pending")[0]["id"])
	for _, path := range []string{"/test/sessions.csv?from=x", "/test/payouts.csv?to=x", "/test/deliveries.csv?session=x"} {
		viewer.get(path).is(400, path)
	}
}

// stalled is a browser that does not read until it is released.
type stalled struct {
	*httptest.ResponseRecorder
	writing chan<- struct{}
	release <-chan struct{}
}

func (s stalled) Write(p []byte) (int, error) {
	s.writing <- struct{}{}
	<-s.release
	return s.ResponseRecorder.Write(p)
}

func TestExport_ASlowBrowserKeepsNobodyOfItsAddressWaiting(t *testing.T) {
	d := newDesk(t, func(c *Config) { c.Shares = limit.NewShares(1) })
	h := New(d.config)
	const office = "192.0.2.1:80"
	d.newMember(d.merchant, "ann@shop.example", merchant.RoleViewer)
	cookies := d.signsIn(h, office, "ann@shop.example", password).Result().Cookies()
	for _, list := range []string{"audit", "sessions", "payouts", "deliveries"} {
		writing, release, ended := make(chan struct{}), make(chan struct{}), make(chan struct{})
		slow := stalled{httptest.NewRecorder(), writing, release}
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://dashboard.example/m/"+d.merchant+"/test/"+list+".csv", nil)
		r.RemoteAddr = office
		for _, c := range cookies {
			r.AddCookie(c)
		}
		go func() { defer close(ended); h.ServeHTTP(slow, r) }()
		<-writing
		got := d.from(h, office, "/signin", nil)
		close(release)
		<-ended
		require.Equal(t, http.StatusOK, got.Code, "a page for a colleague during a download of %s", list)
		require.Equal(t, http.StatusOK, slow.Code)
		require.True(t, strings.HasPrefix(slow.Body.String(), "id,"), slow.Body.String())
	}
}
