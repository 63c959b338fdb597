package activities

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
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

const userAgent = "Checkout-Webhooks/1.0"

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
	return &http.Transport{
		Proxy:                  nil, // a proxy would dial in the guard's place
		DialContext:            dialer.DialContext,
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12},
		DisableCompression:     true,
		ForceAttemptHTTP2:      true,
		MaxResponseHeaderBytes: maxResponseHeaders,
		MaxIdleConnsPerHost:    4,
		IdleConnTimeout:        30 * time.Second,
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
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(body))
	if err != nil {
		return 0, webhook.ErrorInternal, nil
	}
	req.Header = headers
	otel.GetTextMapPropagator().Inject(ctx, propagation.HeaderCarrier(req.Header))
	res, err := transport.RoundTrip(req)
	if err != nil {
		return 0, classify(err), nil
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

// classify names the kind of a failed request, most specific first.
func classify(err error) webhook.ErrorKind {
	var (
		dns     *net.DNSError
		cert    *tls.CertificateVerificationError
		record  tls.RecordHeaderError
		alert   tls.AlertError
		unknown x509.UnknownAuthorityError
		network *net.OpError
		timeout net.Error
	)
	switch {
	case errors.Is(err, ErrBlockedAddress):
		return webhook.ErrorBlockedAddress
	case errors.As(err, &dns):
		return webhook.ErrorDNS
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return webhook.ErrorTimeout
	case errors.As(err, &cert), errors.As(err, &record), errors.As(err, &alert), errors.As(err, &unknown), errors.Is(err, http.ErrSchemeMismatch):
		return webhook.ErrorTLS
	case errors.As(err, &network):
		return webhook.ErrorConnect
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return webhook.ErrorConnect
	case errors.Is(err, context.Canceled):
		return webhook.ErrorInternal
	}
	return webhook.ErrorHTTP
}
