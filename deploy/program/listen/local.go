package listen

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	"example.com/checkout/workflows/webhook"
)

// stopGrace is how long an event under way may still take after listen is stopped. Without it, the
// next start would often send the event again.
const stopGrace = 2 * time.Second

// maxAnswer is how much of an answer's body is read, so that the local server can finish writing it.
const maxAnswer = 64 << 10

// outcome is the result of one POST to the local server: a status, or an error.
type outcome struct {
	status int
	err    error
	took   time.Duration
}

func (o outcome) ok() bool { return o.status >= 200 && o.status <= 299 }

// away reports whether no connection was made.
func (o outcome) away() bool {
	failed, ok := errors.AsType[*net.OpError](o.err)
	return ok && failed.Op == "dial"
}

// word returns the outcome in at most 7 letters.
func (o outcome) word() string {
	switch {
	case o.err == nil:
		return strconv.Itoa(o.status)
	case errors.Is(o.err, context.DeadlineExceeded):
		return "timeout"
	}
	return "error"
}

// post sends an event once, with the headers of a delivery, and as deliveries do: without a proxy, compression and
// redirects. It sends no id of a delivery, because no delivery exists.
func (l *listener) post(ctx context.Context, e event, body []byte, attempt int) outcome {
	posting, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.timeout)
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(stopGrace, cancel) })()
	req, err := http.NewRequestWithContext(posting, http.MethodPost, l.ForwardTo, bytes.NewReader(body))
	if err != nil {
		return outcome{err: err}
	}
	for name, value := range webhook.RequestHeaders("", e.ID, e.Type, attempt) {
		req.Header.Set(name, value)
	}
	req.Header.Del("X-Service-Delivery-Id")
	began := time.Now()
	req.Header.Set(webhook.SignatureHeader, webhook.Sign([]byte(l.state.Secret), began, body))

	// Keep no connection: a development server restarts often, and the next event would fail on an old one.
	transport := &http.Transport{DisableCompression: true}
	defer transport.CloseIdleConnections()
	res, err := transport.RoundTrip(req)
	took := time.Since(began)
	if err != nil {
		return outcome{err: err, took: took}
	}
	_, _ = io.CopyN(io.Discard, res.Body, maxAnswer) // only the status counts
	_ = res.Body.Close()                             // the body was read, or is of no use
	return outcome{status: res.StatusCode, took: took}
}
