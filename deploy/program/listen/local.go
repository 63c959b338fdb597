package listen

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"sync/atomic"
	"time"

	"example.com/checkout/workflows/webhook"
)

// local is the developer's server.
type local struct {
	url       string
	secret    string
	timeout   time.Duration
	transport *http.Transport
}

// newLocal returns a local that posts as deliveries do: no proxy, no compression, and no redirects.
// A transport follows none; only an http.Client would.
func newLocal(address, secret string) *local {
	return &local{address, secret, webhook.ResponseTimeout, &http.Transport{
		DisableCompression: true, ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12},
	}}
}

// stopGrace is how long an event under way may still take after listen is stopped. Without it, the
// next start would often send the event again.
const stopGrace = 2 * time.Second

// Limits for reading an answer's body. It is read so that the local server can finish writing it.
const (
	maxAnswer  = 64 << 10
	answerTime = time.Second
)

// outcome is the result of one POST to the local server.
type outcome struct {
	reached bool // a connection was made
	status  int  // 0: no answer
	err     error
	took    time.Duration
}

func (o outcome) ok() bool { return o.status >= 200 && o.status <= 299 }

// post sends an event once, with the headers of a delivery. It sends no X-Service-Delivery-Id,
// because no delivery exists.
func (l *local) post(ctx context.Context, e event, body []byte, attempt int) outcome {
	posting, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.timeout)
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(stopGrace, cancel) })()
	var reached atomic.Bool // set by the transport's own goroutine
	traced := httptrace.WithClientTrace(posting, &httptrace.ClientTrace{
		ConnectDone: func(_, _ string, err error) {
			if err == nil {
				reached.Store(true)
			}
		},
	})
	began := time.Now()
	req, err := http.NewRequestWithContext(traced, http.MethodPost, l.url, bytes.NewReader(body))
	if err != nil {
		return outcome{err: err}
	}

	req.GetBody = nil // with GetBody the transport may send a POST twice
	req.Header = http.Header{
		"Content-Type":          {"application/json"},
		"User-Agent":            {webhook.UserAgent},
		webhook.SignatureHeader: {webhook.Sign([]byte(l.secret), began, body)},
		"X-Service-Event-Id":    {e.ID},
		"X-Service-Event-Type":  {string(e.Type)},
		"X-Service-Attempt":     {strconv.Itoa(attempt)},
	}

	res, err := l.transport.RoundTrip(req)
	o := outcome{reached: reached.Load(), err: err, took: time.Since(began)}
	if err != nil {
		return o
	}

	o.status = res.StatusCode
	if o.status != http.StatusSwitchingProtocols { // after 101 the body is the raw connection, which no time-out ends
		time.AfterFunc(answerTime, cancel)
		_, _ = io.CopyN(io.Discard, res.Body, maxAnswer) // only the status counts
	}

	_ = res.Body.Close() // the body was read, or is of no use
	// Keep no connection: a development server restarts often, and the next event would fail on an
	// old connection.
	l.transport.CloseIdleConnections()
	return o
}
