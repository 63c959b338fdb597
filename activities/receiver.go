package activities

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/propagation"

	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/webhook"
)

// Limits of an answer. Its body is for the log only; the status decides.
const (
	maxResponseBody    = 16 << 10
	maxResponseHeaders = 32 << 10
	responseBodyTime   = time.Second
)

// receivers talks to merchants' servers: guarded dials, no proxy, no redirects,
// no compression, TLS 1.2 or later.
type receivers struct{ test, live http.RoundTripper }

func newReceivers(guard *AddressGuard) receivers {
	return receivers{test: newTransport(guard, checkout.ModeTest), live: newTransport(guard, checkout.ModeLive)}
}

// newTransport is used without an http.Client, which would look at redirects: one
// would lead past what the merchant registered.
func newTransport(guard *AddressGuard, mode checkout.Mode) *http.Transport {
	dialer := guard.dialer(mode)
	config := &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}}
	return &http.Transport{
		Proxy:                  nil, // a proxy would dial in the guard's place
		DialContext:            dialer.DialContext,
		DialTLSContext:         dialTLS(&tls.Dialer{NetDialer: dialer, Config: config}),
		TLSClientConfig:        config,
		DisableCompression:     true,
		ForceAttemptHTTP2:      true,
		HTTP2:                  http2Limits,
		MaxResponseHeaderBytes: maxResponseHeaders,
		DisableKeepAlives:      true, // see below
	}
}

// A connection is for one attempt. On one that is kept a receiver may hang up just
// when the next attempt goes out on it, which is then lost for 30 seconds or more
// and cannot be sent again safely; what a receiver says unasked would be taken for
// the next answer; and merchants whose servers share a host would share
// connections. It costs a handshake: BenchmarkPost.

// http2Limits keep what a receiver can make us hold: left alone, Go would take
// 4 MiB of a body that nobody reads. A connection that has fallen silent is given
// up, or every later attempt would wait on it.
var http2Limits = &http.HTTP2Config{
	MaxReceiveBufferPerStream:     4 * maxResponseBody,
	MaxReceiveBufferPerConnection: 1 << 20,
	SendPingTimeout:               webhook.ResponseTimeout,
	PingTimeout:                   5 * time.Second,
}

// errHandshake: a connection stood, but TLS on it did not.
var errHandshake = errors.New("TLS handshake")

// dialTLS marks what went wrong after the connection stood. Most of those errors
// have no type of their own. The dialer's time-out covers the handshake too; the
// transport would let it run on after its request has ended.
func dialTLS(dialer *tls.Dialer) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := dialer.DialContext(ctx, network, address)
		if err == nil {
			return c, nil
		}
		var dial *net.OpError
		if errors.As(err, &dial) && dial.Op == "dial" {
			return nil, err
		}
		return nil, fmt.Errorf("%w: %w", errHandshake, err)
	}
}

// post sends body once and says how the receiver took it. The 10 seconds cover
// everything from resolving the name to the last header.
func (r receivers) post(ctx context.Context, mode checkout.Mode, address string, headers http.Header, body []byte) (status int, kind webhook.ErrorKind, response []byte) {
	transport := r.test
	if mode.Live() {
		transport = r.live
		if u, err := url.Parse(address); err != nil || u.Scheme != "https" {
			return 0, webhook.ErrorBlockedAddress, nil // however it got into the row
		}
	}
	ctx, cancel := context.WithTimeout(ctx, webhook.ResponseTimeout)
	defer cancel()
	var answered atomic.Bool // set by the transport's own goroutine
	req, err := newPost(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotFirstResponseByte: func() { answered.Store(true) },
	}), address, headers, body)
	if err != nil {
		return 0, webhook.ErrorInternal, nil
	}
	res, err := transport.RoundTrip(req)
	if err != nil {
		return 0, classify(err, answered.Load()), nil
	}
	defer func() { _ = res.Body.Close() }() // the status has decided; nothing is left to learn
	if res.StatusCode == http.StatusSwitchingProtocols {
		// Its body is the raw connection, which no time-out ends.
		return res.StatusCode, webhook.ErrorHTTP, nil
	}
	stop := time.AfterFunc(responseBodyTime, cancel) // a body that drips holds the worker no longer
	defer stop.Stop()
	response, _ = io.ReadAll(io.LimitReader(res.Body, maxResponseBody))
	if res.StatusCode < 200 || res.StatusCode > 299 {
		return res.StatusCode, webhook.ErrorHTTP, response
	}
	return res.StatusCode, "", response
}

// newPost returns a request that the transport sends at most once. With GetBody
// it would send a POST again, up to seven times, to an HTTP/2 receiver that
// resets the stream.
func newPost(ctx context.Context, address string, headers http.Header, body []byte) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.GetBody = nil
	req.Header = headers
	otel.GetTextMapPropagator().Inject(ctx, propagation.HeaderCarrier(req.Header))
	return req, nil
}

// classify names the kind of a failed request; answered says whether a first
// byte of an answer came. Source: api/decisions.md, "kinds of failed attempts".
func classify(err error, answered bool) webhook.ErrorKind {
	var (
		timeout net.Error
		dns     *net.DNSError
		network *net.OpError
	)
	switch {
	case errors.Is(err, ErrBlockedAddress):
		return webhook.ErrorBlockedAddress
	case errors.Is(err, context.Canceled):
		return webhook.ErrorInternal
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return webhook.ErrorTimeout
	case errors.As(err, &dns):
		return webhook.ErrorDNS
	case errors.Is(err, errHandshake), errors.As(err, &network) && isAlert(network):
		return webhook.ErrorTLS
	case network != nil, errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), !answered:
		return webhook.ErrorConnect
	}
	return webhook.ErrorHTTP
}

// isAlert reports a TLS alert. In TLS 1.3 the one for a missing client
// certificate comes only after the handshake.
func isAlert(err *net.OpError) bool { return err.Op == "remote error" || err.Op == "local error" }
