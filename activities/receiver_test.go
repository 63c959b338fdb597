package activities

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/webhook"
)

func TestReceiver_LiveModeNeverSpeaksPlainHTTP(t *testing.T) {
	t.Parallel()
	_, kind, _ := newReceivers(NewAddressGuard(true)).post(t.Context(), checkout.ModeLive, "http://8.8.8.8/", http.Header{}, nil)
	require.Equal(t, webhook.ErrorBlockedAddress, kind)
}

// TestReceiver_ClassifiesEveryKindOfAnswer talks to real servers on loopback.
func TestReceiver_ClassifiesEveryKindOfAnswer(t *testing.T) {
	t.Parallel()
	followed := false
	target := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { followed = true }))
	t.Cleanup(target.Close)
	answers := func(status int, headers ...string) string {
		return serve(t, func(w http.ResponseWriter, _ *http.Request) {
			for i := 0; i < len(headers); i += 2 {
				w.Header().Set(headers[i], headers[i+1])
			}
			w.WriteHeader(status)
		})
	}
	closed := serve(t, nil)
	tls := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(tls.Close)
	for name, c := range map[string]struct {
		url    string
		status int
		kind   webhook.ErrorKind
	}{
		"200":                         {answers(200), 200, ""},
		"204":                         {answers(204), 204, ""},
		"299":                         {answers(299), 299, ""},
		"301 is not followed":         {answers(301, "Location", target.URL), 301, webhook.ErrorHTTP},
		"302 is not followed":         {answers(302, "Location", target.URL), 302, webhook.ErrorHTTP},
		"307 is not followed":         {answers(307, "Location", target.URL), 307, webhook.ErrorHTTP},
		"308 is not followed":         {answers(308, "Location", target.URL), 308, webhook.ErrorHTTP},
		"400":                         {answers(400), 400, webhook.ErrorHTTP},
		"410":                         {answers(410), 410, webhook.ErrorHTTP},
		"429 with Retry-After":        {answers(429, "Retry-After", "1"), 429, webhook.ErrorHTTP},
		"500":                         {answers(500), 500, webhook.ErrorHTTP},
		"nobody listens":              {closed, 0, webhook.ErrorConnect},
		"no such host":                {"http://not-there.invalid/", 0, webhook.ErrorDNS},
		"self-signed certificate":     {tls.URL, 0, webhook.ErrorTLS},
		"TLS spoken to a plain port":  {"https" + target.URL[len("http"):], 0, webhook.ErrorTLS},
		"accepts and hangs up":        {raw(t, ""), 0, webhook.ErrorConnect},
		"is not HTTP":                 {raw(t, "SSH-2.0-OpenSSH\r\n\r\n"), 0, webhook.ErrorHTTP},
		"100 kB of headers":           {answers(200, "X-Long", strings.Repeat("a", 100<<10)), 0, webhook.ErrorHTTP},
		"302 to nowhere":              {answers(302, "Location", "http://[::1"), 302, webhook.ErrorHTTP},
		"103 and then 200":            {raw(t, "HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"), 200, ""},
		"200, then the body breaks":   {raw(t, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nabc"), 200, ""},
		"bad chunking after a status": {raw(t, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"), 200, ""},
	} {
		status, kind, _ := newReceivers(NewAddressGuard(true)).post(t.Context(), checkout.ModeTest, c.url, http.Header{}, []byte("{}"))
		require.Equal(t, c.status, status, name)
		require.Equal(t, c.kind, kind, name)
	}
	require.False(t, followed)
}

// TestReceiver_NeverFollowsARedirect tries all five, to where somebody would like
// to look.
func TestReceiver_NeverFollowsARedirect(t *testing.T) {
	t.Parallel()
	target := listen(t, "127.0.0.1:0")
	refused := 0
	for _, status := range []int{301, 302, 303, 307, 308} {
		for _, location := range []string{
			"http://" + target.Addr().String() + "/", "//" + target.Addr().String(), "http://localhost:" + target.port() + "/admin",
			"http://169.254.169.254/latest/meta-data/", "file:///etc/passwd", "gopher://" + target.Addr().String(), "/elsewhere", "http://[::1", "",
		} {
			requests := atomic.Int64{}
			url := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				requests.Add(1)
				w.Header().Set("Location", location)
				w.WriteHeader(status)
			})
			got, kind, _ := newReceivers(NewAddressGuard(true)).post(t.Context(), checkout.ModeTest, url, http.Header{}, []byte("{}"))
			require.Equal(t, status, got, location)
			require.Equal(t, webhook.ErrorHTTP, kind, location)
			require.EqualValues(t, 1, requests.Load(), location)
			refused++
		}
	}
	require.Zero(t, target.connections.Load())

	// An http.Client does follow, so the target would have noticed.
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://"+target.Addr().String()+"/", http.StatusTemporaryRedirect)
	})
	req, err := http.NewRequestWithContext(context.Background(), http.MethodPost, url, http.NoBody)
	require.NoError(t, err)
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	_, _ = io.Copy(io.Discard, res.Body)
	require.NoError(t, res.Body.Close())
	require.EqualValues(t, 1, target.connections.Load())
	t.Logf("%d redirects, none followed", refused)
}

func TestReceiver_HasTenSecondsForItsHeaders(t *testing.T) {
	t.Parallel()
	stop := make(chan struct{})
	silent := serve(t, func(http.ResponseWriter, *http.Request) { <-stop })
	t.Cleanup(func() { close(stop) })
	began := time.Now()
	status, kind, _ := newReceivers(NewAddressGuard(true)).post(t.Context(), checkout.ModeTest, silent, http.Header{}, nil)
	require.Zero(t, status)
	require.Equal(t, webhook.ErrorTimeout, kind)
	require.GreaterOrEqual(t, time.Since(began), webhook.ResponseTimeout)
}

// A 101 hands the connection over; the worker must not read from it for good.
func TestReceiver_ASwitchOfProtocolsHoldsNothingUp(t *testing.T) {
	t.Parallel()
	hung := rawThen(t, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n", false)
	began := time.Now()
	status, kind, _ := newReceivers(NewAddressGuard(true)).post(t.Context(), checkout.ModeTest, hung, http.Header{}, []byte("{}"))
	require.Equal(t, 101, status)
	require.Equal(t, webhook.ErrorHTTP, kind)
	require.Less(t, time.Since(began), webhook.ResponseTimeout)
}

func TestReceiver_ABodyThatNeverEndsHoldsNothingUp(t *testing.T) {
	t.Parallel()
	endless := serve(t, func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			if _, err := w.Write(make([]byte, 4<<10)); err != nil {
				return
			}
		}
	})
	status, kind, body := newReceivers(NewAddressGuard(true)).post(t.Context(), checkout.ModeTest, endless, http.Header{}, nil)
	require.Equal(t, 200, status)
	require.Empty(t, kind)
	require.Len(t, body, maxResponseBody)

	drip := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush() // the reader may have gone
		<-r.Context().Done()
	})
	began := time.Now()
	status, kind, _ = newReceivers(NewAddressGuard(true)).post(t.Context(), checkout.ModeTest, drip, http.Header{}, nil)
	require.Equal(t, 200, status)
	require.Empty(t, kind, "the status has decided")
	require.Less(t, time.Since(began), webhook.ResponseTimeout)
}

// serve returns the URL of a server, or of a port where none listens.
func serve(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(h)
	if h == nil {
		s.Close()
	} else {
		t.Cleanup(s.Close)
	}
	return s.URL
}

// raw returns the URL of a server that reads a request, writes text and hangs up.
func raw(t *testing.T, text string) string { t.Helper(); return rawThen(t, text, true) }

// rawThen is raw that may keep the connection until the test ends.
func rawThen(t *testing.T, text string, hangUp bool) string {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = c.Read(make([]byte, 4<<10))
			_, _ = c.Write([]byte(text))
			if hangUp {
				_ = c.Close()
			} else {
				t.Cleanup(func() { _ = c.Close() })
			}
		}
	}()
	return "http://" + l.Addr().String()
}
