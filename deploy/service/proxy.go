package service

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// behindProxies makes the address of a request that of the client, as the
// trusted proxies in front wrote it down; rate limits count by it. The entries
// of X-Forwarded-For are read from the end, because whatever is before the first
// one that is no proxy of ours was written by anybody.
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
