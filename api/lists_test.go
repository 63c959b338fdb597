package api

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/checkout/workflows/checkout"
)

// lists holds the prefix of the entries and the filters of each list.
var lists = []struct {
	path, prefix string
	filters      []string
}{
	{"/v1/webhooks", "wh", []string{"status"}},
	{"/v1/deliveries", "whd", []string{"status", "webhook", "event", "session"}},
	{"/v1/events", "evt", []string{"type", "session", "order", "after"}},
	{"/v1/replays", "whr", []string{"webhook"}},
	{"/v1/checkout", "cs", []string{"status", "order_id", "transaction", "customer_email", "metadata"}},
	{"/v1/transactions", "txn", []string{"status", "session"}},
	{"/v1/payouts", "po", []string{"status", "session"}},
	{"/v1/refunds", "re", []string{"status", "session"}},
	{"/v1/disputes", "dp", []string{"status", "session"}},
	{"/v1/balance/transactions", "btx", []string{"type", "currency", "source"}},
}

func TestLists_WalkToTheEndInPages(t *testing.T) {
	f := newFront(t)
	endpoint, _ := f.newEndpoint(f.key)
	all := map[string][]string{"wh": {endpoint}}
	for i := range 25 {
		event, delivery := f.newDelivery(f.key, endpoint)
		all["evt"], all["whd"] = append(all["evt"], event), append(all["whd"], delivery)
		all["whr"] = append(all["whr"], f.newReplay(f.key, endpoint))
		session, payout := f.newPayout(f.merchant, checkout.ModeTest)
		all["cs"], all["po"] = append(all["cs"], session), append(all["po"], payout)
		all["txn"] = append(all["txn"], f.transactionOf(session))
		refund, dispute := f.newMoneyBack(session)
		all["re"], all["dp"] = append(all["re"], refund), append(all["dp"], dispute)
		all["btx"] = append(all["btx"], f.balanceTransactionOf(session))
		if i > 0 {
			id, _ := f.newEndpoint(f.key)
			all["wh"] = append(all["wh"], id)
		}
	}
	for _, l := range lists {
		want := all[l.prefix]
		slices.Sort(want)
		slices.Reverse(want)
		var got []string
		sizes := []int{}
		cursor := ""
		for {
			page := f.answers(200, "GET", l.path+cursor, f.key, "")
			require.Len(t, page.json, 3)
			got = append(got, page.ids()...)
			sizes = append(sizes, len(page.ids()))
			if page.json["has_more"] == false {
				require.Nil(t, page.json["next_cursor"])
				require.Contains(t, page.body, `"next_cursor":null`)
				break
			}
			cursor = "?cursor=" + page.json["next_cursor"].(string)
		}
		require.Equal(t, want, got, l.path)
		require.Equal(t, []int{10, 10, 5}, sizes, "ten are the default")

		exact := f.do("GET", l.path+"?limit=25", f.key, "")
		require.Len(t, exact.ids(), 25)
		require.Equal(t, false, exact.json["has_more"], "an exact page is the last")
		require.Equal(t, true, f.do("GET", l.path+"?limit=24", f.key, "").json["has_more"])
		require.Len(t, f.do("GET", l.path+"?limit=100", f.key, "").ids(), 25)
		require.Len(t, f.do("GET", l.path+"?limit=1", f.key, "").ids(), 1)
	}
}

func TestLists_AnEmptyListIsAnArray(t *testing.T) {
	f := newFront(t)
	for _, l := range lists {
		require.Equal(t, `{"data":[],"has_more":false,"next_cursor":null}`+"\n", f.do("GET", l.path, f.key, "").body)
	}
}

func TestLists_RefuseWrongParameters(t *testing.T) {
	f := newFront(t)
	for _, l := range lists {
		for query, params := range map[string][]string{
			"limit=101": {"limit"}, "cursor=key_06gztdfwwzk78bjehzhyt37pjg": {"cursor"}, "until=0001-01-01T00:00:00Z": {"until"},
			"since=2026-01-31T09:30:00Z&until=2026-01-31T09:30:00Z": {"until"}, "=1": {""}, "%zz=1": {"query"},
			"limit=0&cursor=x&since=x&until=x&zzz=1": {"zzz", "since", "until", "limit", "cursor"},
		} {
			got := f.do("GET", l.path+"?"+query, f.key, "")
			require.Equal(t, "400 invalid_request", got.refused(), "%s?%s", l.path, query)
			require.Equal(t, params, got.params(), "%s?%s", l.path, query)
			require.Equal(t, params[0], orEmpty(got.json["param"]))
		}
		for _, filter := range l.filters {
			wrong := []string{"", "x", "Pending", "wh_x", "%00", "cs_'; DROP TABLE event"}
			if filter == "order_id" { // what the merchant likes
				wrong = []string{"", "\x00", "A\x00", "\xff", "\xed\xa0\x80", strings.Repeat("é", 501)}
			}
			for _, value := range wrong {
				got := f.do("GET", l.path+"?"+filter+"="+url.QueryEscape(value), f.key, "")
				require.Equal(t, 400, got.status, "%s?%s=%s", l.path, filter, value)
				require.Equal(t, []string{filter}, got.params())
			}
		}
		got := f.do("GET", l.path+"?after="+checkout.NewID("cs"), f.key, "")
		require.Equal(t, []string{"after"}, got.params())
		require.Contains(t, got.json["message"], "; for the next page send cursor, set to next_cursor", l.path)
		got = f.do("GET", l.path+"?limt=5", f.key, "")
		require.Equal(t, "limt is not a known parameter; did you mean limit?", got.json["message"])
		got = f.do("GET", l.path+"?ascending=1", f.key, "")
		require.Equal(t, "ascending is not a known parameter; known are "+strings.Join(l.filters, ", ")+", limit, cursor, since, until", got.json["message"])
	}
}

func orEmpty(value any) string {
	text, _ := value.(string)
	return text
}

func TestLists_ByTime(t *testing.T) {
	f := newFront(t)
	endpoint, _ := f.newEndpoint(f.key)
	f.newDelivery(f.key, endpoint)
	f.newReplay(f.key, endpoint)
	session, _ := f.newPayout(f.merchant, checkout.ModeTest)
	f.newMoneyBack(session)
	for _, l := range lists {
		entry := f.do("GET", l.path, f.key, "").json["data"].([]any)[0].(map[string]any)
		created := timeIn(t, entry["created_at"])
		zone := time.FixedZone("", -3*3600)
		count := func(query string, at time.Time) int {
			got := f.answers(200, "GET", l.path+"?"+query+"="+url.QueryEscape(at.In(zone).Format(time.RFC3339Nano)), f.key, "")
			return len(got.ids())
		}
		require.Equal(t, 1, count("since", created), "since is in it")
		require.Equal(t, 0, count("since", created.Add(time.Millisecond)))
		require.Equal(t, 0, count("until", created), "until is not")
		require.Equal(t, 1, count("until", created.Add(time.Millisecond)))
		require.Equal(t, 1, count("since=1970-01-01T00:00:00Z&until", time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)))
	}
}

func TestLists_Filters(t *testing.T) {
	f := newFront(t)
	a, _ := f.newEndpoint(f.key)
	b, _ := f.newEndpoint(f.key)
	f.do("POST", "/v1/webhooks/"+b+"/hold", f.key, "")
	event, pending := f.newDelivery(f.key, a)
	_, failed := f.newDelivery(f.key, b)
	f.exec(`UPDATE webhook_delivery SET status = 'failed', finished_at = now() WHERE id = $1`, failed)
	replay := f.newReplay(f.key, b)
	session := f.newSession(f.key)
	f.exec(`UPDATE event SET session_id = $1 WHERE id = $2`, session, event)
	none := checkout.NewID
	for path, want := range map[string][]string{
		"/v1/webhooks?status=enabled":                                       {a},
		"/v1/webhooks?status=disabled":                                      {b},
		"/v1/deliveries?status=pending":                                     {pending},
		"/v1/deliveries?status=failed":                                      {failed},
		"/v1/deliveries?status=delivered":                                   {},
		"/v1/deliveries?status=canceled":                                    {},
		"/v1/deliveries?webhook=" + b:                                       {failed},
		"/v1/deliveries?event=" + event:                                     {pending},
		"/v1/deliveries?session=" + session:                                 {pending},
		"/v1/deliveries?status=failed&webhook=" + a:                         {},
		"/v1/deliveries?webhook=" + none("wh"):                              {},
		"/v1/events?session=" + session + "&type=checkout.completed":        {event},
		"/v1/events?session=" + none("cs"):                                  {},
		"/v1/events?type=payout.failed":                                     {},
		"/v1/replays?webhook=" + b:                                          {replay},
		"/v1/replays?webhook=" + a:                                          {},
		fmt.Sprintf("/v1/deliveries?limit=5&status=failed&event=%s", event): {},
	} {
		got := f.answers(200, "GET", path, f.key, "")
		require.Equal(t, want, got.ids(), path)
	}
	require.NotContains(t, f.do("GET", "/v1/deliveries", f.key, "").body, `"attempts"`, "only a single delivery has them")
}

func TestListSessions_Filters(t *testing.T) {
	f := newFront(t)
	unguarded := f.newMerchant(false)
	create := func(key, orderID string) string {
		got := f.answers(201, "POST", "/v1/checkout", key, with("metadata", `{"order_id":`+orderID+`}`))
		return got.json["id"].(string)
	}
	pending, late, expired := create(f.key, `"A-1"`), create(f.key, `"L"`), create(f.key, `"A 2 %'"`)
	failed, flight := create(f.key, `"ü"`), create(f.key, `1.50`)
	completed, payout := f.newPayout(f.merchant, checkout.ModeTest)
	f.exec(`UPDATE checkout_session SET expires_at = now() - interval '1 minute' WHERE id IN ($1, $2)`, late, flight)
	f.exec(`UPDATE checkout_session SET payment_in_flight = true WHERE id = $1`, flight)
	f.exec(`UPDATE checkout_session SET status = 'expired', ended_at = now() WHERE id = $1`, expired)
	f.exec(`UPDATE checkout_session SET status = 'failed', ended_at = now() WHERE id = $1`, failed)
	first, second := create(unguarded.testKey, `"A-1"`), create(unguarded.testKey, `"A-1"`)
	for _, c := range []struct {
		key, query string
		want       []string
	}{
		{f.key, "status=pending", []string{flight, pending}},
		{f.key, "status=expired", []string{expired, late}},
		{f.key, "status=failed", []string{failed}},
		{f.key, "status=completed", []string{completed}},
		{f.key, "order_id=A-1", []string{pending}},
		{f.key, "order_id=" + url.QueryEscape(`A 2 %'`), []string{expired}},
		{f.key, "order_id=" + url.QueryEscape("ü"), []string{failed}},
		{f.key, "order_id=1.50", []string{flight}},
		{f.key, "order_id=1.5", []string{}},
		{f.key, "order_id=L&status=expired", []string{late}},
		{f.key, "order_id=L&status=pending", []string{}},
		{f.key, "limit=1&status=expired&cursor=" + expired, []string{late}},
		{f.merchant.liveKey, "order_id=A-1", []string{}},
		{unguarded.testKey, "order_id=A-1", []string{second, first}},
		{unguarded.testKey, "order_id=L", []string{}},
	} {
		got := f.answers(200, "GET", "/v1/checkout?"+c.query, c.key, "")
		require.Equal(t, c.want, got.ids(), c.query)
	}
	for query, want := range map[string][]string{
		"status=sent": {payout}, "status=pending": {}, "status=failed": {}, "session=" + completed: {payout}, "session=" + pending: {},
		"status=failed&session=" + completed: {},
	} {
		require.Equal(t, want, f.do("GET", "/v1/payouts?"+query, f.key, "").ids(), query)
	}
}

func TestListSessions_ByMetadata(t *testing.T) {
	f := newFront(t)
	create := func(metadata string) string {
		got := f.answers(201, "POST", "/v1/checkout", f.key, with("metadata", metadata))
		return got.json["id"].(string)
	}
	first := create(`{"cart":"c-77","items":3}`)
	second := create(`{"cart":"c-77","items":3.0,"a b]":"%"}`)
	create(`{"Cart":"c-77","cart":"c-78"}`)
	recent := "&since=" + url.QueryEscape(time.Now().Add(-time.Hour).Format(time.RFC3339))
	for query, want := range map[string][]string{
		"metadata[cart]=c-77" + recent:                       {second, first},
		"metadata%5Bcart%5D=c-77&metadata[items]=3" + recent: {first},
		"metadata[items]=3.0" + recent:                       {second},
		"metadata[a%20b%5D]=%25" + recent:                    {second},
		"metadata[nothing]=c-77" + recent:                    {},
		"metadata[cart]=c-77&order_id=none":                  {},
	} {
		got := f.answers(200, "GET", "/v1/checkout?"+query, f.key, "")
		require.Equal(t, want, got.ids(), query)
	}
	old := "&since=" + url.QueryEscape(time.Now().AddDate(0, 0, -32).Format(time.RFC3339))
	many := strings.Repeat("m", maxMetadataKey+1)
	for query, param := range map[string]string{
		"metadata[cart]=c-77":               "since",
		"metadata[cart]=c-77" + old:         "since",
		"metadata=c-77" + recent:            "metadata",
		"metadata[]=c-77" + recent:          "metadata[]",
		"metadata[" + many + "]=x" + recent: "metadata[" + many[:31] + "…",
		"metadata[cart]=" + strings.Repeat("x", maxMetadataValue+1) + recent:                     "metadata[cart]",
		"metadata[cart]=%00" + recent:                                                            "metadata[cart]",
		"metadata[cart]=a&metadata[cart]=b" + recent:                                             "metadata[cart]",
		"metadata[cart=a" + recent:                                                               "metadata[cart",
		"metadata[1]=&metadata[2]=&metadata[3]=&metadata[4]=&metadata[5]=&metadata[6]=" + recent: "metadata",
	} {
		got := f.do("GET", "/v1/checkout?"+query, f.key, "")
		require.Equal(t, 400, got.status, query)
		require.Contains(t, got.body, `"param":"`+param+`"`, query)
	}
	require.Equal(t, 400, f.do("GET", "/v1/events?metadata[cart]=c-77", f.key, "").status, "other lists have no such filter")
}

// TestListSessions_EntriesAreTheWholeSessions checks that a list shows each session exactly as GET
// shows it, with its own payments.
func TestListSessions_EntriesAreTheWholeSessions(t *testing.T) {
	f := newFront(t)
	f.newSession(f.key)
	for range 3 {
		session, _ := f.newPayout(f.merchant, checkout.ModeTest)
		f.exec(`INSERT INTO transaction (id, session_id, merchant_id, mode, status, attempt, failure, payment_method, acquirer, chain_ref, created_at, completed_at)
			SELECT $2, id, merchant_id, mode, 'failed', 0, 'card_declined', '{}', 'sandbox', 'sandbox', created_at, created_at FROM checkout_session WHERE id = $1`,
			session, checkout.NewID("txn"))
	}
	got := f.do("GET", "/v1/checkout", f.key, "")
	require.Len(t, got.ids(), 4)
	for i, id := range got.ids() {
		entry := got.json["data"].([]any)[i].(map[string]any)
		require.Equal(t, f.do("GET", "/v1/checkout/"+id, f.key, "").json, entry)
		require.NotContains(t, entry, "webhook_secret")
		if i == 3 {
			require.Nil(t, entry["transaction"])
			require.Nil(t, entry["payout"])
			continue
		}
		require.Equal(t, id, entry["transaction"].(map[string]any)["session_id"])
		require.Equal(t, "succeeded", entry["transaction"].(map[string]any)["status"])
		payout := entry["payout"].(map[string]any)
		require.Equal(t, id, payout["session_id"])
		require.Len(t, entry["timeline"], 5)
		alone := f.answers(200, "GET", "/v1/payouts/"+payout["id"].(string), f.key, "")
		require.Equal(t, payout, alone.json)
		require.Equal(t, payout, f.do("GET", "/v1/payouts", f.key, "").json["data"].([]any)[i])
	}
}
