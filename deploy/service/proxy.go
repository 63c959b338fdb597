package service

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// behindProxies sets the request's address to the client's address, which the trusted proxies
// wrote into X-Forwarded-For. Rate limits count by this address. The entries are read from the
// end up to the first address that is not a trusted proxy. Earlier entries may be forged.
func behindProxies(proxies []netip.Prefix, next http.Handler) http.Handler {
	if len(proxies) == 0 {
		return next
	}

	trusted := func(a netip.Addr) bool {
		return slices.ContainsFunc(proxies, func(p netip.Prefix) bool { return p.Contains(a) })
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		peer, err := netip.ParseAddrPort(r.RemoteAddr)
		if err != nil || !trusted(peer.Addr().Unmap()) {
			next.ServeHTTP(w, r)
			return
		}
		hops := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
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
