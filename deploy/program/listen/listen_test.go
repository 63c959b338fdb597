package listen

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/checkout/storage/pgtemp"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/webhook"
)

func TestListen_FirstRunBeginsNowAndForwardsWhatADeliverySends(t *testing.T) {
	b := newBench(t)
	b.StateFile = filepath.Join(t.TempDir(), "made", "for", "it", "state.json")
	b.add(webhook.CheckoutCompleted, time.Hour)
	b.add(webhook.CheckoutCompleted, 0)
	stop, _ := b.start()
	b.await(b.says("first run: events from now on"))
	want := b.add(webhook.PayoutSent, 0)
	b.await(b.looked(3))
	require.NoError(t, stop())

	require.Equal(t, []string{want.ID}, b.ids(), "the ones before were not new")
	got := b.got[0]
	require.Equal(t, string(want.Body), got.Body)
	secret := b.secret()
	require.NoError(t, webhook.Verify(secret, got.Header.Get("X-Service-Signature"), []byte(got.Body), time.Now()))
	got.Header.Del("X-Service-Signature")
	require.Equal(t, http.Header{
		"Content-Type": {"application/json"}, "User-Agent": {"Checkout-Webhooks/1.0"}, "Content-Length": {strconv.Itoa(len(want.Body))},
		"X-Service-Event-Id": {want.ID}, "X-Service-Event-Type": {"payout.sent"}, "X-Service-Attempt": {"1"},
	}, got.Header)
	require.Contains(t, b.said(), "  "+secret+"\n")
	require.Regexp(t, `(?m)^\d\d:\d\d:\d\d payout\.sent        `+want.ID+` → 200 +\d+ ms$`, b.said())
	require.Contains(t, b.said(), "\n1 forwarded, 0 failed\n")

	b.run(b.looked(2))
	require.Equal(t, secret, b.secret())
	info, err := os.Stat(b.StateFile)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode())
}

func TestListen_CatchesUpOverSeveralPagesInOrderAndOnce(t *testing.T) {
	b := newBench(t).begun()
	var want []webhook.Event
	for i := range 250 {
		want = append(want, b.add(webhook.CheckoutCompleted, time.Hour-time.Duration(i)*time.Second))
	}
	b.run(b.arrived(250))
	require.Equal(t, idsOf(want...), b.ids())
	require.Contains(t, b.said(), "events missed while listen did not run come first")
	b.run(b.looked(3))
	require.Len(t, b.ids(), 250, "nothing is sent again")
}

// An id is made before its transaction commits. So a later id may become visible first.
func TestListen_ForwardsAnEventThatBecomesVisibleLate(t *testing.T) {
	b := newBench(t).begun()
	second := b.add(webhook.CheckoutCompleted, 0)
	b.run(b.arrived(1))
	first := b.add(webhook.CheckoutCompleted, time.Hour)
	b.run(b.arrived(2))
	b.run(b.looked(3))
	require.Equal(t, idsOf(second, first), b.ids(), "each once")
}

func TestListen_GoesOnWhenTheServiceHasRemovedTheLastEvent(t *testing.T) {
	b := newBench(t).begun()
	old := b.add(webhook.CheckoutCompleted, 30*time.Hour)
	last := b.add(webhook.CheckoutCompleted, 20*time.Hour)
	b.run(b.arrived(2))
	b.feed = b.feed[:1]
	late := b.add(webhook.CheckoutCompleted, 20*time.Hour+time.Minute)
	later := b.add(webhook.CheckoutCompleted, time.Minute)
	b.run(b.arrived(4))
	b.run(b.looked(3))
	require.Equal(t, idsOf(old, last, late, later), b.ids(), "each once")
}

func TestListen_GoesOnFromAStateOfVersion100(t *testing.T) {
	b := newBench(t)
	old, last := b.add(webhook.CheckoutCompleted, time.Hour), b.add(webhook.CheckoutCompleted, time.Minute)
	secret := webhook.NewSecret()
	require.NoError(t, os.WriteFile(b.StateFile, []byte(`{
		"version": 1, "secret": "`+secret+`", "began": "2026-01-31T09:30:00.123456Z",
		"position": "`+last.ID+`", "recent": ["`+last.ID+`"], "after": "`+last.ID+`", "floor": "`+old.ID+`"
	}`), 0o600))
	want := b.add(webhook.CheckoutCompleted, 0)
	b.run(b.arrived(1))
	require.Equal(t, idsOf(want), b.ids())
	require.Equal(t, secret, b.secret())
}

// The test copies the state file while the local server handles the third event. A kill at that
// moment would leave the same file.
func TestListen_AKillRepeatsTheEventUnderWayOnly(t *testing.T) {
	b := newBench(t).begun()
	for range 5 {
		b.add(webhook.CheckoutCompleted, 0)
	}
	var killed []byte
	b.local = func(_ http.ResponseWriter, n int) {
		if n == 3 {
			killed, _ = os.ReadFile(b.StateFile)
		}
	}
	b.run(b.arrived(5))
	require.NoError(t, os.WriteFile(b.StateFile, killed, 0o600))
	require.NoError(t, os.WriteFile(b.StateFile+".new", []byte("{half"), 0o600), "what a kill within a write leaves")
	b.run(b.arrived(8))
	require.Equal(t, append(idsOf(b.feed...), idsOf(b.feed[2:]...)...), b.ids())
}

func TestListen_LetsTheEventUnderWayFinishWhenStopped(t *testing.T) {
	b := newBench(t).begun()
	b.add(webhook.CheckoutCompleted, 0)
	began, release := make(chan struct{}), make(chan struct{})
	b.local = func(http.ResponseWriter, int) { close(began); <-release }
	stop, _ := b.start()
	<-began
	time.AfterFunc(50*time.Millisecond, func() { close(release) })
	require.NoError(t, stop())
	require.Contains(t, b.said(), "1 forwarded, 0 failed")
	b.run(b.looked(3))
	require.Len(t, b.ids(), 1, "nothing is left")
}

func TestListen_WaitsForAnAPIThatIsAway(t *testing.T) {
	b := newBench(t)
	address, broken := b.APIURL, 0
	b.answer = func(w http.ResponseWriter) bool {
		switch broken++; broken {
		case 1:
			w.WriteHeader(http.StatusServiceUnavailable)
		case 2:
			w.WriteHeader(http.StatusTooManyRequests)
		case 3, 6:
			_, _ = io.WriteString(w, "<html>")
		case 4, 7:
			panic(http.ErrAbortHandler) // closes the connection without an answer
		default:
			return false
		}
		return true
	}
	want := b.add(webhook.CheckoutCompleted, time.Minute)
	b.Since = want.CreatedAt
	b.run(b.arrived(1))
	require.Equal(t, 1, strings.Count(b.said(), address+" is away (status 503); listen waits for it"))
	require.Equal(t, 1, strings.Count(b.said(), address+" is away (no list of events came)"))
	require.Equal(t, 2, strings.Count(b.said(), " is away ("), "once for each time")
	require.Equal(t, 2, strings.Count(b.said(), address+" is back"))
}

func TestListen_EndsWhenTheAPIRefuses(t *testing.T) {
	for _, status := range []int{http.StatusUnauthorized, http.StatusFound, http.StatusNotFound} {
		t.Run(strconv.Itoa(status), func(t *testing.T) {
			b := newBench(t)
			b.answer = func(w http.ResponseWriter) bool {
				w.Header().Set("Location", "/elsewhere")
				w.WriteHeader(status)
				_, _ = io.WriteString(w, `{"error":"x","message":"no such key"}`)
				return true
			}
			err := b.fails()
			require.EqualError(t, err, fmt.Sprintf("%s refuses to list events (status %d \"no such key\"): "+
				"look at CHECKOUT_API_KEY, and at --api or CHECKOUT_API_URL", b.APIURL, status))
			require.Equal(t, 1, b.asked)
		})
	}
}

func TestListen_WaitsForALocalServerThatDoesNotRun(t *testing.T) {
	b := newBench(t).begun()
	ports, err := pgtemp.FreePorts(1)
	require.NoError(t, err)
	address := "127.0.0.1:" + strconv.Itoa(ports[0])
	b.ForwardTo = "http://" + address
	for range 3 {
		b.add(webhook.CheckoutCompleted, 0)
	}
	stop, _ := b.start()
	b.await(b.looked(10))
	require.Equal(t, 1, strings.Count(b.said(), b.ForwardTo+" is away ("))
	server := httptest.NewUnstartedServer(http.HandlerFunc(b.serveLocal))
	defer server.Close()
	server.Listener, err = pgtemp.Listen(address)
	require.NoError(t, err)
	server.Start()
	b.await(b.says(idsOf(b.feed...)[2] + " → 200"))
	require.NoError(t, stop())
	require.Equal(t, idsOf(b.feed...), b.ids())
	require.Equal(t, "1", b.got[0].Header.Get("X-Service-Attempt"), "waiting is no attempt")
	require.Contains(t, b.said(), b.ForwardTo+" is back")
}

func TestListen_TriesARefusedEventFourTimesAndListsIt(t *testing.T) {
	b := newBench(t).begun()
	b.timeout = 50 * time.Millisecond
	bad, good := b.add(webhook.CheckoutFailed, time.Second), b.add(webhook.CheckoutCompleted, 0)
	release := make(chan struct{})
	defer close(release)
	b.local = func(w http.ResponseWriter, n int) {
		switch n {
		case 1:
			w.Header().Set("Location", "/elsewhere")
			w.WriteHeader(http.StatusFound)
		case 2:
			<-release // no answer in time
		case 3:
			panic(http.ErrAbortHandler)
		case 4:
			w.WriteHeader(http.StatusBadRequest)
		case 5: // a body that does not end
			_ = http.NewResponseController(w).Flush()
			<-release
		}
	}
	b.run(b.says(good.ID + " → 200"))
	require.Equal(t, idsOf(bad, bad, bad, bad, good), b.ids())
	for i, result := range []string{"302", "timeout", "error", "400"} {
		require.Equal(t, strconv.Itoa(i+1), b.got[i].Header.Get("X-Service-Attempt"))
		require.Contains(t, b.said(), bad.ID+" → "+result)
	}
	require.Subset(t, b.pauses, []time.Duration{time.Second, 2 * time.Second, 5 * time.Second})
	require.Contains(t, b.said(), "attempt 4 of 4 in 5s")
	require.Contains(t, b.said(), "1 forwarded, 1 failed\n  checkout.failed    "+bad.ID+" → 400\n")
	require.Contains(t, b.said(), "--since "+checkout.FormatTime(bad.CreatedAt))
	b.run(b.looked(3))
	require.Len(t, b.ids(), 5, "it is settled")
}

func TestListen_SkipsOtherTypesForGood(t *testing.T) {
	b := newBench(t).begun()
	b.Events = []string{"payout.sent"}
	b.add(webhook.CheckoutCompleted, 0)
	want := b.add(webhook.PayoutSent, 0)
	b.add(webhook.CheckoutCompleted, 0)
	b.run(b.looked(3))
	b.Events = nil
	b.run(b.looked(3))
	require.Equal(t, idsOf(want), b.ids())
}

func TestListen_SinceSendsAgainFromThatTimeOn(t *testing.T) {
	b := newBench(t).begun()
	for _, ago := range []time.Duration{5 * time.Hour, 30 * time.Minute, 10*time.Minute + time.Millisecond} {
		b.add(webhook.CheckoutCompleted, ago)
	}
	first, second := b.add(webhook.CheckoutCompleted, 10*time.Minute), b.add(webhook.CheckoutCompleted, time.Minute)
	b.run(b.arrived(5))
	b.Since = first.CreatedAt
	b.run(b.arrived(7))
	b.Since = time.Time{}
	b.run(b.looked(3))
	require.Equal(t, idsOf(first, second), b.ids()[5:])
}

func TestListen_LeavesAStateFileThatItCannotUse(t *testing.T) {
	t.Parallel()
	secret := webhook.NewSecret()
	for name, text := range map[string]string{
		"half":            `{"version": 1, "secret": "` + secret,
		"another version": `{"version": 2, "secret": "` + secret + `"}`,
		"no secret":       `{"version": 1}`,
		"bad position":    `{"version": 1, "secret": "` + secret + `", "after": "cs_1"}`,
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			require.NoError(t, os.WriteFile(b.StateFile, []byte(text), 0o600))
			err := b.fails()
			require.ErrorContains(t, err, "the state file "+b.StateFile+" is not as this listen writes it")
			require.NotContains(t, err.Error(), secret)
			kept, err := os.ReadFile(b.StateFile)
			require.NoError(t, err)
			require.Equal(t, text, string(kept))
		})
	}
}

func TestListen_RefusesAStateFileInUse(t *testing.T) {
	b := newBench(t)
	stop, _ := b.start()
	b.await(b.looked(1))
	require.ErrorContains(t, Run(t.Context(), b.Options), "another listen uses the state file "+b.StateFile)
	require.NoError(t, stop())
	b.run(b.looked(2))
}

func TestListen_SendsNothingThatItCannotNote(t *testing.T) {
	b := newBench(t).begun()
	b.add(webhook.CheckoutCompleted, 0)
	b.add(webhook.CheckoutCompleted, 0)
	b.local = func(http.ResponseWriter, int) { _ = os.Mkdir(b.StateFile+".new", 0o700) }
	require.ErrorContains(t, b.fails(), "how far listen has come cannot be noted, so it ends")
	require.Len(t, b.ids(), 1)
}

func TestListen_JSONIsAnObjectALine(t *testing.T) {
	b := newBench(t)
	b.JSON = true
	b.local = func(w http.ResponseWriter, n int) {
		if n <= 4 {
			w.WriteHeader(http.StatusTeapot)
		}
	}
	b.begun()
	bad, good := b.add(webhook.CheckoutCompleted, time.Second), b.add(webhook.PayoutSent, 0)
	b.run(b.arrived(5))
	var kinds []string
	var last map[string]any
	for text := range strings.Lines(b.said()) {
		var l map[string]any
		require.NoError(t, json.Unmarshal([]byte(text), &l), text)
		kinds = append(kinds, l["kind"].(string))
		_, err := checkout.ParseTime(l["time"].(string))
		require.NoError(t, err)
		if l["kind"] == "ready" {
			require.Equal(t, []any{b.secret(), b.StateFile, b.APIURL, b.ForwardTo}, []any{l["secret"], l["state_file"], l["api"], l["forward_to"]})
		}
		if l["event_id"] == good.ID {
			require.Equal(t, []any{"payout.sent", 200.0, 1.0, checkout.FormatTime(good.CreatedAt)}, []any{l["type"], l["status"], l["attempt"], l["created_at"]})
		}
		last = l
	}
	require.Equal(t, []any{1.0, 1.0, bad.ID}, []any{last["forwarded"], last["failed"], last["failures"].([]any)[0].(map[string]any)["event_id"]})
	require.Equal(t, strings.Fields("ready notice end ready notice attempt attempt attempt attempt attempt end"), kinds)
}

func TestOptions_NameTheFault(t *testing.T) {
	t.Parallel()
	valid := Options{APIKey: testKey, APIURL: "http://127.0.0.1:8080", ForwardTo: "http://localhost:3000/webhook"}
	for name, c := range map[string]struct {
		change func(o *Options)
		want   string
	}{
		"no key":           {func(o *Options) { o.APIKey = "" }, "CHECKOUT_API_KEY must be a test key"},
		"live key":         {func(o *Options) { o.APIKey = "sk_live_" + testKey[8:] }, "CHECKOUT_API_KEY must be a test key"},
		"malformed key":    {func(o *Options) { o.APIKey += "\n" }, "CHECKOUT_API_KEY must be a test key"},
		"no target":        {func(o *Options) { o.ForwardTo = "" }, "--forward-to must be the local server's URL"},
		"target's scheme":  {func(o *Options) { o.ForwardTo = "localhost:3000" }, "--forward-to must be the local server's URL"},
		"target with user": {func(o *Options) { o.ForwardTo = "http://a:b@localhost" }, "--forward-to must be the local server's URL"},
		"API's scheme":     {func(o *Options) { o.APIURL = "ftp://x" }, "--api (CHECKOUT_API_URL) must be a URL"},
		"unencrypted":      {func(o *Options) { o.APIURL = "http://127.0.0.1.example" }, "must be https://: over http:// the key would travel unencrypted"},
		"unknown type":     {func(o *Options) { o.Events = []string{"payout.send"} }, `--events has an unknown event type "payout.send"; known are [checkout.completed`},
	} {
		o := valid
		c.change(&o)
		err := o.Check()
		require.ErrorContains(t, err, c.want, name)
		require.NotContains(t, err.Error(), testKey[8:24], name)
	}
	for _, address := range []string{"https://api.example", "http://localhost:8080/", "http://[::1]:8080", "http://127.9.9.9"} {
		o := valid
		o.APIURL = address
		require.NoError(t, o.Check(), address)
	}
	o := valid
	o.APIURL, o.PlainHTTP = "http://api:8080", true
	require.NoError(t, o.Check())
	require.Contains(t, o.StateFile, "/checkout/listen/eb1abe7ae8f1ed55.json", "that of 1.0.0")
}

func TestParseSince(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 31, 9, 30, 0, 0, time.UTC)
	for text, ago := range map[string]time.Duration{"10m": 10 * time.Minute, "36h": 36 * time.Hour, "2026-01-31T10:00:00+01:00": 30 * time.Minute} {
		got, err := ParseSince(text, now)
		require.NoError(t, err, text)
		require.Equal(t, now.Add(-ago), got.UTC(), text)
	}
	for _, text := range []string{"", "-10m", "0s", "2d", "2026-01-31", "2026-02-01T00:00:00Z"} {
		_, err := ParseSince(text, now)
		require.ErrorContains(t, err, "must be a duration such as 10m", text)
	}
}
