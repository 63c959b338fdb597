package listen

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/checkout/storage/pgtemp"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/webhook"
)

// fakeAPI answers GET /v1/events as the service does.
type fakeAPI struct {
	*httptest.Server
	mu       sync.Mutex
	events   []webhook.Event // in the order of their ids
	feed     []webhook.Event // in the order in which they became visible
	queries  []string
	failWith func(w http.ResponseWriter, n int) bool // n counts requests from 1; true means that it has answered
}

func newFakeAPI(t *testing.T) *fakeAPI {
	a := &fakeAPI{}
	a.Server = httptest.NewServer(a)
	t.Cleanup(a.Close)
	return a
}

func (a *fakeAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.queries = append(a.queries, r.URL.RawQuery)
	if a.failWith != nil && a.failWith(w, len(a.queries)) {
		return
	}
	if r.URL.Path != "/v1/events" || r.Header.Get("Authorization") != "Bearer "+testKey {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	limit, err := strconv.Atoi(r.URL.Query().Get("limit"))
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	answer := struct {
		Data       []webhook.Event `json:"data"`
		HasMore    bool            `json:"has_more"`
		NextCursor *string         `json:"next_cursor"`
	}{Data: []webhook.Event{}}
	events := slices.Clone(a.events)
	slices.Reverse(events)
	if query := r.URL.Query(); query.Get("order") == "asc" {
		events = a.feed
		if after := query.Get("after"); after != "" {
			i := slices.IndexFunc(events, func(e webhook.Event) bool { return e.ID == after })
			if i < 0 {
				w.WriteHeader(http.StatusBadRequest)
				_, _ = io.WriteString(w, `{"error":"invalid_request","param":"after","message":"is not one of your events"}`)
				return
			}
			events = events[i+1:]
		}
	}
	for _, e := range events {
		if cursor := r.URL.Query().Get("cursor"); cursor != "" && e.ID >= cursor {
			continue
		}
		if len(answer.Data) == limit {
			answer.HasMore, answer.NextCursor = true, &answer.Data[limit-1].ID
			break
		}
		answer.Data = append(answer.Data, e)
	}
	text, _ := checkout.EncodeJSON(answer)
	_, _ = w.Write(text)
}

func (a *fakeAPI) fail(with func(w http.ResponseWriter, n int) bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.queries, a.failWith = nil, with
}

// asked returns the number of requests since fail.
func (a *fakeAPI) asked() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.queries)
}

// add publishes an event with the time of creation at.
func (a *fakeAPI) add(typ webhook.EventType, at time.Time) webhook.Event {
	at = at.UTC().Truncate(time.Millisecond)
	id := firstID(at)[:len("evt_")+10] + checkout.NewID("evt")[len("evt_")+10:] // the time of at, the rest random
	body, err := webhook.Envelope(id, typ, at, map[string]any{"note": "<b>&\u2028é", "amount": 10.50, "id": "txn"})
	if err != nil {
		panic(err)
	}
	e := webhook.Event{Ref: checkout.Owner{Mode: checkout.ModeTest}.Ref(id), Type: typ, CreatedAt: at, Body: body}
	a.put(e)
	return e
}

func (a *fakeAPI) put(e webhook.Event) {
	a.mu.Lock()
	defer a.mu.Unlock()
	i, _ := slices.BinarySearchFunc(a.events, e.ID, func(e webhook.Event, id string) int { return strings.Compare(e.ID, id) })
	a.events = slices.Insert(a.events, i, e)
	a.feed = append(a.feed, e)
}

// remove takes an event away, as the service does with old ones.
func (a *fakeAPI) remove(id string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	is := func(e webhook.Event) bool { return e.ID == id }
	a.events, a.feed = slices.DeleteFunc(a.events, is), slices.DeleteFunc(a.feed, is)
}

// posted is a request to the local server.
type posted struct {
	ID     string
	Header http.Header
	Body   string
}

// fakeLocal is the developer's server.
type fakeLocal struct {
	*httptest.Server
	mu     sync.Mutex
	got    []posted
	answer func(w http.ResponseWriter, n int) // n counts requests from 1
}

func newFakeLocal(t *testing.T) *fakeLocal {
	l := &fakeLocal{}
	l.Server = httptest.NewServer(l)
	t.Cleanup(l.Close)
	return l
}

func (l *fakeLocal) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	l.mu.Lock()
	l.got = append(l.got, posted{r.Header.Get("X-Service-Event-Id"), r.Header, string(body)})
	n, answer := len(l.got), l.answer
	l.mu.Unlock()
	if answer != nil {
		answer(w, n)
	}
}

// answers replaces the server's answer 200 by the function with.
func (l *fakeLocal) answers(with func(w http.ResponseWriter, n int)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.answer = with
}

func (l *fakeLocal) posts() []posted {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.got)
}

func (l *fakeLocal) ids() []string {
	var ids []string
	for _, p := range l.posts() {
		ids = append(ids, p.ID)
	}
	return ids
}

var testKey = "sk_test_" + strings.Repeat("0123456789abcdef", 4)

// bench is a listener between a fake API and a fake local server, with pauses
// that take a millisecond.
type bench struct {
	t     *testing.T
	api   *fakeAPI
	local *fakeLocal
	Options
	timeout time.Duration // time-out of the local server; 0 means the real one

	mu     sync.Mutex
	out    bytes.Buffer
	pauses []time.Duration
}

func newBench(t *testing.T) *bench {
	t.Parallel()
	b := &bench{t: t, api: newFakeAPI(t), local: newFakeLocal(t)}
	b.Options = Options{
		APIKey: testKey, APIURL: b.api.URL, ForwardTo: b.local.URL + "/webhook", StateFile: filepath.Join(t.TempDir(), "state.json"), Out: b,
	}
	return b
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

func (b *bench) paused(d time.Duration) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Contains(b.pauses, d)
}

// start runs a listener until stop is called; stop returns its error. ended is closed when the
// listener ends.
func (b *bench) start() (stop func() error, ended <-chan struct{}) {
	b.t.Helper()
	require.NoError(b.t, b.Check())
	l, err := newListener(b.Options)
	require.NoError(b.t, err)
	l.pause = func(ctx context.Context, d time.Duration) error {
		b.mu.Lock()
		b.pauses = append(b.pauses, d)
		b.mu.Unlock()
		return pause(ctx, time.Millisecond)
	}
	l.api.pause = l.pause
	if b.timeout != 0 {
		l.local.timeout = b.timeout
	}
	ctx, cancel := context.WithCancel(b.t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		err = l.run(ctx)
		l.state.close()
	}()
	stop = func() error {
		cancel()
		<-done
		return err
	}
	b.t.Cleanup(func() { _ = stop() })
	return stop, done
}

// run starts a listener and stops it when look returns true.
func (b *bench) run(what string, look func() bool) {
	b.t.Helper()
	stop, _ := b.start()
	b.await(what, look)
	require.NoError(b.t, stop())
}

// fails runs a listener that ends by itself and returns its error.
func (b *bench) fails() error {
	b.t.Helper()
	stop, ended := b.start()
	select {
	case <-ended:
	case <-time.After(20 * time.Second):
		b.t.Fatalf("it goes on:\n%s", b.said())
	}
	return stop()
}

func (b *bench) await(what string, look func() bool) {
	b.t.Helper()
	for end := time.Now().Add(20 * time.Second); !look(); {
		if time.Now().After(end) {
			b.t.Fatalf("%s: not in time\n%s", what, b.said())
		}
		time.Sleep(time.Millisecond)
	}
}

// begun runs once without any event, so that the next run catches up.
func (b *bench) begun() *bench {
	b.t.Helper()
	b.run("begun", b.says("events from now on"))
	return b
}

func (b *bench) says(text string) func() bool {
	return func() bool { return strings.Contains(b.said(), text) }
}

func (b *bench) arrived(n int) func() bool {
	return func() bool { return len(b.local.posts()) >= n }
}

// looked returns true after n more requests to the API: the listener has then seen every visible
// event.
func (b *bench) looked(n int) func() bool {
	from := b.api.asked()
	return func() bool { return b.api.asked() >= from+n }
}

func idsOf(events ...webhook.Event) []string {
	ids := make([]string, len(events))
	for i, e := range events {
		ids[i] = e.ID
	}
	return ids
}

// unused returns the address of a port without a listener, and a function that starts a listener
// there.
func unused(t *testing.T) (address string, serve func(http.Handler)) {
	t.Helper()
	ports, err := pgtemp.FreePorts(1)
	require.NoError(t, err)
	address = fmt.Sprintf("127.0.0.1:%d", ports[0])
	return address, func(h http.Handler) {
		listener, err := pgtemp.Listen(address)
		require.NoError(t, err)
		server := &http.Server{Handler: h, ReadHeaderTimeout: time.Second}
		t.Cleanup(func() { _ = server.Close() })
		go func() {
			if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
				panic(fmt.Sprint(err))
			}
		}()
	}
}
