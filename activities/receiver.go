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
	"strconv"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/propagation"

	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/webhook"
)

// Limits of an answer. Only its status decides; its body goes to the log.
const (
	maxResponseBody    = 16 << 10
	maxResponseHeaders = 32 << 10
	responseBodyTime   = time.Second
)

// Limits of the TLS sessions that a transport keeps. A session holds the receiver's certificates.
const (
	sessionsKept   = 500
	maxSessionSize = 16 << 10
)

// smallSessions drops the sessions of receivers that send many certificates: a merchant could fill the
// memory with them.
type smallSessions struct{ tls.ClientSessionCache }

// Put implements tls.ClientSessionCache.
func (c smallSessions) Put(key string, session *tls.ClientSessionState) {
	if session == nil || sizeOf(session) <= maxSessionSize {
		c.ClientSessionCache.Put(key, session)
	}
}

func sizeOf(session *tls.ClientSessionState) int {
	ticket, state, err := session.ResumptionState()
	if err != nil || state == nil {
		return maxSessionSize + 1
	}
	stored, err := state.Bytes()
	if err != nil {
		return maxSessionSize + 1
	}
	return len(ticket) + len(stored)
}

// receivers sends requests to merchants' servers: guarded dials, no proxy, no redirects, no
// compression, TLS 1.2 or later.
type receivers struct{ test, live http.RoundTripper }

func newReceivers(guard *AddressGuard) receivers {
	return receivers{test: newTransport(guard, checkout.ModeTest), live: newTransport(guard, checkout.ModeLive)}
}

// transport returns the transport of a mode. It returns false for an address that live mode does not take: no check
// let such a URL into a row.
func (r receivers) transport(mode checkout.Mode, address string) (http.RoundTripper, bool) {
	if !mode.Live() {
		return r.test, true
	}
	u, err := url.Parse(address)
	return r.live, err == nil && u.Scheme == "https"
}

// newTransport returns a transport. It is used without an http.Client, which would follow
// redirects: a redirect leads to a URL that the merchant did not register.
func newTransport(guard *AddressGuard, mode checkout.Mode) *http.Transport {
	dialer := guard.dialer(mode)
	config := &tls.Config{
		MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"},
		// A resumed session spares both sides the certificate, which is most of a handshake's work.
		ClientSessionCache: smallSessions{tls.NewLRUClientSessionCache(sessionsKept)},
	}
	return &http.Transport{
		Proxy:                  nil, // a proxy would dial past the guard
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

// Each connection serves one attempt. A receiver may close a kept connection just when the next
// attempt uses it; that attempt is lost for 30 seconds or more and cannot safely be sent again.
// Unrequested data on a kept connection would count as the next answer. Merchants whose servers
// share a host would share connections. The price is a resumed handshake per attempt: see BenchmarkPost.

// http2Limits limits the memory that a receiver can make this process use. Go's default buffers 4
// MiB of an unread body. The limits also close a silent connection, so that no attempt waits on it.
var http2Limits = &http.HTTP2Config{
	MaxReceiveBufferPerStream:     4 * maxResponseBody,
	MaxReceiveBufferPerConnection: 1 << 20,
	SendPingTimeout:               webhook.ResponseTimeout,
	PingTimeout:                   5 * time.Second,
}

// errHandshake: the connection was made, but the TLS handshake failed.
var errHandshake = errors.New("TLS handshake")

// dialTLS marks errors that come after the connection was made, because most of them have no type
// of their own. The dialer's time-out covers the handshake too; with the transport's own handshake
// it could continue after its request has ended.
func dialTLS(dialer *tls.Dialer) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := dialer.DialContext(ctx, network, address)
		if err == nil {
			return c, nil
		}
		if dial, ok := errors.AsType[*net.OpError](err); ok && dial.Op == "dial" {
			return nil, err
		}
		return nil, fmt.Errorf("%w: %w", errHandshake, err)
	}
}

// reply is a receiver's answer.
type reply struct {
	status int               // 0: no answer
	kind   webhook.ErrorKind // "": success
	body   []byte
	pause  time.Duration // Retry-After of a 429 or 503
}

// post sends body once and returns the receiver's answer. The 10 seconds cover everything from the
// DNS lookup to the last header.
func (r receivers) post(
	ctx context.Context, mode checkout.Mode, address string, headers http.Header, body []byte,
) reply {
	transport, ok := r.transport(mode, address)
	if !ok {
		return reply{kind: webhook.ErrorBlockedAddress}
	}

	ctx, cancel := context.WithTimeout(ctx, webhook.ResponseTimeout)
	defer cancel()
	var answered atomic.Bool // the transport's goroutine sets it
	req, err := newPost(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotFirstResponseByte: func() { answered.Store(true) },
	}), address, headers, body)
	if err != nil {
		return reply{kind: webhook.ErrorInternal}
	}

	res, err := transport.RoundTrip(req)
	if err != nil {
		return reply{kind: classify(err, answered.Load())}
	}
	defer func() { _ = res.Body.Close() }() // the status has decided; a close error changes nothing
	if res.StatusCode == http.StatusSwitchingProtocols {
		// The body is the raw connection, and no time-out ends it.
		return reply{status: res.StatusCode, kind: webhook.ErrorHTTP}
	}

	stop := time.AfterFunc(responseBodyTime, cancel) // a slow body must not hold the worker longer
	defer stop.Stop()
	got := reply{status: res.StatusCode, pause: retryAfter(res)}
	got.body, _ = io.ReadAll(io.LimitReader(res.Body, maxResponseBody))
	if res.StatusCode < 200 || res.StatusCode > 299 {
		got.kind = webhook.ErrorHTTP
	}
	return got
}

// retryAfter returns the pause that the receiver requests: Retry-After of a 429 or 503, in seconds or as a date (RFC
// 9110, 10.2.3); 0 without one.
func retryAfter(res *http.Response) time.Duration {
	if res.StatusCode != http.StatusTooManyRequests && res.StatusCode != http.StatusServiceUnavailable {
		return 0
	}
	text := res.Header.Get("Retry-After")
	if seconds, err := strconv.ParseUint(text, 10, 31); err == nil {
		return time.Duration(seconds) * time.Second
	}
	at, err := http.ParseTime(text)
	if err != nil {
		return 0
	}
	return max(time.Until(at), 0)
}

// newPost returns a request that the transport sends at most once. With GetBody the transport would
// send a POST up to seven times more when an HTTP/2 receiver resets the stream.
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

// classify returns the kind of a failed request. answered says whether the first byte of an answer came. Source:
// api/decisions/deliveries.md, "kinds of failed attempts".
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

// isAlert reports whether err is a TLS alert. In TLS 1.3 the alert for a missing client certificate
// comes only after the handshake.
func isAlert(err *net.OpError) bool { return err.Op == "remote error" || err.Op == "local error" }
