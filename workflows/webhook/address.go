package webhook

import (
	"net"
	"net/netip"
	"net/url"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/idna"
)

// defaultPorts are the ports of an address that names none.
var defaultPorts = map[string]string{"http": "80", "https": "443"}

// NormalURL returns the spelling by which addresses are compared. Two addresses have the same one when an attempt to
// either goes to the same host and port and asks for the same path and query. It is for comparisons only: it has the
// port, and the fragment is missing. What cannot be parsed is returned as it is. Source: api/decisions/webhooks.md,
// "spellings of an address".
func NormalURL(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return address
	}
	port := u.Port()
	if port == "" {
		port = defaultPorts[u.Scheme]
	}
	u.ForceQuery = false // a question mark without a query
	return u.Scheme + "://" + net.JoinHostPort(normalHost(u), port) + u.RequestURI()
}

// WithoutFragment returns an address without its fragment, which no server gets.
func WithoutFragment(address string) string {
	address, _, _ = strings.Cut(address, "#")
	return address
}

// HostOf returns the host of an address without its port, in the spelling of PlainHost, such as "shop.example"; ""
// when the address cannot be parsed or has none.
func HostOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return normalHost(u)
}

func normalHost(u *url.URL) string {
	host, err := PlainHost(u.Hostname())
	if err != nil { // no such host gets an attempt
		return u.Hostname()
	}
	return host
}

// PlainHost returns a host as DNS has it: in ASCII, in lower case, without the final dot. An IP address gets its usual
// spelling. PlainHost returns ErrURLHost for what is neither a name nor an address.
func PlainHost(host string) (string, error) {
	if address, err := netip.ParseAddr(host); err == nil {
		return address.String(), nil
	}
	if utf8.RuneCountInString(host) > maxName+len(".") {
		return "", ErrURLHost // ASCII has no fewer characters, and the time of ToASCII grows with their square
	}
	ascii, err := idna.Lookup.ToASCII(strings.TrimSuffix(host, "."))
	if err != nil || !PossibleHost(ascii) {
		return "", ErrURLHost
	}
	return ascii, nil
}

// HostPortOf returns the host of an address as it was written, with the port when the address names one.
func HostPortOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return u.Host
}

// PlainURL returns an address without the parts that often hold a secret: user info, query and fragment. It is
// "" when the address cannot be parsed.
func PlainURL(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path, RawPath: u.RawPath}).String()
}
