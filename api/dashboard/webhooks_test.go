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
	"example.com/checkout/storage/storagetest/must"
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

// newEndpoint makes a registration for every event of the merchant in test mode.
func (d *desk) newEndpoint(address string) webhook.Endpoint {
	return must.Get(d.store.Webhooks.CreateEndpoint(d.t.Context(), webhook.Endpoint{
		Ref: d.ref(checkout.NewID(checkout.PrefixEndpoint)), URL: address,
		Events: webhook.EventTypes, Status: webhook.EndpointEnabled, Secret: webhook.NewSecret(),
	}))(d.t)
}

func newSender(d *desk, merchant string, mode checkout.Mode, address, description string, metadata string) sender {
	s := sender{desk: d, mode: mode}
	var err error
	s.endpoint = must.Get(d.store.Webhooks.CreateEndpoint(d.t.Context(), webhook.Endpoint{
		Ref: checkout.Owner{MerchantID: merchant, Mode: mode}.Ref(checkout.NewID(checkout.PrefixEndpoint)), URL: address, Description: &description,
		Events: []webhook.EventType{webhook.CheckoutFailed, webhook.PayoutSent}, Status: webhook.EndpointEnabled, Secret: webhook.NewSecret(),
	}))(d.t)
	m := must.Get(d.store.Merchants.Merchant(d.t.Context(), merchant))(d.t)
	event, ref, err := d.store.Webhooks.PublishTest(d.t.Context(), storage.TestEvent{
		Owner: checkout.Owner{MerchantID: merchant, Mode: mode}, EndpointID: s.endpoint.ID, SubjectID: checkout.NewID(checkout.PrefixTest), Type: webhook.PayoutSent,
		Data: func(at time.Time) any {
			return webhook.PayoutSent.Sample(m, json.RawMessage(metadata), at)
		},
	})
	require.NoError(d.t, err)
	s.event, s.ref = event, checkout.Owner{MerchantID: merchant, Mode: mode}.Ref(ref.ID)
	s.replay = must.Get(d.store.Webhooks.CreateReplay(d.t.Context(), webhook.Replay{
		Ref: checkout.Owner{MerchantID: merchant, Mode: mode}.Ref(checkout.NewID(checkout.PrefixReplay)), EndpointID: s.endpoint.ID,
		Since: time.Now().Add(-time.Hour), Until: time.Now(), Filter: webhook.DeliveryFailed, Rate: 1,
	}))(d.t)
	return s
}

func plainSender(t *testing.T, change ...func(*Config)) sender {
	d := newDesk(t, change...)
	return newSender(d, d.merchant, checkout.ModeTest, "https://shop.example/hook", "Orders", `{}`)
}

func newSenderAs(t *testing.T, role merchant.Role, change ...func(*Config)) (sender, *browser) {
	s := plainSender(t, change...)
	b := s.as(role)
	return s, b
}

// attempt makes an attempt; status 0 is one without an answer.
func (s sender) attempt(run string, number, status int, body string) {
	require.NoError(s.t, s.store.Webhooks.HurryAttempt(s.t.Context(), s.ref, run, time.Time{}))
	out := must.Get(s.store.Webhooks.BeginAttempt(s.t.Context(), s.ref, webhook.Turn{RunID: run, Try: number}))(s.t)
	a := webhook.Attempt{Run: out.Run, Number: number, Duration: 1500 * time.Millisecond, StatusCode: status, ResponseBody: []byte(body)}
	switch {
	case status == 0:
		a.ErrorKind = webhook.ErrorTimeout
	case status >= 300:
		a.ErrorKind = webhook.ErrorHTTP
	}
	require.NoError(s.t, s.store.Webhooks.FinishAttempt(s.t.Context(), s.ref, a, time.Hour))
}

func (s sender) end(status webhook.DeliveryStatus) {
	must.Get(s.store.Webhooks.EndDelivery(s.t.Context(), s.ref, "", status))(s.t)
}

func (s sender) stored() webhook.Endpoint {
	e := must.Get(s.store.Webhooks.Endpoint(s.t.Context(), s.endpoint.Ref))(s.t)
	return e
}

func (s sender) audited(action string) string {
	return value[string](s.desk, `SELECT coalesce(string_agg(subject || ' ' || coalesce(mode, '') || ' ' || detail, ';'), '') FROM audit_entry WHERE action = $1`, action)
}

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
	dev.get("/test/webhooks").shows("No server receives your events yet.")
	d.as(merchant.RoleViewer).get("/test/webhooks").hides("Add a webhook")
	for _, c := range []struct{ url, description, events, says string }{
		{"ftp://shop.example", "", "payout.sent", "must be an absolute http or https URL"},
		{"https://u:p@shop.example", "", "payout.sent", "must not contain a user name or password"},
		{"https://10.0.0.1/", "", "payout.sent", "must not lead to a private address"},
		{"https://shop.example/", strings.Repeat("x", 256), "payout.sent", "at most 255 characters"},
		{"https://shop.example/", "a\x00b", "payout.sent", "no control characters"},
		{"https://shop.example/", "", "unknown", "Choose at least one event."},
	} {
		got := dev.post("/test/webhooks", "url", c.url, "description", c.description, "events", c.events)
		got.is(422, c.url).shows(c.says, `class="wrong"`)
	}
	dev.post("/live/webhooks", "url", "http://shop.example/", "events", "payout.sent").is(422) // live is https only

	got := dev.follow(dev.post("/test/webhooks", "url", "https://shop.example/s3cret-path", "description", "Orders", "events", "payout.sent", "events", "checkout.failed"))
	got.is(200).shows("Your webhook is ready")
	secret := secretIn.FindString(got.body)
	require.NotEmpty(t, secret)
	id := value[string](d, `SELECT id FROM webhook_endpoint`)
	require.Equal(t, []string{"checkout.failed", "payout.sent"}, value[[]string](d, `SELECT events FROM webhook_endpoint`))
	entry := value[string](d, `SELECT subject || ' ' || mode || ' ' || detail FROM audit_entry WHERE action = 'webhook.created'`)
	require.Equal(t, id+" test for shop.example", entry, "without the path, which may be a secret, and without the secret")
	for _, path := range []string{"/test/webhooks", "/test/webhooks/" + id, "/test/webhooks/" + id + "/edit", "/test/audit"} {
		require.NotRegexp(t, secretIn, dev.get(path).body, path)
	}
	dev.get("/test/webhooks").shows("no events")
}

func TestWebhooks_ChangeHoldResumeRotateDelete(t *testing.T) {
	s := plainSender(t)
	dev, at := s.as(merchant.RoleDeveloper), "/test/webhooks/"+s.endpoint.ID
	dev.get("/test/webhooks").shows("0 of 1 delivered, 1 waiting")

	edit := dev.form(at+"/edit", at)
	edit.send("url", "https://new.example/x", "description", "", "events", "payout.failed").leads(at + " webhook_changed")
	e := s.stored()
	require.Equal(t, "https://new.example/x", e.URL)
	require.Equal(t, []webhook.EventType{webhook.PayoutFailed}, e.Events)
	require.Nil(t, e.Description)
	dev.post(at, "url", "nonsense", "events", "payout.failed").is(422)
	require.Equal(t, s.endpoint.ID+" test URL of: shop.example → new.example; events: [checkout.failed payout.sent] → [payout.failed]; description: “Orders” → “”", s.audited("webhook.changed"))

	dev.post(at + "/hold").leads(at + " webhook_held")
	dev.get(at).shows("no attempt is used up")
	dev.get("/test/deliveries").shows("on hold")
	dev.post(at + "/resume").leads(at + " webhook_resumed")
	dev.get(at).hides("on hold")
	require.NotEmpty(t, s.audited("webhook.held"))
	require.NotEmpty(t, s.audited("webhook.resumed"))

	require.Contains(t, dev.get(at).body, `<option value="24">for 24 hours</option><option value="1">for an hour</option>`+
		`<option value="72">for 72 hours</option><option value="0">not at all</option>`)
	got := dev.follow(dev.post(at+"/rotate", "hours", "1")).is(200)
	require.Regexp(t, secretIn, got.body)
	got.shows("signed with both secrets")
	require.Equal(t, s.endpoint.ID+" test the previous secret signs for 1 h more, unless another rotation ends it", s.audited("webhook.secret_rotated"))
	dev.get(at).shows("another rotation ends the older one immediately")
	dev.follow(dev.post(at+"/rotate", "hours", "0")).hides("signed with both secrets")
	dev.post(at+"/rotate", "hours", "999")
	require.Contains(t, s.audited("webhook.secret_rotated"), "24 h more", "only what is offered")

	dev.get(at + "/delete").shows("One delivery has not arrived yet and will be")
	dev.post(at + "/delete").leads("/test/webhooks webhook_deleted")
	dev.get(at).is(404)
	require.Equal(t, s.endpoint.ID+" test for new.example", s.audited("webhook.deleted"))
	dev.get("/test/deliveries/" + s.ref.ID).shows("a webhook that was deleted")
}

// A registration for all events was shown as its names, and a change of its boxes made names of it.
func TestWebhooks_AllEventsAreABoxOfTheirOwn(t *testing.T) {
	d, dev := newDeskAs(t, merchant.RoleDeveloper)
	form := dev.form("/test/webhooks/new", "/test/webhooks")
	require.Equal(t, []string{"*"}, form.fields["events"], "what a new webhook gets unless somebody chooses")
	form.send("url", "https://shop.example/hook").is(303)
	stored := func() []string { return value[[]string](d, `SELECT events FROM webhook_endpoint`) }
	require.Equal(t, []string{"*"}, stored())
	at := "/test/webhooks/" + value[string](d, `SELECT id FROM webhook_endpoint`)
	const all = "all, also types that are added later"
	dev.get("/test/webhooks").shows(all)
	dev.get(at).shows(all)

	dev.form(at+"/edit", at).send("description", "Orders").is(303)
	require.Equal(t, []string{"*"}, stored(), "nobody touched the boxes")
	dev.form(at+"/edit", at).send("events", "payout.sent", "events", "checkout.failed").leads(at + " webhook_changed")
	require.Equal(t, []string{"checkout.failed", "payout.sent"}, stored())
	dev.get(at).hides(all)
	dev.form(at+"/edit", at).send("events", "*", "events", "payout.sent").leads(at + " webhook_changed") // the names are hidden then
	require.Equal(t, []string{"*"}, stored())
}

func TestWebhooks_LimitsOfTheAttempts(t *testing.T) {
	s := plainSender(t)
	dev, at := s.as(merchant.RoleDeveloper), "/test/webhooks/"+s.endpoint.ID
	stored := func() string {
		return value[string](s.desk, `SELECT concat_ws(' ', coalesce(max_in_flight, 0), coalesce(rate_limit, 0)) FROM webhook_endpoint WHERE id = $1`, s.endpoint.ID)
	}
	dev.get(at).hides("at most")
	for _, wrong := range []string{"0", "1001", "-1", "1.5", "many"} {
		got := dev.form(at+"/edit", at).send("max_in_flight", wrong, "rate_limit", "5")
		got.is(422, wrong).shows("The limit must be a whole number from 1 to 1000.")
		require.Equal(t, wrong, dev.formOf(got, at).fields.Get("max_in_flight"), "what was typed stays")
	}
	require.Equal(t, "0 0", stored())

	a, b, c := dev.form(at+"/edit", at), dev.form(at+"/edit", at), dev.form(at+"/edit", at)
	a.send("max_in_flight", " 8 ").leads(at + " webhook_changed")
	b.send("rate_limit", "1000").leads(at + " webhook_changed")
	require.Equal(t, "8 1000", stored(), "the other tab's stays")
	dev.get(at).shows("at most 8", "at most 1000")
	lost := c.send("max_in_flight", "9", "rate_limit", "1000", "description", "Typed", "events", "payout.failed")
	lost.is(409).shows("You had entered “9”")
	again := dev.formOf(lost, at)
	require.Equal(t, []string{"8", "1000", "Typed"}, []string{again.fields.Get("max_in_flight"), again.fields.Get("rate_limit"), again.fields.Get("description")})
	require.Equal(t, []string{"payout.failed"}, again.fields["events"])
	dev.form(at+"/edit", at).send("max_in_flight", "", "rate_limit", "20").leads(at + " webhook_changed")
	require.Equal(t, "0 20", stored())
	audited := s.audited("webhook.changed")
	require.Contains(t, audited, "max_in_flight: default → 8;")
	require.Contains(t, audited, "rate_limit: default → 1000;")
	require.Contains(t, audited, "max_in_flight: 8 → default; rate_limit: 1000 → 20")

	dev.form("/test/webhooks/new", "/test/webhooks").send("url", "https://shop.example/new", "max_in_flight", "3", "rate_limit", "2").is(303)
	require.Equal(t, "3 2", value[string](s.desk, `SELECT max_in_flight || ' ' || rate_limit FROM webhook_endpoint WHERE url LIKE '%new'`))
}

// The REST API keeps the order of the types. A form that was shown in it looked like somebody else's change.
func TestWebhooks_TheOrderOfTypesIsNoConflict(t *testing.T) {
	s := plainSender(t)
	s.exec(`UPDATE webhook_endpoint SET events = '{payout.sent,checkout.failed}'`)
	dev, at := s.as(merchant.RoleDeveloper), "/test/webhooks/"+s.endpoint.ID
	dev.form(at+"/edit", at).send().leads(at + " nothing_changed")
	dev.form(at+"/edit", at).send("events", "merchant.updated").leads(at + " webhook_changed")
}

func TestWebhooks_TestEventGoesToThePageOfItsDelivery(t *testing.T) {
	s := plainSender(t)
	var started client.StartWorkflowOptions
	s.temporal.Start = func(o client.StartWorkflowOptions) error { started = o; return nil }
	got := s.as(merchant.RoleDeveloper).post("/test/webhooks/"+s.endpoint.ID+"/test", "type", "merchant.updated")
	got.leads("/test/deliveries/" + started.ID + " test_sent")
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
		dev.post(at + "/" + action).leads(at + " " + notice)
	}
	goes("retry", "delivery_retried")
	goes("hold", "delivery_held")
	dev.get(at).shows("until it is resumed")
	dev.post(at + "/retry").is(409)                                                 // held
	s.exec(`UPDATE webhook_delivery SET parked_at = now() WHERE id = $1`, s.ref.ID) // as its run does when the attempt is due
	goes("resume", "delivery_resumed")
	require.Equal(t, []string{s.ref.ID + " retry_now", s.ref.ID + " resume"}, signals)
	dev.post(at + "/replay").is(409) // in progress

	s.end(webhook.DeliveryFailed)
	dev.get(at).shows("Every attempt failed")
	s.temporal.Start = func(client.StartWorkflowOptions) error { s.attempt("again", 1, 200, "thanks"); return nil }
	goes("replay", "delivery_replayed")
	text = dev.get(at).text()
	require.Contains(t, text, "Your server accepted it")
	require.Less(t, strings.Index(text, "thanks"), strings.Index(text, "down for maintenance"), "newest first")
	for _, action := range []string{"retried", "held", "resumed", "replay_requested"} {
		require.Equal(t, s.ref.ID+" test payout.sent to shop.example", s.audited("delivery."+action), action)
	}
	s.as(merchant.RoleViewer).get(at).is(200).hides("/replay\"")
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
		dev.get("/test/deliveries?"+query).is(422, query)
	}
	dev.get("/live/deliveries").shows("Nothing was sent yet.")
}

// TestDeliveries_AreReadAgainOnlyWhenTheyChanged checks that an unchanged page is not replaced
// while a person reads it, and that an open page asks to sign in once its reader has signed out.
func TestDeliveries_AreReadAgainOnlyWhenTheyChanged(t *testing.T) {
	s, viewer := newSenderAs(t, merchant.RoleViewer)
	paths := []string{"/test/deliveries", "/test/deliveries/" + s.ref.ID}
	reads := func(body string) string {
		found := regexp.MustCompile(`hx-get="([^"]+)" hx-trigger="every 3s"`).FindStringSubmatch(body)
		require.NotNil(t, found)
		return html.UnescapeString(found[1])
	}
	for i, path := range paths {
		again := reads(viewer.get(path).body)
		viewer.get(again).is(200) // as a page of its own
		got := viewer.send("GET", again, nil, "HX-Request", "true").is(204)
		require.Empty(t, got.body)
		s.attempt("run", i+1, 500, "")
		got = viewer.send("GET", again, nil, "HX-Request", "true").is(200)
		viewer.send("GET", reads(got.body), nil, "HX-Request", "true").is(204)
	}
	viewer.get("/test/deliveries?live=off").hides("hx-get").shows("Update again")
	viewer.get("/test/deliveries?before=" + s.ref.ID).hides("hx-get") // nothing new appears there

	nobody := s.browser().send("GET", "/test/deliveries", nil, "HX-Request", "true")
	nobody.is(401) // a redirect would be followed by the script, and its page be taken for the log
	require.Equal(t, "/signin?next=%2Ftest%2Fdeliveries", withoutMerchant(nobody.header.Get("HX-Redirect")))

	s.end(webhook.DeliveryFailed)
	s.as(merchant.RoleViewer).get(paths[1]).hides("hx-get") // it has ended
}

func TestReplays_PreviewStartCancel(t *testing.T) {
	s := plainSender(t)
	s.attempt("run", 1, 500, "")
	s.end(webhook.DeliveryFailed)
	var started []string
	s.temporal.Start = func(o client.StartWorkflowOptions) error { started = append(started, o.ID); return nil }
	dev, at := s.as(merchant.RoleDeveloper), "/test/webhooks/"+s.endpoint.ID+"/replay"
	form := url.Values{"since": {"2020-01-01T00:00"}, "status": {"failed"}, "rate": {"5"}}
	dev.get(at + "?" + form.Encode()).shows("One delivery")
	require.Empty(t, started, "it is only counted")
	form.Set("status", "delivered")
	dev.get(at + "?" + form.Encode()).shows("No deliveries match.")
	for name, wrong := range map[string]string{"since": "x", "until": "1999-01-01T00:00", "status": "pending", "rate": "101"} {
		bad := url.Values{"since": {"2020-01-01T00:00"}, "until": {""}, "status": {"failed"}, "rate": {"5"}}
		bad.Set(name, wrong)
		dev.get(at+"?"+bad.Encode()).is(422, name)
		dev.send("POST", at, bad).is(422, name)
	}
	require.Empty(t, started)
	got := dev.post(at, "since", "2020-01-01T00:00:00Z", "until", "2100-01-01T00:00:00Z", "status", "failed", "rate", "5")
	got.is(409).shows("A bulk replay of this webhook is running") // that of newSender runs
	require.Empty(t, started)
	s.exec(`UPDATE webhook_replay SET status = 'completed', finished_at = now()`)
	got = dev.post(at, "since", "2020-01-01T00:00:00Z", "until", "2100-01-01T00:00:00Z", "status", "failed", "rate", "5")
	require.Len(t, started, 1)
	got.leads("/test/replays/" + started[0] + " replay_started")
	require.Contains(t, s.audited("replay.started"), started[0]+" test 1 failed deliveries of "+s.endpoint.ID+", 2020-01-01T00:00:00.000Z to ")
	page := dev.get("/test/replays/"+started[0]).shows(`hx-trigger="every 1s"`, "of 1 sent again")
	s.as(merchant.RoleViewer).get("/test/replays/" + started[0]).hides("Cancel")
	var canceled []string
	s.temporal.Cancel = func(id string) error { canceled = append(canceled, id); return nil }
	dev.formOf(page, "/test/replays/"+started[0]+"/cancel").send().leads("/test/replays/" + started[0] + " replay_canceled")
	require.Equal(t, started, canceled)

	require.NoError(t, s.store.Webhooks.RecordReplay(t.Context(), webhook.Replay{Ref: checkout.Owner{MerchantID: s.merchant, Mode: s.mode}.Ref(started[0]), Status: webhook.ReplayCompleted, Started: 1}))
	dev.post("/test/replays/" + started[0] + "/cancel").leads("/test/replays/" + started[0] + " replay_ended")
	dev.get("/test/replays/" + started[0]).hides("hx-trigger").shows("It is complete.")
	dev.get(at).shows("1 of 1")
}
