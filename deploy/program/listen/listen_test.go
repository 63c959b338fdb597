package listen

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/webhook"
)

func TestListen_FirstRunBeginsNowAndForwardsWhatADeliverySends(t *testing.T) {
	b := newBench(t)
	b.api.add(webhook.CheckoutCompleted, time.Now().Add(-time.Hour))
	b.api.add(webhook.CheckoutCompleted, time.Now())
	stop, _ := b.start()
	b.await("begun", b.says("first run: events from now on"))
	want := b.api.add(webhook.PayoutSent, time.Now())
	b.await("forwarded", b.arrived(1))
	b.await("some looks", b.looked(3))
	require.NoError(t, stop())

	got := b.local.posts()
	require.Equal(t, []string{want.ID}, b.local.ids(), "the ones before were not new")
	require.Equal(t, string(want.Body), got[0].Body)
	secret := b.secret()
	require.NoError(t, webhook.Verify(secret, got[0].Header.Get("X-Service-Signature"), []byte(got[0].Body), time.Now()))
	got[0].Header.Del("X-Service-Signature")
	require.Equal(t, http.Header{
		"Content-Type": {"application/json"}, "User-Agent": {"Checkout-Webhooks/1.0"}, "Content-Length": {strconv.Itoa(len(want.Body))},
		"X-Service-Event-Id": {want.ID}, "X-Service-Event-Type": {"payout.sent"}, "X-Service-Attempt": {"1"},
	}, got[0].Header)
	require.Contains(t, b.said(), "  "+secret+"\n")
	require.Contains(t, b.said(), "1 forwarded, 0 failed")
	b.forwardedLine(want.ID, "200")
}

// secret reads the signing secret where a developer may look for it.
func (b *bench) secret() string {
	text, err := os.ReadFile(b.StateFile)
	require.NoError(b.t, err)
	var s struct{ Secret string }
	require.NoError(b.t, json.Unmarshal(text, &s))
	return s.Secret
}

func (b *bench) forwardedLine(id, result string) {
	b.t.Helper()
	require.Regexp(b.t, `(?m)^\d\d:\d\d:\d\d (checkout|payout)\.\w+ +`+id+` → `+result+` +\d+ ms$`, b.said())
}

func TestListen_CatchesUpOverSeveralPagesInOrderAndOnce(t *testing.T) {
	b := newBench(t).begun()
	from := time.Now().Add(-30 * time.Minute)
	var want []webhook.Event
	for i := range 250 {
		want = append(want, b.api.add(webhook.CheckoutCompleted, from.Add(time.Duration(i)*time.Second)))
	}
	b.run("caught up", b.arrived(250))
	require.Equal(t, idsOf(want...), b.local.ids())
	require.Contains(t, b.said(), "the events missed while listen did not run come first")
	b.run("nothing is sent again", b.looked(5))
	require.Len(t, b.local.ids(), 250)
	require.Contains(t, b.said(), "no events missed while listen did not run")
}

func TestListen_OfVeryManyTheChosenOnesComeInOrder(t *testing.T) {
	b := newBench(t).begun()
	b.Events = []webhook.EventType{webhook.PayoutFailed}
	from := time.Now().Add(-24 * time.Hour)
	var want []webhook.Event
	for i := range 65 * pageLimit {
		at := from.Add(time.Duration(i) * time.Second)
		if i%500 == 0 {
			want = append(want, b.api.add(webhook.PayoutFailed, at))
		} else {
			b.api.put(webhook.Event{Ref: checkout.Ref{ID: firstID(at)}, Type: webhook.CheckoutFailed, CreatedAt: at, Body: []byte(`{"data":{}}`)})
		}
	}
	b.run("caught up", b.arrived(len(want)))
	require.Equal(t, idsOf(want...), b.local.ids())
	require.Len(t, want, 13)
}

// An id is made before its transaction commits. So a later id may become visible first.
func TestListen_AnEventThatBecomesVisibleLateIsForwarded(t *testing.T) {
	b := newBench(t).begun()
	now := time.Now()
	stop, _ := b.start()
	second := b.api.add(webhook.CheckoutCompleted, now)
	b.await("the second", b.arrived(1))
	first := b.api.add(webhook.CheckoutCompleted, now.Add(-time.Hour))
	b.await("the first, late", b.arrived(2))
	b.await("some looks", b.looked(3))
	require.NoError(t, stop())
	b.run("again", b.looked(3))
	require.Equal(t, idsOf(second, first), b.local.ids(), "each once")
}

// The service removes old events. A state file of an older version of listen has no place in the feed either.
func TestListen_GoesOnWhenTheLastEventIsGone(t *testing.T) {
	for name, lose := range map[string]func(b *bench, last string){
		"removed": func(b *bench, last string) { b.api.remove(last) },
		"older version": func(b *bench, _ string) {
			text, err := os.ReadFile(b.StateFile)
			require.NoError(t, err)
			var old map[string]any
			require.NoError(t, json.Unmarshal(text, &old))
			delete(old, "after")
			delete(old, "floor")
			text, err = json.Marshal(old)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(b.StateFile, text, 0o600))
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t).begun()
			now := time.Now()
			add := func(ago time.Duration) webhook.Event { return b.api.add(webhook.CheckoutCompleted, now.Add(-ago)) }
			want := []webhook.Event{add(3 * time.Hour), add(2*time.Hour - time.Second), add(2 * time.Hour), add(time.Hour)}
			b.run("four", b.arrived(4))
			lose(b, want[3].ID)
			want = append(want, add(time.Hour-time.Second), add(time.Minute))
			b.run("the rest", b.arrived(6))
			b.run("no more", b.looked(3))
			require.Equal(t, idsOf(want...), b.local.ids(), "each once")
		})
	}
}

func TestListen_LateEventsOfTheFirstMomentAreForwarded(t *testing.T) {
	b := newBench(t)
	now := time.Now()
	b.api.add(webhook.CheckoutCompleted, now)
	stop, _ := b.start()
	b.await("begun", b.says("events from now on"))
	late := b.api.add(webhook.CheckoutCompleted, now.Add(-10*time.Second))
	b.await("late", b.arrived(1))
	require.NoError(t, stop())
	require.Equal(t, idsOf(late), b.local.ids())
}

// The test copies the state file while the local server handles the third event. A kill at that
// moment would leave the same file.
func TestListen_AKillBetweenForwardAndStateRepeatsThatEventOnly(t *testing.T) {
	b := newBench(t).begun()
	var want []webhook.Event
	for i := range 5 {
		want = append(want, b.api.add(webhook.CheckoutCompleted, time.Now().Add(time.Duration(i)*time.Millisecond)))
	}
	var killed []byte
	b.local.answers(func(_ http.ResponseWriter, n int) {
		if n == 3 {
			killed, _ = os.ReadFile(b.StateFile)
		}
	})
	b.run("all", b.arrived(5))
	require.NoError(t, os.WriteFile(b.StateFile, killed, 0o600))
	require.NoError(t, os.WriteFile(b.StateFile+".new", []byte("{half"), 0o600), "what a kill within a write leaves")
	b.run("the rest", b.arrived(8))
	require.Equal(t, idsOf(want[0], want[1], want[2], want[3], want[4], want[2], want[3], want[4]), b.local.ids())
	require.Contains(t, b.said(), "3 events missed")
}

func TestListen_BeingToldToStopLetsTheEventUnderWayFinish(t *testing.T) {
	b := newBench(t).begun()
	b.api.add(webhook.CheckoutCompleted, time.Now())
	began, release := make(chan struct{}), make(chan struct{})
	b.local.answers(func(http.ResponseWriter, int) { close(began); <-release })
	stop, _ := b.start()
	<-began
	time.AfterFunc(50*time.Millisecond, func() { close(release) })
	require.NoError(t, stop())
	require.Contains(t, b.said(), "1 forwarded, 0 failed")
	b.run("nothing is left", b.looked(3))
	require.Len(t, b.local.ids(), 1)
}

func TestListen_ARefusedKeyEndsItWithoutTellingTheKey(t *testing.T) {
	b := newBench(t)
	b.api.fail(func(w http.ResponseWriter, n int) bool {
		if n > 3 { // the key is revoked while listen runs
			w.WriteHeader(http.StatusUnauthorized)
		}
		return n > 3
	})
	err := b.fails()
	require.ErrorContains(t, err, "refuses the key of CHECKOUT_API_KEY")
	for _, text := range []string{err.Error(), b.said()} {
		require.NotContains(t, text, testKey[8:24])
	}
}

func TestListen_429IsObeyed(t *testing.T) {
	b := newBench(t)
	b.api.fail(func(w http.ResponseWriter, n int) bool {
		if n == 2 || n == 3 {
			w.Header().Set("Retry-After", "7")
			w.WriteHeader(http.StatusTooManyRequests)
			return true
		}
		return false
	})
	stop, _ := b.start()
	b.await("over", b.says("the API answers"))
	b.api.add(webhook.CheckoutCompleted, time.Now())
	b.await("and goes on", b.arrived(1))
	require.NoError(t, stop())
	require.True(t, b.paused(7*time.Second))
	require.Equal(t, 1, strings.Count(b.said(), "it asks to slow down (429)"))
}

func TestListen_503BacksOffAndIsToldOnce(t *testing.T) {
	b := newBench(t)
	b.api.fail(func(w http.ResponseWriter, n int) bool {
		if n > 8 {
			return false
		}
		w.WriteHeader(http.StatusServiceUnavailable)
		return true
	})
	b.run("over", b.says("the API answers"))
	require.Equal(t, 1, strings.Count(b.said(), "for now (status 503)"))
	require.Equal(t, 1, strings.Count(b.said(), "the API answers"))
	for i, want := range []time.Duration{1, 2, 4, 8, 15, 15, 15, 15} {
		require.InDelta(t, (want * time.Second).Seconds(), b.pauses[i].Seconds(), want.Seconds()*1e9*0.21)
	}
}

func TestListen_AnAPIThatIsAwayAndComesBack(t *testing.T) {
	b := newBench(t)
	address, serve := unused(t)
	b.APIURL = "http://" + address
	stop, _ := b.start()
	b.await("told", b.says("no events from http://"+address+" for now"))
	serve(b.api)
	b.await("told", b.says("events from now on"))
	event := b.api.add(webhook.CheckoutCompleted, time.Now())
	b.await("forwarded", b.arrived(1))
	require.NoError(t, stop())
	require.Equal(t, idsOf(event), b.local.ids())
	require.Equal(t, 1, strings.Count(b.said(), "for now ("))
}

func TestListen_ALocalServerThatDoesNotRunIsWaitedFor(t *testing.T) {
	b := newBench(t).begun()
	address, serve := unused(t)
	b.ForwardTo = "http://" + address
	var want []webhook.Event
	for i := range 3 {
		want = append(want, b.api.add(webhook.CheckoutCompleted, time.Now().Add(time.Duration(i)*time.Millisecond)))
	}
	stop, _ := b.start()
	b.await("told", b.says("is not there (connection refused)"))
	b.await("many tries", func() bool { b.mu.Lock(); defer b.mu.Unlock(); return len(b.pauses) > 20 })
	serve(b.local)
	b.await("all", b.arrived(3))
	require.NoError(t, stop())
	require.Equal(t, idsOf(want...), b.local.ids())
	require.Equal(t, "1", b.local.posts()[0].Header.Get("X-Service-Attempt"), "it has seen none before")
	require.Equal(t, 1, strings.Count(b.said(), "is not there"))
	require.Contains(t, b.said(), "the local server is there")
	require.Contains(t, b.said(), "3 forwarded, 0 failed")
}

func TestListen_AnEventThatTheLocalServerRefusesIsTriedFourTimesThenListed(t *testing.T) {
	b := newBench(t).begun()
	bad := b.api.add(webhook.CheckoutFailed, time.Now())
	good := b.api.add(webhook.CheckoutCompleted, time.Now().Add(time.Millisecond))
	b.local.answers(func(w http.ResponseWriter, n int) {
		switch n {
		case 1:
			w.WriteHeader(http.StatusInternalServerError)
		case 2:
			w.Header().Set("Location", "/elsewhere")
			w.WriteHeader(http.StatusFound)
		case 3:
			panic(http.ErrAbortHandler) // closes the connection without an answer
		case 4:
			w.WriteHeader(http.StatusBadRequest)
		}
	})
	b.run("the next", b.arrived(5))
	require.Equal(t, idsOf(bad, bad, bad, bad, good), b.local.ids())
	for i, p := range b.local.posts()[:4] {
		require.Equal(t, string(bad.Body), p.Body)
		require.Equal(t, strconv.Itoa(i+1), p.Header.Get("X-Service-Attempt"))
	}
	require.Equal(t, 1, strings.Count(b.said(), "redirects are not followed"))
	for _, wait := range []time.Duration{time.Second, 2 * time.Second, 5 * time.Second} {
		require.True(t, b.paused(wait))
	}
	b.forwardedLine(bad.ID, "500")
	b.forwardedLine(bad.ID, "302")
	b.forwardedLine(bad.ID, "error")
	b.forwardedLine(bad.ID, "400")
	require.Contains(t, b.said(), "1 forwarded, 1 failed\n  checkout.failed    "+bad.ID+" → 400\n")
	require.Contains(t, b.said(), "--since "+checkout.FormatTime(bad.CreatedAt))
	b.run("it is settled", b.looked(3))
	require.Len(t, b.local.ids(), 5)
}

func TestListen_ALocalServerThatDoesNotAnswerInTimeHasFailed(t *testing.T) {
	b := newBench(t).begun()
	b.timeout = 50 * time.Millisecond
	slow := b.api.add(webhook.CheckoutCompleted, time.Now())
	release := make(chan struct{})
	defer close(release)
	b.local.answers(func(w http.ResponseWriter, n int) {
		switch n {
		case 1:
			<-release
		case 2: // listen does not wait for a body that never ends
			w.WriteHeader(http.StatusOK)
			_ = http.NewResponseController(w).Flush()
			<-release
		}
	})
	b.run("again", b.says(slow.ID+" → 200"))
	b.forwardedLine(slow.ID, "timeout")
	require.Contains(t, b.said(), "no answer in time; attempt 2 of 4 in 1s")
	require.Contains(t, b.said(), "1 forwarded, 0 failed")
}

func TestListen_ForwardsTheChosenTypesOnly(t *testing.T) {
	b := newBench(t).begun()
	b.Events = []webhook.EventType{webhook.PayoutSent}
	b.api.add(webhook.CheckoutCompleted, time.Now())
	want := b.api.add(webhook.PayoutSent, time.Now())
	last := b.api.add(webhook.CheckoutCompleted, time.Now().Add(time.Millisecond))
	b.run("one", b.arrived(1))
	b.Events = nil
	b.run("the others were passed over", b.looked(3))
	require.Equal(t, idsOf(want), b.local.ids())
	require.Contains(t, b.said(), "1 event missed while listen did not run")
	text, err := os.ReadFile(b.StateFile)
	require.NoError(t, err)
	require.Contains(t, string(text), `"position": "`+last.ID+`"`)
}

func TestListen_SinceSendsAgainFromThatTimeOn(t *testing.T) {
	b := newBench(t).begun()
	now := time.Now()
	b.api.add(webhook.CheckoutCompleted, now.Add(-time.Hour))
	b.api.add(webhook.CheckoutCompleted, now.Add(-10*time.Minute-time.Millisecond))
	third := b.api.add(webhook.CheckoutCompleted, now.Add(-10*time.Minute))
	fourth := b.api.add(webhook.CheckoutCompleted, now.Add(-time.Minute))
	b.run("caught up", b.arrived(4))
	b.Since = third.CreatedAt
	b.run("again", b.arrived(6))
	require.Equal(t, idsOf(third, fourth), b.local.ids()[4:])
	require.Contains(t, b.said(), "2 events since the time you gave; they come first")
	b.Since = time.Time{}
	b.run("no more", b.looked(3))
	require.Len(t, b.local.ids(), 6)
}

func TestListen_ALiveEventIsNeverForwarded(t *testing.T) {
	b := newBench(t).begun()
	e := b.api.add(webhook.CheckoutCompleted, time.Now())
	b.api.mu.Lock()
	b.api.feed[0].Mode = checkout.ModeLive
	b.api.mu.Unlock()
	require.ErrorContains(t, b.fails(), "live event")
	require.NotContains(t, b.local.ids(), e.ID)
}

func TestListen_AnotherServerIsNotTakenForTheAPI(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		answer func(w http.ResponseWriter)
		want   string
	}{
		"a page":     {func(w http.ResponseWriter) { _, _ = w.Write([]byte("<html>")) }, "no list of events came"},
		"a redirect": {func(w http.ResponseWriter) { w.WriteHeader(http.StatusFound) }, "a redirect (302), which is not followed with a key"},
		"a 404": {func(w http.ResponseWriter) {
			w.WriteHeader(http.StatusNotFound)
			_, _ = w.Write([]byte(`{"message":"nothing\u001b[2J here"}`))
		}, `status 404 "nothing\x1b[2J here"`},
		"events of another kind": {func(w http.ResponseWriter) {
			_, _ = w.Write([]byte(`{"data":[{"id":"evt_1","type":"x","created_at":"2026-01-31T09:30:00Z","data":{}}]}`))
		}, "an event is malformed"},
		"a type with a line break": {func(w http.ResponseWriter) {
			_, _ = w.Write([]byte(`{"data":[{"id":"` + checkout.NewID("evt") + `","type":"x\r\ny","created_at":"2026-01-31T09:30:00Z","data":{}}]}`))
		}, "an event is malformed"},
		"pages without end": {func(w http.ResponseWriter) {
			_, _ = w.Write([]byte(`{"data":[],"next_cursor":"` + checkout.NewID("evt") + `"}`))
		}, "the pages do not follow each other"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.api.fail(func(w http.ResponseWriter, _ int) bool { c.answer(w); return true })
			err := b.fails()
			require.ErrorContains(t, err, "does not answer as the API does: "+c.want)
		})
	}
}

func TestListen_AStrangeAnswerLaterIsWaitedOut(t *testing.T) {
	b := newBench(t)
	b.api.fail(func(w http.ResponseWriter, n int) bool {
		switch n {
		case 2:
			_, _ = w.Write([]byte("<html>maintenance"))
		case 3:
			w.WriteHeader(http.StatusNotFound)
		default:
			return false
		}
		return true
	})
	b.run("over", b.says("the API answers"))
	require.Contains(t, b.said(), "for now (no list of events came)")
}

func TestListen_KeepsItsSecretAndTheKeyToItself(t *testing.T) {
	b := newBench(t)
	dir := t.TempDir()
	b.StateFile = filepath.Join(dir, "made", "for", "it", "state.json")
	b.begun()
	first := b.secret()
	require.Contains(t, b.said(), "made now and kept in the state file:\n  "+first)
	b.run("again", b.looked(2))
	require.Equal(t, first, b.secret())
	require.Contains(t, b.said(), "as before:\n  "+first)
	info, err := os.Stat(b.StateFile)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode())
	text, err := os.ReadFile(b.StateFile)
	require.NoError(t, err)
	require.NotContains(t, string(text)+b.said(), testKey[8:24])
}

func TestListen_AStateFileThatCannotBeUsedStaysAsItIs(t *testing.T) {
	t.Parallel()
	secret, id := webhook.NewSecret(), checkout.NewID("evt")
	for name, text := range map[string]string{
		"empty":           "",
		"half":            `{"version": 1, "secret": "` + secret,
		"not an object":   `[]`,
		"another version": `{"version": 2, "secret": "` + secret + `"}`,
		"no secret":       `{"version": 1}`,
		"bad secret":      `{"version": 1, "secret": "whsec_12"}`,
		"bad time":        `{"version": 1, "secret": "` + secret + `", "began": "` + secret + `"}`,
		"bad position":    `{"version": 1, "secret": "` + secret + `", "position": "cs_1"}`,
		"bad ids":         `{"version": 1, "secret": "` + secret + `", "recent": ["evt_1"]}`,
		"ids in disorder": `{"version": 1, "secret": "` + secret + `", "recent": ["` + id + `", "` + checkout.FirstID("evt", time.Unix(0, 0)) + `"]}`,
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			require.NoError(t, os.WriteFile(b.StateFile, []byte(text), 0o600))
			err := Run(t.Context(), b.Options)
			require.ErrorContains(t, err, "the state file "+b.StateFile+" cannot be used: it")
			require.ErrorContains(t, err, "It was left as it is")
			require.NotContains(t, err.Error(), secret)
			kept, err := os.ReadFile(b.StateFile)
			require.NoError(t, err)
			require.Equal(t, text, string(kept))
		})
	}
}

func TestListen_ASecondOneOnTheSameStateIsRefused(t *testing.T) {
	b := newBench(t)
	stop, _ := b.start()
	require.ErrorContains(t, Run(t.Context(), b.Options), "another listen is running with the state file "+b.StateFile)
	require.NoError(t, stop())
	b.run("now it may", b.looked(2))
}

func TestListen_AStateFileThatCannotBeWritten(t *testing.T) {
	b := newBench(t)
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	o := b.Options
	o.StateFile = filepath.Join(file, "state.json")
	require.ErrorContains(t, Run(t.Context(), o), "state file: ")
	o.StateFile = t.TempDir() // a directory
	require.ErrorContains(t, Run(t.Context(), o), "state file: ")
	require.Empty(t, b.said(), "told before anything else")

	b.begun() // and while it runs
	b.api.add(webhook.CheckoutCompleted, time.Now())
	b.api.add(webhook.CheckoutCompleted, time.Now().Add(time.Millisecond))
	b.local.answers(func(http.ResponseWriter, int) {
		require.NoError(t, os.MkdirAll(filepath.Join(b.StateFile+".new", "full"), 0o700))
	})
	require.ErrorContains(t, b.fails(), "how far listen has come cannot be noted, so it ends")
	require.Len(t, b.local.ids(), 1, "no further event is sent that could not be noted")
}

func TestListen_LinesFitA80ColumnTerminal(t *testing.T) {
	b := newBench(t).begun()
	b.api.add(webhook.CheckoutCompleted, time.Now())
	b.local.answers(func(w http.ResponseWriter, n int) {
		if n < 3 {
			w.WriteHeader(http.StatusInternalServerError)
		}
	})
	b.run("done", b.arrived(3))
	for line := range strings.Lines(b.said()) {
		if !strings.Contains(line, b.StateFile) { // of a test
			require.LessOrEqual(t, utf8.RuneCountInString(strings.TrimSuffix(line, "\n")), 80, line)
		}
	}
	t.Log(b.said())
}

func TestListen_JSONIsAnObjectALine(t *testing.T) {
	b := newBench(t)
	b.JSON = true
	b.local.answers(func(w http.ResponseWriter, n int) {
		if n <= 4 {
			w.WriteHeader(http.StatusTeapot)
		}
	})
	stop, _ := b.start()
	b.await("begun", b.says("events from now on"))
	bad := b.api.add(webhook.CheckoutCompleted, time.Now())
	b.await("given up", b.arrived(4))
	good := b.api.add(webhook.PayoutSent, time.Now().Add(time.Second))
	b.await("done", b.arrived(5))
	require.NoError(t, stop())
	var kinds []string
	for text := range strings.Lines(b.said()) {
		var l map[string]any
		require.NoError(t, json.Unmarshal([]byte(text), &l), text)
		kinds = append(kinds, l["kind"].(string))
		_, err := time.Parse(time.RFC3339, l["time"].(string))
		require.NoError(t, err)
		switch {
		case l["kind"] == "ready":
			require.Equal(t, b.secret(), l["secret"])
		case l["kind"] == "attempt" && l["event_id"] == good.ID:
			require.Equal(t, []any{"payout.sent", 200.0, 1.0, checkout.FormatTime(good.CreatedAt)}, []any{l["type"], l["status"], l["attempt"], l["created_at"]})
		case l["kind"] == "end":
			require.Equal(t, []any{1.0, 1.0}, []any{l["forwarded"], l["failed"]})
			require.Equal(t, bad.ID, l["failures"].([]any)[0].(map[string]any)["event_id"])
		}
	}
	require.Equal(t, []string{"ready", "notice", "attempt", "attempt", "attempt", "attempt", "attempt", "end"}, kinds)
	t.Log(b.said())
}

func TestOptions_SayWhatIsWrong(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(o *Options)
		want   []string
	}{
		"no key":           {func(o *Options) { o.APIKey = "" }, []string{"CHECKOUT_API_KEY is not set"}},
		"live key":         {func(o *Options) { o.APIKey = "sk_live_" + testKey[8:] }, []string{"CHECKOUT_API_KEY is a live key"}},
		"short live key":   {func(o *Options) { o.APIKey = "sk_live_" }, []string{"CHECKOUT_API_KEY is a live key"}},
		"malformed key":    {func(o *Options) { o.APIKey += "\n" }, []string{"CHECKOUT_API_KEY does not look like a key"}},
		"no target":        {func(o *Options) { o.ForwardTo = "" }, []string{"--forward-to is missing"}},
		"target's scheme":  {func(o *Options) { o.ForwardTo = "localhost:3000" }, []string{"--forward-to must be a URL that begins with http://"}},
		"target's port":    {func(o *Options) { o.ForwardTo = "http://localhost:99999" }, []string{"--forward-to must have a port"}},
		"target with user": {func(o *Options) { o.ForwardTo = "http://a:b@localhost" }, []string{"--forward-to must have no user"}},
		"API's scheme":     {func(o *Options) { o.APIURL = "ftp://x" }, []string{"--api (CHECKOUT_API_URL) must be a URL"}},
		"API with query":   {func(o *Options) { o.APIURL = "http://127.0.0.1/?a" }, []string{"--api (CHECKOUT_API_URL) must have no query"}},
		"in the clear":     {func(o *Options) { o.APIURL = "http://api.example" }, []string{"must be https://: over http:// the key would travel in the clear"}},
		"a lookalike":      {func(o *Options) { o.APIURL = "http://127.0.0.1.example" }, []string{"must be https://"}},
		"two faults":       {func(o *Options) { o.APIKey, o.ForwardTo = "", "x" }, []string{"CHECKOUT_API_KEY is not set", "--forward-to must be"}},
	} {
		o := Options{APIKey: testKey, APIURL: "http://127.0.0.1:8080", ForwardTo: "http://localhost:3000/webhook", StateFile: "unused"}
		require.NoError(t, o.Check())
		c.change(&o)
		err := Run(t.Context(), o)
		for _, want := range c.want {
			require.ErrorContains(t, err, want, name)
		}
		require.NotContains(t, err.Error(), testKey[8:24], name)
	}
	for _, address := range []string{"https://api.example", "http://localhost:8080/", "http://[::1]:8080", "http://127.9.9.9"} {
		o := Options{APIKey: testKey, APIURL: address, ForwardTo: "https://localhost", StateFile: "unused"}
		require.NoError(t, o.Check(), address)
	}
	o := Options{APIKey: testKey, APIURL: "http://api:8080", ForwardTo: "http://web:3000", PlainHTTP: true}
	require.NoError(t, o.Check())
	require.Contains(t, o.StateFile, filepath.Join("checkout", "listen"))
	require.NotContains(t, o.StateFile, testKey[8:16])
}

func TestParseEvents(t *testing.T) {
	t.Parallel()
	got, err := ParseEvents("payout.sent, checkout.completed,payout.sent")
	require.NoError(t, err)
	require.Equal(t, []webhook.EventType{webhook.PayoutSent, webhook.CheckoutCompleted}, got)
	for _, text := range []string{"", "*"} {
		got, err := ParseEvents(text)
		require.NoError(t, err)
		require.Nil(t, got)
	}
	for text, want := range map[string]string{
		"checkout.complete":           `has an unknown event type "checkout.complete"; did you mean checkout.completed?`,
		"Payout.Failed":               `"Payout.Failed"; did you mean payout.failed?`,
		"payout.sent,":                `has an unknown event type ""; known are checkout.completed, checkout.failed, payout.sent, payout.failed, merchant.updated`,
		"charge.refunded":             "; known are ",
		strings.Repeat("x\x1b", 5000): `"x\x1bx`,
	} {
		_, err := ParseEvents(text)
		require.ErrorContains(t, err, want)
		require.Less(t, len(err.Error()), 400)
	}
}

func TestParseSince(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 31, 9, 30, 0, 0, time.UTC)
	for text, want := range map[string]time.Time{
		"":                          {},
		"10m":                       now.Add(-10 * time.Minute),
		"36h":                       now.Add(-36 * time.Hour),
		"2026-01-30T10:00:00Z":      now.Add(-23*time.Hour - 30*time.Minute),
		"2026-01-31T10:00:00+01:00": now.Add(-30 * time.Minute),
	} {
		got, err := ParseSince(text, now)
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
	for text, want := range map[string]string{
		"-10m": "longer than 0s", "0s": "longer than 0s", "2d": "must be a duration", "yesterday": "must be a duration",
		"2026-01-31": "must be a duration", "2026-02-01T00:00:00Z": "is in the future",
	} {
		_, err := ParseSince(text, now)
		require.ErrorContains(t, err, want, text)
	}
}

func TestState_RemembersTheIDsOfItsWindowOnly(t *testing.T) {
	t.Parallel()
	var s state
	now := time.Now()
	for i := range 1000 {
		s.settle(firstID(now.Add(time.Duration(i) * time.Second)))
	}
	require.Len(t, s.Recent, 61, "a minute, both ends included")
	require.True(t, slices.IsSorted(s.Recent))
	require.True(t, s.settled(firstID(now.Add(999*time.Second))))
	require.Equal(t, firstID(now.Add(939*time.Second)), s.horizon())
	s.settle(s.Recent[5])
	require.Len(t, s.Recent, 61)
}

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{
		"": 0, "7": 7 * time.Second, "-7": 0, "x": 0, "999999999999": 0, "86400": maxRetry,
		time.Now().Add(time.Hour).UTC().Format(http.TimeFormat): maxRetry, time.Now().Add(-time.Hour).UTC().Format(http.TimeFormat): 0,
	} {
		got := retryAfter(http.Header{"Retry-After": {text}})
		if text == "999999999999" {
			want = maxRetry
		}
		require.Equal(t, want, got, text)
	}
}
