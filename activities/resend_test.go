package activities

import (
	"bytes"
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/http2"

	"example.com/checkout/storage/storagetest/must"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/webhook"
)

const okAnswer = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"

// postTo makes one attempt at a fake.
func postTo(t *testing.T, r receivers, f *fake) reply {
	return r.post(t.Context(), checkout.ModeTest, f.url, http.Header{}, []byte("{}"))
}

// After its answer a receiver may do anything with the connection. No other attempt suffers.
func TestReceiver_AConnectionIsForOneAttempt(t *testing.T) {
	t.Parallel()
	for name, after := range map[string]func(*wire){
		"hangs up":       func(*wire) {},
		"resets":         (*wire).reset,
		"hangs up later": func(w *wire) { w.wait(100 * time.Millisecond) },
		"holds it":       (*wire).hold,
		"says more":      func(w *wire) { w.say("HTTP/1.1 500 Unasked\r\nContent-Length: 0\r\n\r\n"); w.hold() },
		"waits for more": func(w *wire) { _ = w.request() },
	} {
		f := fakeReceiver(t, func(w *wire) {
			if w.request() == nil {
				w.say(okAnswer)
				after(w)
			}
		})
		r := newReceivers(NewAddressGuard(true))
		for n := range 20 {
			got := postTo(t, r, f)
			require.Equal(t, 200, got.status, name)
			require.Empty(t, got.kind, name)
			require.EqualValues(t, n+1, f.requests.Load(), name)
			if n%4 == 0 {
				time.Sleep(20 * time.Millisecond) // let the receiver's bytes arrive
			}
		}
	}
}

// Go's client would post again. But a server may give some of these reasons after it has done the work.
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
		require.Equal(t, reply{kind: webhook.ErrorConnect}, postTo(t, receiversTrusting(t, ca, nil), f), name)
		require.EqualValues(t, 1, f.requests.Load(), name)
	}

	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	f := fakeHTTP2Receiver(t, config, nil, func(s *stream) {
		if s.fake.requests.Load() > 1 {
			cancel()
		}
		_ = s.WriteRSTStream(s.id, http2.ErrCodeProtocol)
	})
	req := must.Get(http.NewRequestWithContext(ctx, http.MethodPost, f.url, bytes.NewReader([]byte("{}"))))(t)
	require.Error(t, must.Err(receiversTrusting(t, ca, nil).test.RoundTrip(req)))
	require.Greater(t, f.requests.Load(), int64(1), "an ordinary request is sent again: the counter would notice")
}
