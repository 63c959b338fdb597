package service

import (
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/otel/metric"
	"golang.org/x/time/rate"
)

// forwardedFor is the header in which proxies write the client's address.
const forwardedFor = "X-Forwarded-For"

// An error here means a bad instrument name: a bug.
var untrusted, _ = meter.Int64Counter("checkout.proxy.untrusted", metric.WithUnit("{request}"),
	metric.WithDescription(
		"Requests with an untrusted X-Forwarded-For: CHECKOUT_TRUSTED_PROXIES does not name the sender."))

// untrustedWarnings limits the warnings of reportUntrusted to one a minute.
var untrustedWarnings = rate.Sometimes{Interval: time.Minute}

// reportUntrusted counts a request with a header that is not believed, and warns once a minute at most.
func reportUntrusted(r *http.Request) {
	untrusted.Add(r.Context(), 1)
	untrustedWarnings.Do(func() {
		slog.WarnContext(r.Context(), "X-Forwarded-For is not trusted: CHECKOUT_TRUSTED_PROXIES does not name this sender; "+
			"if it is a proxy, all its customers share one rate limit", "peer", r.RemoteAddr)
	})
}

// behindProxies sets the request's address to the client's address, which the trusted proxies
// wrote into X-Forwarded-For. Rate limits count by this address. The entries are read from the
// end up to the first address that is not a trusted proxy. Earlier entries may be forged. It warns of a
// header from anybody else: that is a customer who lies, or a proxy that the settings do not name.
func behindProxies(proxies []netip.Prefix, next http.Handler) http.Handler {
	trusted := func(a netip.Addr) bool {
		return slices.ContainsFunc(proxies, func(p netip.Prefix) bool { return p.Contains(a) })
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		peer, err := netip.ParseAddrPort(r.RemoteAddr)
		if err != nil || !trusted(peer.Addr().Unmap()) {
			if r.Header.Get(forwardedFor) != "" {
				reportUntrusted(r)
			}
			next.ServeHTTP(w, r)
			return
		}
		hops := strings.Split(strings.Join(r.Header.Values(forwardedFor), ","), ",")
		for _, hop := range slices.Backward(hops) {
			address, err := netip.ParseAddr(strings.TrimSpace(hop))
			if err != nil {
				break
			}
			if address = address.Unmap(); !trusted(address) {
				r = r.WithContext(r.Context()) // a copy
				r.RemoteAddr = net.JoinHostPort(address.String(), "0")
				break
			}
		}
		next.ServeHTTP(w, r)
	})
}
