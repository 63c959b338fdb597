package activities

import (
	"bytes"
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/http2"

	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/webhook"
)

const okAnswer = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"

// postTo is one attempt at a fake.
func postTo(t *testing.T, r receivers, f *fake) (int, webhook.ErrorKind) {
	t.Helper()
	status, kind, _ := r.post(t.Context(), checkout.ModeTest, f.url, http.Header{}, []byte("{}"))
	return status, kind
}

// A receiver may hang up on an idle connection just when the next attempt has
// gone out on it. Nobody knows whether it read that, so it is not sent again.
func TestReceiver_AConnectionClosedWhileIdleIsNotPostedToTwice(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*wire){
		"hangs up":       func(*wire) {},
		"resets":         (*wire).reset,
		"hangs up later": func(w *wire) { w.wait(100 * time.Millisecond) },
	} {
		f := fakeReceiver(t, func(w *wire) {
			if w.request() == nil {
				w.say(okAnswer)
			}
			if w.request() == nil {
				end(w)
			}
		})
		r := newReceivers(NewAddressGuard(true))
		for range 10 {
			sent := f.requests.Load()
			status, _ := postTo(t, r, f)
			require.Equal(t, 200, status, name)
			status, kind := postTo(t, r, f)
			require.Zero(t, status, name)
			require.Equal(t, webhook.ErrorConnect, kind, name)
			require.EqualValues(t, sent+2, f.requests.Load(), name)
		}
	}
}

// One that is seen to be closed is not used, and the attempt does not suffer.
func TestReceiver_AConnectionSeenClosedCostsNoAttempt(t *testing.T) {
	t.Parallel()
	f := fakeReceiver(t, func(w *wire) {
		if w.request() == nil {
			w.say(okAnswer)
		}
	})
	r := newReceivers(NewAddressGuard(true))
	for n := range 20 {
		status, kind := postTo(t, r, f)
		require.Equal(t, 200, status)
		require.Empty(t, kind)
		require.EqualValues(t, n+1, f.requests.Load())
		time.Sleep(250 * time.Millisecond) // for the hang-up to arrive, on a busy machine too
	}
}

// TestReceiver_AnHTTP2StreamGivenUpIsNotPostedAgain: Go would, and some of the
// reasons below are given by servers that have done the work.
func TestReceiver_AnHTTP2StreamGivenUpIsNotPostedAgain(t *testing.T) {
	t.Parallel()
	ca := newCertificateAuthority(t)
	config := ca.server(t, nil)
	for name, end := range map[string]func(*stream) error{
		"protocol error": func(s *stream) error { return s.WriteRSTStream(s.id, http2.ErrCodeProtocol) },
		"refused":        func(s *stream) error { return s.WriteRSTStream(s.id, http2.ErrCodeRefusedStream) },
		"internal error": func(s *stream) error { return s.WriteRSTStream(s.id, http2.ErrCodeInternal) },
		"goes away":      func(s *stream) error { return s.WriteGoAway(0, http2.ErrCodeNo, nil) },
		"leaves":         func(s *stream) error { _ = s.WriteGoAway(0, http2.ErrCodeNo, nil); return s.tcp.CloseWrite() },
		"hangs up":       func(s *stream) error { return s.tcp.Close() },
	} {
		f := fakeHTTP2Receiver(t, config, nil, func(s *stream) { _ = end(s) })
		status, kind := postTo(t, receiversTrusting(t, ca, nil), f)
		require.Zero(t, status, name)
		require.Equal(t, webhook.ErrorConnect, kind, name)
		require.EqualValues(t, 1, f.requests.Load(), name)
	}

	f := fakeHTTP2Receiver(t, config, nil, func(s *stream) { _ = s.WriteRSTStream(s.id, http2.ErrCodeProtocol) })
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, f.url, bytes.NewReader([]byte("{}")))
	require.NoError(t, err)
	_, err = receiversTrusting(t, ca, nil).test.RoundTrip(req)
	require.Error(t, err)
	require.Greater(t, f.requests.Load(), int64(1), "an ordinary request is sent again: the counter would notice")
}
