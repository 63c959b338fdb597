package activities

import (
	"context"
	"crypto/tls"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/checkout/storage/storagetest/must"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/webhook"
)

func TestReceiver_LiveModeNeverSpeaksPlainHTTP(t *testing.T) {
	t.Parallel()
	got := newReceivers(NewAddressGuard(true)).post(t.Context(), checkout.ModeLive, "http://8.8.8.8/", http.Header{}, nil)
	require.Equal(t, webhook.ErrorBlockedAddress, got.kind)
	got = newReceivers(NewAddressGuard(true)).post(t.Context(), checkout.ModeLive, "https://127.0.0.1/", http.Header{}, nil)
	require.Equal(t, webhook.ErrorBlockedAddress, got.kind, "the setting never opens live mode")
}

// The worker shuts down during an attempt. The error is internal, because the receiver did nothing wrong.
func TestReceiver_AnAttemptThatWeStopIsOurFault(t *testing.T) {
	t.Parallel()
	ca := newCertificateAuthority(t)
	r := receiversTrusting(t, ca, namesOfReceivers)
	handshake := fakeReceiver(t, (*wire).hold).url
	for name, url := range map[string]string{
		"in DNS":              "http://silent.test/",
		"in the handshake":    "https" + strings.TrimPrefix(handshake, "http"),
		"in the answer":       after(t, (*wire).hold),
		"in the headers":      after(t, func(w *wire) { w.say("HTTP/1.1 200 OK\r\n"); w.hold() }),
		"in an HTTP/2 answer": fakeHTTP2Receiver(t, ca.server(t, nil), nil, (*stream).hold).url,
	} {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(100*time.Millisecond, cancel)
		began := time.Now()
		got := r.post(ctx, checkout.ModeTest, url, http.Header{}, []byte("{}"))
		require.Equal(t, reply{kind: webhook.ErrorInternal}, got, name)
		require.Less(t, time.Since(began), 5*time.Second, name)
	}
}

// TestReceiver_NeverFollowsARedirect tries all five redirect codes, to an internal target.
func TestReceiver_NeverFollowsARedirect(t *testing.T) {
	t.Parallel()
	target := listen(t, "127.0.0.1:0")
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
			got := newReceivers(NewAddressGuard(true)).post(t.Context(), checkout.ModeTest, url, http.Header{}, []byte("{}"))
			require.Equal(t, status, got.status, location)
			require.Equal(t, webhook.ErrorHTTP, got.kind, location)
			require.EqualValues(t, 1, requests.Load(), location)
		}
	}
	require.Zero(t, target.connections.Load())

	// An http.Client follows the redirect, so this check proves that the target would notice.
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://"+target.Addr().String()+"/", http.StatusTemporaryRedirect)
	})
	req := must.Get(http.NewRequestWithContext(context.Background(), http.MethodPost, url, http.NoBody))(t)
	res := must.Get(http.DefaultClient.Do(req))(t)
	_, _ = io.Copy(io.Discard, res.Body)
	require.NoError(t, res.Body.Close())
	require.EqualValues(t, 1, target.connections.Load())
}

// BenchmarkPost measures an attempt over TLS: a full handshake, a resumed session (as in service), and a kept connection.
func BenchmarkPost(b *testing.B) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer server.Close()
	for name, c := range map[string]struct{ resume, keep bool }{
		"full handshake": {}, "resumed": {resume: true}, "kept": {keep: true},
	} {
		b.Run(name, func(b *testing.B) {
			r := newReceivers(NewAddressGuard(true))
			transport := server.Client().Transport.(*http.Transport).Clone()
			transport.DisableKeepAlives = !c.keep
			transport.ForceAttemptHTTP2 = true
			if c.resume {
				transport.TLSClientConfig.ClientSessionCache = tls.NewLRUClientSessionCache(sessionsKept)
			}
			r.test = transport
			for b.Loop() {
				got := r.post(b.Context(), checkout.ModeTest, server.URL, http.Header{}, []byte("{}"))
				require.Equal(b, 200, got.status)
			}
		})
	}
}

// Each attempt has its own connection. A merchant may send as many certificates as TLS allows.
func TestReceiver_ResumesTheSessionOfAnEarlierAttemptUnlessItIsLarge(t *testing.T) {
	t.Parallel()
	for certificates, want := range map[int][]bool{1: {false, true, true}, 40: {false, false, false}} {
		var resumed []bool
		server := httptest.NewTLSServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			resumed = append(resumed, r.TLS.DidResume)
		}))
		t.Cleanup(server.Close)
		chain := &server.TLS.Certificates[0]
		for len(chain.Certificate) < certificates {
			chain.Certificate = append(chain.Certificate, chain.Certificate[0])
		}
		r := newReceivers(NewAddressGuard(true))
		r.test.(*http.Transport).TLSClientConfig.RootCAs = server.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
		for range 3 {
			require.Equal(t, 200, r.post(t.Context(), checkout.ModeTest, server.URL, http.Header{}, []byte("{}")).status)
		}
		require.Equal(t, want, resumed, "%d certificates", certificates)
	}
}

func TestRetryAfter_InSecondsOrAsADate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for text, want := range map[string]time.Duration{
			"": 0, "7": 7 * time.Second, "0": 0, "-1": 0, "1.5": 0, "soon": 0, "99999999999999999999": 0,
			time.Now().Add(20 * time.Second).UTC().Format(http.TimeFormat): 20 * time.Second,
			time.Now().Add(-time.Hour).UTC().Format(http.TimeFormat):       0,
		} {
			for status, counts := range map[int]bool{429: true, 503: true, 500: false, 200: false, 301: false} {
				got := retryAfter(&http.Response{StatusCode: status, Header: http.Header{"Retry-After": {text}}})
				if counts {
					require.Equal(t, want, got, text)
				} else {
					require.Zero(t, got)
				}
			}
		}
	})
}
