// Package limit keeps one caller from taking what all of them share: whom a
// request counts for, how many requests of one caller are worked on at once,
// and how much of what is heavy.
package limit

import (
	"net"
	"net/http"
	"net/netip"
)

// Address is whom a request without a key counts for: an IPv4 address, or the
// network of 64 bits that one customer has in IPv6.
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

// RemoteIP is the IP address that r came from.
func RemoteIP(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}
