package dashboard

import (
	"context"
	"encoding/json"
	"errors"
	"html"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"

	"example.com/checkout/storage"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
	"example.com/checkout/workflows/webhook"
)

// sender is a desk with a registration, one delivery to it and one bulk replay.
type sender struct {
	*desk
	mode     checkout.Mode
	endpoint webhook.Endpoint
	ref      checkout.Ref
	event    webhook.Event
	replay   webhook.Replay
}

func newSender(d *desk, merchant string, mode checkout.Mode, address, description string, metadata string) sender {
	d.t.Helper()
	s := sender{desk: d, mode: mode}
	var err error
	s.endpoint, err = d.store.Webhooks.CreateEndpoint(d.t.Context(), webhook.Endpoint{
		Ref: checkout.Owner{MerchantID: merchant, Mode: mode}.Ref(checkout.NewID(checkout.PrefixEndpoint)), URL: address, Description: &description,
		Events: []webhook.EventType{webhook.CheckoutFailed, webhook.PayoutSent}, Status: webhook.EndpointEnabled, Secret: webhook.NewSecret(),
	})
	require.NoError(d.t, err)
	m, err := d.store.Merchants.Merchant(d.t.Context(), merchant)
	require.NoError(d.t, err)
	event, ref, err := d.store.Webhooks.PublishTest(d.t.Context(), storage.TestEvent{
		Owner: checkout.Owner{MerchantID: merchant, Mode: mode}, EndpointID: s.endpoint.ID, SubjectID: checkout.NewID(checkout.PrefixTest), Type: webhook.PayoutSent,
		Data: func(at time.Time) any {
			return webhook.PayoutSent.Sample(m, json.RawMessage(metadata), at)
		},
	})
	require.NoError(d.t, err)
	s.event, s.ref = event, checkout.Owner{MerchantID: merchant, Mode: mode}.Ref(ref.ID)
	s.replay, err = d.store.Webhooks.CreateReplay(d.t.Context(), webhook.Replay{
		Ref: checkout.Owner{MerchantID: merchant, Mode: mode}.Ref(checkout.NewID(checkout.PrefixReplay)), EndpointID: s.endpoint.ID,
		Since: time.Now().Add(-time.Hour), Until: time.Now(), Filter: webhook.DeliveryFailed, Rate: 1,
	})
	require.NoError(d.t, err)
	return s
}

func plainSender(t *testing.T, change ...func(*Config)) sender {
	t.Helper()
	d := newDesk(t, change...)
	return newSender(d, d.merchant, checkout.ModeTest, "https://shop.example/hook", "Orders", `{}`)
}

// attempt makes an attempt; status 0 is one without an answer.
func (s sender) attempt(run string, number, status int, body string) {
	s.t.Helper()
	require.NoError(s.t, s.store.Webhooks.HurryAttempt(s.t.Context(), s.ref, run, time.Time{}))
	out, err := s.store.Webhooks.BeginAttempt(s.t.Context(), s.ref, webhook.Turn{RunID: run, Try: number})
	require.NoError(s.t, err)
	a := webhook.Attempt{Run: out.Run, Number: number, Duration: 1500 * time.Millisecond, StatusCode: status, ResponseBody: []byte(body)}
	switch {
	case status == 0:
		a.ErrorKind = webhook.ErrorTimeout
	case status >= 300:
		a.ErrorKind = webhook.ErrorHTTP
	}
	require.NoError(s.t, s.store.Webhooks.FinishAttempt(s.t.Context(), s.ref, a, time.Hour))
}

// end ends the delivery.
func (s sender) end(status webhook.DeliveryStatus) {
	s.t.Helper()
	_, err := s.store.Webhooks.EndDelivery(s.t.Context(), s.ref, "", status)
	require.NoError(s.t, err)
}

// stored returns the registration as it is now.
func (s sender) stored() webhook.Endpoint {
	s.t.Helper()
	e, err := s.store.Webhooks.Endpoint(s.t.Context(), s.endpoint.Ref)
	require.NoError(s.t, err)
	return e
}

func (s sender) audited(action string) string {
	s.t.Helper()
	return value[string](s.desk, `SELECT coalesce(string_agg(subject || ' ' || coalesce(mode, '') || ' ' || detail, ';'), '') FROM audit_entry WHERE action = $1`, action)
}

// secretIn finds a signing secret in a page.
var secretIn = regexp.MustCompile(`whsec_[0-9a-f]{64}`)

func TestWebhooks_CreateShowsTheSecretOnce(t *testing.T) {
	d := newDesk(t, func(c *Config) {
		c.CheckAddress = func(_ context.Context, _ checkout.Mode, host string) error {
			if host == "10.0.0.1" {
				return errors.New("must not lead to a private address")
			}
			return nil
		}
	})
	dev := d.as(merchant.RoleDeveloper)
	require.Contains(t, dev.get("/test/webhooks").text(), "No server receives your events yet.")
	require.NotContains(t, d.as(merchant.RoleViewer).get("/test/webhooks").text(), "Add a webhook")
	for _, c := range []struct{ url, description, events, says string }{
		{"ftp://shop.example", "", "payout.sent", "must be an absolute http or https URL"},
		{"https://u:p@shop.example", "", "payout.sent", "must not contain a user name or password"},
		{"https://10.0.0.1/", "", "payout.sent", "must not lead to a private address"},
		{"https://shop.example/", strings.Repeat("x", 256), "payout.sent", "at most 255 characters"},
		{"https://shop.example/", "a\x00b", "payout.sent", "no control characters"},
		{"https://shop.example/", "", "unknown", "Choose at least one event."},
	} {
		got := dev.post("/test/webhooks", "url", c.url, "description", c.description, "events", c.events)
		require.Equal(t, 422, got.status, c.url)
		require.Contains(t, got.text(), c.says)
		require.Contains(t, got.text(), `class="wrong"`)
	}
	require.Equal(t, 422, dev.post("/live/webhooks", "url", "http://shop.example/", "events", "payout.sent").status, "live is https only")

	got := dev.follow(dev.post("/test/webhooks", "url", "https://shop.example/s3cret-path", "description", "Orders", "events", "payout.sent", "events", "checkout.failed"))
	require.Equal(t, 200, got.status)
	require.Contains(t, got.text(), "Your webhook is ready")
	secret := secretIn.FindString(got.body)
	require.NotEmpty(t, secret)
	id := value[string](d, `SELECT id FROM webhook_endpoint`)
	require.Equal(t, []string{"checkout.failed", "payout.sent"}, value[[]string](d, `SELECT events FROM webhook_endpoint`))
	entry := value[string](d, `SELECT subject || ' ' || mode || ' ' || detail FROM audit_entry WHERE action = 'webhook.created'`)
	require.Equal(t, id+" test for shop.example", entry, "without the path, which may be a secret, and without the secret")
	for _, path := range []string{"/test/webhooks", "/test/webhooks/" + id, "/test/webhooks/" + id + "/edit", "/test/audit"} {
		require.NotRegexp(t, secretIn, dev.get(path).body, path)
	}
	require.Contains(t, dev.get("/test/webhooks").text(), "no events")
}

func TestWebhooks_ChangeHoldResumeRotateDelete(t *testing.T) {
	s := plainSender(t)
	dev, at := s.as(merchant.RoleDeveloper), "/test/webhooks/"+s.endpoint.ID
	require.Contains(t, dev.get("/test/webhooks").text(), "0 of 1 delivered, 1 waiting")

	edit := dev.form(at+"/edit", at)
	got := edit.send("url", "https://new.example/x", "description", "", "events", "payout.failed")
	require.Equal(t, at+" webhook_changed", got.to())
	e := s.stored()
	require.Equal(t, "https://new.example/x", e.URL)
	require.Equal(t, []webhook.EventType{webhook.PayoutFailed}, e.Events)
	require.Nil(t, e.Description)
	require.Equal(t, 422, dev.post(at, "url", "nonsense", "events", "payout.failed").status)
	require.Equal(t, s.endpoint.ID+" test URL of: shop.example → new.example; events: [checkout.failed payout.sent] → [payout.failed]; description: “Orders” → “”", s.audited("webhook.changed"))

	require.Equal(t, at+" webhook_held", dev.post(at+"/hold").to())
	require.Contains(t, dev.get(at).text(), "no attempt is used up")
	require.Contains(t, dev.get("/test/deliveries").text(), "on hold")
	require.Equal(t, at+" webhook_resumed", dev.post(at+"/resume").to())
	require.NotContains(t, dev.get(at).text(), "on hold")
	require.NotEmpty(t, s.audited("webhook.held"))
	require.NotEmpty(t, s.audited("webhook.resumed"))

	require.Contains(t, dev.get(at).body, `<option value="24">for 24 hours</option><option value="1">for an hour</option>`+
		`<option value="72">for 72 hours</option><option value="0">not at all</option>`)
	got = dev.follow(dev.post(at+"/rotate", "hours", "1"))
	require.Equal(t, 200, got.status)
	require.Regexp(t, secretIn, got.body)
	require.Contains(t, got.text(), "signed with both secrets")
	require.Equal(t, s.endpoint.ID+" test the previous secret signs for 1 h more, unless another rotation ends it", s.audited("webhook.secret_rotated"))
	require.Contains(t, dev.get(at).text(), "another rotation ends the older one immediately")
	require.NotContains(t, dev.follow(dev.post(at+"/rotate", "hours", "0")).text(), "signed with both secrets")
	dev.post(at+"/rotate", "hours", "999")
	require.Contains(t, s.audited("webhook.secret_rotated"), "24 h more", "only what is offered")

	require.Contains(t, dev.get(at+"/delete").text(), "One delivery has not arrived yet and will be")
	require.Equal(t, "/test/webhooks webhook_deleted", dev.post(at+"/delete").to())
	require.Equal(t, 404, dev.get(at).status)
	require.Equal(t, s.endpoint.ID+" test for new.example", s.audited("webhook.deleted"))
	require.Contains(t, dev.get("/test/deliveries/"+s.ref.ID).text(), "a webhook that was deleted")
}

// A registration for all events was shown as its names, and a change of its boxes made names of it.
func TestWebhooks_AllEventsAreABoxOfTheirOwn(t *testing.T) {
	d := newDesk(t)
	dev := d.as(merchant.RoleDeveloper)
	form := dev.form("/test/webhooks/new", "/test/webhooks")
	require.Equal(t, []string{"*"}, form.fields["events"], "what a new webhook gets unless somebody chooses")
	require.Equal(t, 303, form.send("url", "https://shop.example/hook").status)
	stored := func() []string { return value[[]string](d, `SELECT events FROM webhook_endpoint`) }
	require.Equal(t, []string{"*"}, stored())
	at := "/test/webhooks/" + value[string](d, `SELECT id FROM webhook_endpoint`)
	const all = "all, also types that are added later"
	require.Contains(t, dev.get("/test/webhooks").text(), all)
	require.Contains(t, dev.get(at).text(), all)

	require.Equal(t, 303, dev.form(at+"/edit", at).send("description", "Orders").status)
	require.Equal(t, []string{"*"}, stored(), "nobody touched the boxes")
	require.Equal(t, at+" webhook_changed", dev.form(at+"/edit", at).send("events", "payout.sent", "events", "checkout.failed").to())
	require.Equal(t, []string{"checkout.failed", "payout.sent"}, stored())
	require.NotContains(t, dev.get(at).text(), all)
	require.Equal(t, at+" webhook_changed", dev.form(at+"/edit", at).send("events", "*", "events", "payout.sent").to(), "the names are hidden then")
	require.Equal(t, []string{"*"}, stored())
}

func TestWebhooks_LimitsOfTheAttempts(t *testing.T) {
	s := plainSender(t)
	dev, at := s.as(merchant.RoleDeveloper), "/test/webhooks/"+s.endpoint.ID
	stored := func() string {
		return value[string](s.desk, `SELECT concat_ws(' ', coalesce(max_in_flight, 0), coalesce(rate_limit, 0)) FROM webhook_endpoint WHERE id = $1`, s.endpoint.ID)
	}
	require.NotContains(t, dev.get(at).text(), "at most")
	for _, wrong := range []string{"0", "1001", "-1", "1.5", "many"} {
		got := dev.form(at+"/edit", at).send("max_in_flight", wrong, "rate_limit", "5")
		require.Equal(t, 422, got.status, wrong)
		require.Contains(t, got.text(), "The limit must be a whole number from 1 to 1000.")
		require.Equal(t, wrong, dev.formOf(got, at).fields.Get("max_in_flight"), "what was typed stays")
	}
	require.Equal(t, "0 0", stored())

	a, b, c := dev.form(at+"/edit", at), dev.form(at+"/edit", at), dev.form(at+"/edit", at)
	require.Equal(t, at+" webhook_changed", a.send("max_in_flight", " 8 ").to())
	require.Equal(t, at+" webhook_changed", b.send("rate_limit", "1000").to())
	require.Equal(t, "8 1000", stored(), "the other tab's stays")
	require.Contains(t, dev.get(at).text(), "at most 8")
	require.Contains(t, dev.get(at).text(), "at most 1000")
	lost := c.send("max_in_flight", "9", "rate_limit", "1000", "description", "Typed")
	require.Equal(t, 409, lost.status)
	require.Contains(t, lost.text(), "You had entered “9”")
	again := dev.formOf(lost, at)
	require.Equal(t, []string{"8", "1000", "Typed"}, []string{again.fields.Get("max_in_flight"), again.fields.Get("rate_limit"), again.fields.Get("description")})

	require.Equal(t, at+" webhook_changed", dev.form(at+"/edit", at).send("max_in_flight", "", "rate_limit", "20").to())
	require.Equal(t, "0 20", stored())
	audited := s.audited("webhook.changed")
	require.Contains(t, audited, "max_in_flight: default → 8;")
	require.Contains(t, audited, "rate_limit: default → 1000;")
	require.Contains(t, audited, "max_in_flight: 8 → default; rate_limit: 1000 → 20")

	require.Equal(t, 303, dev.form("/test/webhooks/new", "/test/webhooks").send("url", "https://shop.example/new", "max_in_flight", "3", "rate_limit", "2").status)
	require.Equal(t, "3 2", value[string](s.desk, `SELECT max_in_flight || ' ' || rate_limit FROM webhook_endpoint WHERE url LIKE '%new'`))
}

// The REST API keeps the order of the types. A form that was shown in it looked like somebody else's change.
func TestWebhooks_TheOrderOfTypesIsNoConflict(t *testing.T) {
	s := plainSender(t)
	s.exec(`UPDATE webhook_endpoint SET events = '{payout.sent,checkout.failed}'`)
	dev, at := s.as(merchant.RoleDeveloper), "/test/webhooks/"+s.endpoint.ID
	require.Equal(t, at+" nothing_changed", dev.form(at+"/edit", at).send().to())
	require.Equal(t, at+" webhook_changed", dev.form(at+"/edit", at).send("events", "merchant.updated").to())
}

func TestWebhooks_TestEventGoesToThePageOfItsDelivery(t *testing.T) {
	s := plainSender(t)
	var started client.StartWorkflowOptions
	s.temporal.Start = func(o client.StartWorkflowOptions) error { started = o; return nil }
	got := s.as(merchant.RoleDeveloper).post("/test/webhooks/"+s.endpoint.ID+"/test", "type", "merchant.updated")
	require.Equal(t, "/test/deliveries/"+started.ID+" test_sent", got.to())
	require.Equal(t, "merchant.updated", value[string](s.desk, `SELECT e.type FROM event e JOIN webhook_delivery d ON d.event_id = e.id WHERE d.id = $1`, started.ID))
	require.Equal(t, s.endpoint.ID+" test merchant.updated", s.audited("webhook.tested"))
}

func TestDeliveries_SteeringSaysWhatHappens(t *testing.T) {
	s := plainSender(t)
	var signals []string
	s.temporal.Signal = func(id, name string) error { signals = append(signals, id+" "+name); return nil }
	s.attempt("run", 1, 503, "down for maintenance")
	dev, at := s.as(merchant.RoleDeveloper), "/test/deliveries/"+s.ref.ID
	text := dev.get(at).text()
	for _, want := range []string{
		"Attempt 1 of 6 failed", "data-countdown", "503", "took 1.5 s", "The status code was not 2xx.", "down for maintenance", "X-Service-Signature: t=<seconds since 1970>",
		"X-Service-Delivery-Id: " + s.ref.ID, `"source_amount": 100.50`, string(s.event.Body), "https://temporal.example/namespaces/shop.a1b2c/workflows/" + s.ref.ID,
	} {
		require.Contains(t, text, want)
	}
	before, _, _ := strings.Cut(text, "The whole answer")
	require.Contains(t, before, ">down for maintenance</pre>", "seen without unfolding")
	require.NotRegexp(t, secretIn, text)
	goes := func(action, notice string) {
		t.Helper()
		got := dev.post(at + "/" + action)
		require.Equal(t, at+" "+notice, got.to(), got.body)
	}
	goes("retry", "delivery_retried")
	goes("hold", "delivery_held")
	require.Contains(t, dev.get(at).text(), "until it is resumed")
	require.Equal(t, 409, dev.post(at+"/retry").status, "held")
	s.exec(`UPDATE webhook_delivery SET parked_at = now() WHERE id = $1`, s.ref.ID) // as its run does when the attempt is due
	goes("resume", "delivery_resumed")
	require.Equal(t, []string{s.ref.ID + " retry_now", s.ref.ID + " resume"}, signals)
	require.Equal(t, 409, dev.post(at+"/replay").status, "in progress")

	s.end(webhook.DeliveryFailed)
	require.Contains(t, dev.get(at).text(), "Every attempt failed")
	s.temporal.Start = func(client.StartWorkflowOptions) error { s.attempt("again", 1, 200, "thanks"); return nil }
	goes("replay", "delivery_replayed")
	text = dev.get(at).text()
	require.Contains(t, text, "Your server accepted it")
	require.Less(t, strings.Index(text, "thanks"), strings.Index(text, "down for maintenance"), "newest first")
	for _, action := range []string{"retried", "held", "resumed", "replay_requested"} {
		require.Equal(t, s.ref.ID+" test payout.sent to shop.example", s.audited("delivery."+action), action)
	}
	viewer := s.as(merchant.RoleViewer).get(at)
	require.Equal(t, 200, viewer.status)
	require.NotContains(t, viewer.text(), "/replay\"")
}

func TestDeliveries_Filters(t *testing.T) {
	s := plainSender(t)
	other := newSender(s.desk, s.merchant, checkout.ModeTest, "https://other.example/hook", "", `{}`)
	retried := newSender(s.desk, s.merchant, checkout.ModeTest, "https://retried.example/hook", "", `{}`)
	held := newSender(s.desk, s.merchant, checkout.ModeTest, "https://held.example/hook", "", `{}`)
	s.attempt("run", 1, 200, "")
	retried.attempt("run", 1, 500, "")
	s.exec(`UPDATE webhook_endpoint SET status = 'disabled' WHERE id = $1`, held.endpoint.ID)
	dev := s.as(merchant.RoleViewer)
	today, yesterday := time.Now().UTC().Format(time.DateOnly), time.Now().UTC().AddDate(0, 0, -1).Format(time.DateOnly)
	all := []string{held.ref.ID, retried.ref.ID, other.ref.ID, s.ref.ID}
	for query, want := range map[string][]string{
		"":                                   all,
		"status=delivered":                   {s.ref.ID},
		"status=pending":                     {other.ref.ID},
		"status=retrying":                    {retried.ref.ID},
		"status=on_hold":                     {held.ref.ID},
		"webhook=" + s.endpoint.ID:           {s.ref.ID},
		"webhook=wh_nothing":                 nil,
		"type=payout.sent":                   all,
		"type=payout.failed":                 nil,
		"event=" + s.event.ID:                {s.ref.ID},
		"from=" + yesterday + "&to=" + today: all,
		"to=" + yesterday:                    nil,
		"session=" + checkout.NewID(checkout.PrefixSession): nil,
		"before=" + other.ref.ID:                            {s.ref.ID},
	} {
		got := dev.open("/test/deliveries?" + query)
		var rows []string
		for _, m := range regexp.MustCompile(`<tr id="(whd_[^"]+)"`).FindAllStringSubmatch(got.body, -1) {
			rows = append(rows, m[1])
		}
		require.Equal(t, want, rows, query)
	}
	for _, query := range []string{"from=yesterday", "session=x", "event=%00", "status=bogus", "type=bogus"} {
		require.Equal(t, 422, dev.get("/test/deliveries?"+query).status, query)
	}
	require.Contains(t, dev.get("/live/deliveries").text(), "Nothing was sent yet.")
}

// TestDeliveries_AreReadAgainOnlyWhenTheyChanged checks that an unchanged page is not replaced
// while a person reads it, and that an open page asks to sign in once its reader has signed out.
func TestDeliveries_AreReadAgainOnlyWhenTheyChanged(t *testing.T) {
	s := plainSender(t)
	viewer := s.as(merchant.RoleViewer)
	paths := []string{"/test/deliveries", "/test/deliveries/" + s.ref.ID}
	reads := func(body string) string {
		t.Helper()
		found := regexp.MustCompile(`hx-get="([^"]+)" hx-trigger="every 3s"`).FindStringSubmatch(body)
		require.NotNil(t, found)
		return html.UnescapeString(found[1])
	}
	for i, path := range paths {
		again := reads(viewer.get(path).body)
		require.Equal(t, 200, viewer.get(again).status, "as a page of its own")
		got := viewer.send("GET", again, nil, "HX-Request", "true")
		require.Equal(t, 204, got.status)
		require.Empty(t, got.body)
		s.attempt("run", i+1, 500, "")
		got = viewer.send("GET", again, nil, "HX-Request", "true")
		require.Equal(t, 200, got.status)
		require.Equal(t, 204, viewer.send("GET", reads(got.body), nil, "HX-Request", "true").status)
	}
	paused := viewer.get("/test/deliveries?live=off")
	require.NotContains(t, paused.body, "hx-get")
	require.Contains(t, paused.text(), "Update again")
	require.NotContains(t, viewer.get("/test/deliveries?before="+s.ref.ID).body, "hx-get", "nothing new appears there")

	nobody := s.browser().send("GET", "/test/deliveries", nil, "HX-Request", "true")
	require.Equal(t, 401, nobody.status, "a redirect would be followed by the script, and its page be taken for the log")
	require.Equal(t, "/signin?next=%2Ftest%2Fdeliveries", withoutMerchant(nobody.header.Get("HX-Redirect")))

	s.end(webhook.DeliveryFailed)
	require.NotContains(t, s.as(merchant.RoleViewer).get(paths[1]).body, "hx-get", "it has ended")
}

func TestReplays_PreviewStartCancel(t *testing.T) {
	s := plainSender(t)
	s.attempt("run", 1, 500, "")
	s.end(webhook.DeliveryFailed)
	var started []string
	s.temporal.Start = func(o client.StartWorkflowOptions) error { started = append(started, o.ID); return nil }
	dev, at := s.as(merchant.RoleDeveloper), "/test/webhooks/"+s.endpoint.ID+"/replay"
	form := url.Values{"since": {"2020-01-01T00:00"}, "status": {"failed"}, "rate": {"5"}}
	got := dev.get(at + "?" + form.Encode())
	require.Contains(t, got.text(), "One delivery")
	require.Empty(t, started, "it is only counted")
	form.Set("status", "delivered")
	require.Contains(t, dev.get(at+"?"+form.Encode()).text(), "No deliveries match.")
	for name, wrong := range map[string]string{"since": "x", "until": "1999-01-01T00:00", "status": "pending", "rate": "101"} {
		bad := url.Values{"since": {"2020-01-01T00:00"}, "until": {""}, "status": {"failed"}, "rate": {"5"}}
		bad.Set(name, wrong)
		require.Equal(t, 422, dev.get(at+"?"+bad.Encode()).status, name)
		require.Equal(t, 422, dev.send("POST", at, bad).status, name)
	}
	require.Empty(t, started)
	got = dev.post(at, "since", "2020-01-01T00:00:00Z", "until", "2100-01-01T00:00:00Z", "status", "failed", "rate", "5")
	require.Equal(t, 409, got.status, "that of newSender runs")
	require.Contains(t, got.text(), "A bulk replay of this webhook is running")
	require.Empty(t, started)
	s.exec(`UPDATE webhook_replay SET status = 'completed', finished_at = now()`)
	got = dev.post(at, "since", "2020-01-01T00:00:00Z", "until", "2100-01-01T00:00:00Z", "status", "failed", "rate", "5")
	require.Len(t, started, 1)
	require.Equal(t, "/test/replays/"+started[0]+" replay_started", got.to())
	require.Contains(t, s.audited("replay.started"), started[0]+" test 1 failed deliveries of "+s.endpoint.ID+", 2020-01-01T00:00:00.000Z to ")
	page := dev.get("/test/replays/" + started[0])
	require.Contains(t, page.body, `hx-trigger="every 1s"`)
	require.Contains(t, page.text(), "of 1 sent again")
	require.NotContains(t, s.as(merchant.RoleViewer).get("/test/replays/"+started[0]).body, "Cancel")
	var canceled []string
	s.temporal.Cancel = func(id string) error { canceled = append(canceled, id); return nil }
	require.Equal(t, "/test/replays/"+started[0]+" replay_canceled", dev.formOf(page, "/test/replays/"+started[0]+"/cancel").send().to())
	require.Equal(t, started, canceled)

	require.NoError(t, s.store.Webhooks.RecordReplay(t.Context(), webhook.Replay{Ref: checkout.Owner{MerchantID: s.merchant, Mode: s.mode}.Ref(started[0]), Status: webhook.ReplayCompleted, Started: 1}))
	require.Equal(t, "/test/replays/"+started[0]+" replay_ended", dev.post("/test/replays/"+started[0]+"/cancel").to())
	page = dev.get("/test/replays/" + started[0])
	require.NotContains(t, page.body, "hx-trigger")
	require.Contains(t, page.text(), "It is complete.")
	require.Contains(t, dev.get(at).text(), "1 of 1")
}

func TestWebhooks_WhatOthersWroteIsText(t *testing.T) {
	d := newDesk(t)
	viewer, dev := d.as(merchant.RoleViewer), d.as(merchant.RoleDeveloper)
	for _, text := range payloads {
		quoted, err := json.Marshal(text)
		require.NoError(t, err)
		s := newSender(d, d.merchant, checkout.ModeTest, "https://shop.example/?q="+strings.ReplaceAll(text, " ", ""), text, `{"note":`+string(quoted)+`}`)
		s.attempt("run", 1, 500, text)
		for _, p := range []received{
			viewer.get("/test/webhooks"), viewer.get("/test/webhooks/" + s.endpoint.ID), dev.get("/test/webhooks/" + s.endpoint.ID + "/edit"),
			dev.get("/test/webhooks/" + s.endpoint.ID + "/delete"), viewer.get("/test/deliveries/" + s.ref.ID), viewer.get("/test/replays/" + s.replay.ID),
			dev.get("/test/webhooks/" + s.endpoint.ID + "/replay?since=" + url.QueryEscape(text) + "&rate=" + url.QueryEscape(text)),
			viewer.get("/test/deliveries?status=" + url.QueryEscape(text) + "&webhook=" + url.QueryEscape(text) + "&session=" + url.QueryEscape(text) + "&from=" + url.QueryEscape(text)),
			viewer.get("/test/deliveries"), dev.post("/test/webhooks", "url", text, "description", text),
		} {
			require.NotRegexp(t, `(?i)<script>|<img|<svg|<iframe|<style|<a hx-get|<[^>]*"[^">]*"\s+onfocus=|href="javascript:|<!--`, p.body, text)
		}
		shown := viewer.get("/test/deliveries/" + s.ref.ID)
		require.Contains(t, shown.text(), ">"+text+"</pre>", "the answer's body as it came")
	}
}
