package activities

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"syscall"
	"time"

	"code.dny.dev/ssrf"

	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/webhook"
)

// AddressGuard refuses connections to internal addresses: loopback, private, link-local, metadata
// services and the like, in every spelling. It checks the address at the moment of dialing, after
// DNS. So a name that resolves differently the second time gets nowhere.
type AddressGuard struct {
	test, live *ssrf.Guardian
	resolver   *net.Resolver
}

// ErrBlockedAddress: the host resolves to an address that webhooks must not reach. Merchants see this text.
var ErrBlockedAddress = errors.New("must not lead to a private, loopback or reserved address")

// wireServer is the metadata service of Azure: it gives a machine its own secrets. It is the only
// such service whose address is not in a reserved range.
var wireServer = netip.MustParsePrefix("168.63.129.16/32")

// NewAddressGuard returns a guard. With allowLoopback, test mode may reach this machine, for local
// development. Live mode never may.
func NewAddressGuard(allowLoopback bool) *AddressGuard {
	common := []ssrf.Option{
		ssrf.WithAnyPort(), // receivers use any port; only the address is dangerous
		ssrf.WithNetworks("tcp4", "tcp6"),
		ssrf.WithDeniedV4Prefixes(wireServer),
	}
	g := &AddressGuard{live: ssrf.New(common...), resolver: net.DefaultResolver}
	g.test = g.live
	if allowLoopback {
		g.test = ssrf.New(append(common,
			ssrf.WithAllowedV4Prefixes(netip.MustParsePrefix("127.0.0.0/8")),
			ssrf.WithAllowedV6Prefixes(netip.MustParsePrefix("::1/128")))...)
	}
	return g
}

func (g *AddressGuard) guardian(mode checkout.Mode) *ssrf.Guardian {
	if mode.Live() {
		return g.live
	}
	return g.test
}

// dialer returns a dialer that resolves names with the guard's resolver. Just before it connects to
// an address it checks the address and skips a forbidden one. When no address is left it fails with
// ErrBlockedAddress, or with the error of a public address that came first.
func (g *AddressGuard) dialer(mode checkout.Mode) *net.Dialer {
	return &net.Dialer{Control: g.control(mode), Resolver: g.resolver, Timeout: webhook.ResponseTimeout}
}

// control returns a net.Dialer.Control. It checks each address just before the dial and fails with ErrBlockedAddress.
func (g *AddressGuard) control(mode checkout.Mode) func(network, address string, c syscall.RawConn) error {
	guardian := g.guardian(mode)
	return func(network, address string, c syscall.RawConn) error {
		if guardian.Safe(network, address, c) != nil {
			return ErrBlockedAddress
		}
		return nil
	}
}

// lookupTimeout limits Check, because a merchant waits for the result.
const lookupTimeout = 2 * time.Second

// ErrHostName: the host is neither a name nor an address that a browser would accept.
var ErrHostName = webhook.ErrURLHost

// canonicalHost returns host in the form that DNS uses. It returns ErrHostName, and
// ErrBlockedAddress for an address with a zone.
func canonicalHost(host string) (string, error) {
	if address, err := netip.ParseAddr(host); err == nil && address.Zone() != "" {
		return "", ErrBlockedAddress // a zone names a network card of this machine
	}
	return webhook.PlainHost(host)
}

// Check tells a merchant early that deliveries to host would be refused. A name that does not resolve now passes: it
// may resolve later, and every dial is guarded. It returns ErrBlockedAddress and ErrHostName.
func (g *AddressGuard) Check(ctx context.Context, mode checkout.Mode, host string) error {
	host, err := canonicalHost(host)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	addresses, err := g.resolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil
	}
	for _, a := range addresses {
		network := "tcp6"
		if a = a.Unmap(); a.Is4() {
			network = "tcp4"
		}
		if g.guardian(mode).Safe(network, netip.AddrPortFrom(a, 443).String(), nil) != nil {
			return ErrBlockedAddress
		}
	}
	return nil
}
