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

// newLocal posts as deliveries are posted: no proxy, no redirects (there is no
// http.Client that would follow them), no compression.
func newLocal(address, secret string) *local {
	return &local{address, secret, webhook.ResponseTimeout, &http.Transport{
		DisableCompression: true, ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12},
	}}
}

// stopGrace is how long an event under way may take when listen is told to stop,
// so that stopping seldom repeats one.
const stopGrace = 2 * time.Second

// So much of an answer's body is read, so that the local server can write it.
const (
	maxAnswer  = 64 << 10
	answerTime = time.Second
)

// outcome is how the local server took an event.
type outcome struct {
	reached bool // a connection stood
	status  int  // 0: no answer
	err     error
	took    time.Duration
}

func (o outcome) ok() bool { return o.status >= 200 && o.status <= 299 }

// post sends an event once, with the headers of a delivery. There is no
// X-Service-Delivery-Id, because there is no delivery that it could name.
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
	req.GetBody = nil // with it the transport may send a POST twice
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
	if o.status != http.StatusSwitchingProtocols { // then it is the raw connection, which no time-out ends
		time.AfterFunc(answerTime, cancel)
		_, _ = io.CopyN(io.Discard, res.Body, maxAnswer) // the status has decided
	}
	_ = res.Body.Close() // it was read, or is of no use
	// A development server restarts often. A connection from before that would
	// fail the next event.
	l.transport.CloseIdleConnections()
	return o
}
