package activities

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"code.dny.dev/ssrf"
	"golang.org/x/net/idna"

	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/webhook"
)

// AddressGuard refuses to talk to addresses inside: loopback, private, link
// local, metadata services and the like, however they are spelled. It looks at
// the address that is really dialed, after DNS, so that a name that changes its
// mind gets nowhere.
type AddressGuard struct {
	test, live *ssrf.Guardian
	resolver   *net.Resolver
}

// ErrBlockedAddress: the host leads to an address that webhooks may not reach.
// Its text is shown to merchants.
var ErrBlockedAddress = errors.New("must not lead to a private, loopback or reserved address")

// wireServer hands out the secrets of the machine it is asked from, in every data
// center of Azure. It is the one such service with an address that is not reserved.
var wireServer = netip.MustParsePrefix("168.63.129.16/32")

// NewAddressGuard returns a guard. With allowLoopback test mode may reach this
// machine, for local development; live mode never does.
func NewAddressGuard(allowLoopback bool) *AddressGuard {
	common := []ssrf.Option{
		ssrf.WithAnyPort(), // receivers live on any port; addresses are what is dangerous
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

// dialer resolves names with the guard's resolver and skips every address that
// may not be reached, right before it would connect to it. When nothing else is
// left it fails with ErrBlockedAddress, or with what befell a public address
// that came first.
func (g *AddressGuard) dialer(mode checkout.Mode) *net.Dialer {
	return &net.Dialer{Control: g.control(mode), Resolver: g.resolver, Timeout: webhook.ResponseTimeout}
}

// control is a net.Dialer.Control: it sees every address right before it is
// dialed and fails with ErrBlockedAddress.
func (g *AddressGuard) control(mode checkout.Mode) func(network, address string, c syscall.RawConn) error {
	guardian := g.guardian(mode)
	return func(network, address string, c syscall.RawConn) error {
		if guardian.Safe(network, address, c) != nil {
			return ErrBlockedAddress
		}
		return nil
	}
}

// lookupTimeout bounds Check: a merchant waits for it.
const lookupTimeout = 2 * time.Second

// ErrHostName: the host is no name and no address that a browser would take for
// one. Its text is shown to merchants.
var ErrHostName = errors.New("must have a host name or an IP address in its usual spelling")

// Lengths of what DNS can hold, in bytes, without the dot at the end. A longer name
// can never exist. Source: RFC 1035, section 2.3.4.
const (
	maxLabel = 63
	maxName  = 253
)

// canonicalHost returns host the way DNS has it, or ErrHostName or, for an
// address with a zone, ErrBlockedAddress. Numbers in other spellings than
// the usual one, such as 0x7f.1 or 2130706433, mean an address to some programs
// and a name to others, so they are refused.
func canonicalHost(host string) (string, error) {
	if address, err := netip.ParseAddr(host); err == nil {
		if address.Zone() != "" {
			return "", ErrBlockedAddress // a zone is a network card of this machine
		}
		return host, nil
	}
	ascii, err := idna.Lookup.ToASCII(strings.TrimSuffix(host, "."))
	if err != nil || len(ascii) > maxName || slices.ContainsFunc(strings.Split(ascii, "."), func(label string) bool { return label == "" || len(label) > maxLabel }) {
		return "", ErrHostName
	}
	last := ascii[strings.LastIndexByte(ascii, '.')+1:]
	if _, err := strconv.ParseUint(last, 0, 64); err == nil || strings.HasPrefix(last, "0x") || strings.Trim(last, "0123456789") == "" {
		if _, err := netip.ParseAddr(ascii); err != nil {
			return "", ErrHostName
		}
	}
	return ascii, nil
}

// Check tells a merchant early that deliveries to host would be refused. A name
// that does not resolve now passes: it may do so later, and the dial is guarded
// anyway. It returns ErrBlockedAddress or ErrHostName.
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
