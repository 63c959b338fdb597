// Package limit keeps one caller from using what all callers share. It names the caller of a
// request, bounds the requests of one caller at once, and bounds heavy work.
package limit

import (
	"net"
	"net/http"
	"net/netip"
)

// Address returns the name under which a request without a key is counted: the IPv4 address, or the
// 64-bit network in IPv6, because one customer has a whole such network.
func Address(r *http.Request) string {
	host := RemoteIP(r)
	address, err := netip.ParseAddr(host)
	if err != nil {
		return host
	}
	if address = address.Unmap().WithZone(""); address.Is4() {
		return address.String()
	}
	network, err := address.Prefix(64)
	if err != nil {
		return host
	}
	return network.String()
}

// RemoteIP returns the IP address of r's client.
func RemoteIP(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}
