package listen

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/webhook"
)

var testKey = "sk_test_" + strings.Repeat("0123456789abcdef", 4)

// posted is a request to the local server.
type posted struct {
	ID     string
	Header http.Header
	Body   string
}

// bench is a listener between an API and a local server. Its pauses take a millisecond.
type bench struct {
	t *testing.T
	Options
	timeout time.Duration // of the local server

	mu     sync.Mutex
	feed   []webhook.Event                             // in the order in which they became visible
	asked  int                                         // requests to the API
	answer func(w http.ResponseWriter) (answered bool) // of the API, instead of its own
	got    []posted
	local  func(w http.ResponseWriter, n int) // answers the n-th request to the local server; nil: 200
	out    bytes.Buffer
	pauses []time.Duration
}

func newBench(t *testing.T) *bench {
	t.Parallel()
	b := &bench{t: t, timeout: webhook.ResponseTimeout}
	api, local := httptest.NewServer(http.HandlerFunc(b.serveAPI)), httptest.NewServer(http.HandlerFunc(b.serveLocal))
	t.Cleanup(api.Close)
	t.Cleanup(local.Close)
	b.Options = Options{
		APIKey: testKey, APIURL: api.URL, ForwardTo: local.URL + "/webhook", StateFile: filepath.Join(t.TempDir(), "state.json"), Out: b,
	}
	return b
}

// serveAPI answers GET /v1/events as the service does.
func (b *bench) serveAPI(w http.ResponseWriter, r *http.Request) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.asked++
	if b.answer != nil && b.answer(w) {
		return
	}
	query := r.URL.Query()
	found, limit := slices.Clone(b.feed), 100
	if after := query.Get("after"); after != "" {
		i := slices.IndexFunc(found, func(e webhook.Event) bool { return e.ID == after })
		if i < 0 {
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, `{"error":"invalid_request","param":"after","message":"must be one of your events"}`)
			return
		}
		found = found[i+1:]
	}
	if query.Get("order") != "asc" { // newest first
		limit = 1
		slices.SortFunc(found, func(x, y webhook.Event) int { return strings.Compare(y.ID, x.ID) })
		cursor := query.Get("cursor")
		found = slices.DeleteFunc(found, func(e webhook.Event) bool { return cursor != "" && e.ID >= cursor })
	}
	if r.URL.Path != "/v1/events" || r.Header.Get("Authorization") != "Bearer "+testKey {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	text, _ := checkout.EncodeJSON(map[string]any{"data": found[:min(limit, len(found))], "has_more": len(found) > limit})
	_, _ = w.Write(text)
}

func (b *bench) serveLocal(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	b.mu.Lock()
	b.got = append(b.got, posted{r.Header.Get("X-Service-Event-Id"), r.Header, string(body)})
	n, answer := len(b.got), b.local
	b.mu.Unlock()
	if answer != nil {
		answer(w, n)
	}
}

// add publishes an event that was created some time ago.
func (b *bench) add(typ webhook.EventType, ago time.Duration) webhook.Event {
	at := time.Now().Add(-ago).UTC().Truncate(time.Millisecond)
	const stem = len("evt_") + 10 // the digits of the time
	id := checkout.FirstID("evt", at)[:stem] + checkout.NewID("evt")[stem:]
	body, err := webhook.Envelope(id, typ, at, map[string]any{"note": "<b>&\u2028é", "amount": 10.50, "id": "txn"})
	require.NoError(b.t, err)
	e := webhook.Event{Ref: checkout.Owner{Mode: checkout.ModeTest}.Ref(id), Type: typ, CreatedAt: at, Body: body}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.feed = append(b.feed, e)
	return e
}

func (b *bench) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.out.Write(p)
}

func (b *bench) said() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.out.String()
}

func (b *bench) says(text string) func() bool {
	return func() bool { return strings.Contains(b.said(), text) }
}

func (b *bench) ids() (ids []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, p := range b.got {
		ids = append(ids, p.ID)
	}
	return ids
}

func (b *bench) arrived(n int) func() bool { return func() bool { return len(b.ids()) >= n } }

// looked returns true after n more requests to the API.
func (b *bench) looked(n int) func() bool {
	asked := func() int { b.mu.Lock(); defer b.mu.Unlock(); return b.asked }
	from := asked()
	return func() bool { return asked() >= from+n }
}

// start runs a listener until stop is called, which returns its error. ended is closed when it ends.
func (b *bench) start() (stop func() error, ended <-chan struct{}) {
	require.NoError(b.t, b.Check())
	l := newListener(b.Options)
	l.timeout = b.timeout
	l.pause = func(ctx context.Context, d time.Duration) error {
		b.mu.Lock()
		b.pauses = append(b.pauses, d)
		b.mu.Unlock()
		return pause(ctx, time.Millisecond)
	}
	ctx, cancel := context.WithCancel(b.t.Context())
	done := make(chan struct{})
	var err error
	go func() { defer close(done); err = l.run(ctx) }()
	stop = func() error { cancel(); <-done; return err }
	b.t.Cleanup(func() { _ = stop() })
	return stop, done
}

// run starts a listener and stops it when look returns true.
func (b *bench) run(look func() bool) {
	stop, _ := b.start()
	b.await(look)
	require.NoError(b.t, stop())
}

func (b *bench) await(look func() bool) {
	require.Eventually(b.t, look, 20*time.Second, time.Millisecond)
}

// fails runs a listener that ends by itself and returns its error.
func (b *bench) fails() error {
	stop, ended := b.start()
	<-ended
	return stop()
}

// begun runs once without any event, so that the next run catches up.
func (b *bench) begun() *bench {
	b.run(b.says("events from now on"))
	return b
}

// secret reads the signing secret where a developer may look for it.
func (b *bench) secret() string {
	text, err := os.ReadFile(b.StateFile)
	require.NoError(b.t, err)
	var s struct{ Secret string }
	require.NoError(b.t, json.Unmarshal(text, &s))
	return s.Secret
}

func idsOf(events ...webhook.Event) (ids []string) {
	for _, e := range events {
		ids = append(ids, e.ID)
	}
	return ids
}
