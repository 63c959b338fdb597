package activities

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/webhook"
)

// FuzzAddressGuard compares registration and dial. Its nameserver answers 127.0.0.1 for every name.
// A host that registration refuses is not dialed, unless it is malformed. A host that is registered
// and dialed has a public address. No spelling ever leads to a special-purpose address.
func FuzzAddressGuard(f *testing.F) {
	for _, s := range spellings {
		f.Add(s.authority)
	}
	for _, s := range specialPurposes {
		p := netip.MustParsePrefix(s.prefix)
		f.Add(authority(p.Addr()))
	}
	var ranges []netip.Prefix
	for _, s := range specialPurposes {
		if p := netip.MustParsePrefix(s.prefix); p.Bits() > 0 && p != netip.MustParsePrefix("::ffff:0:0/96") {
			ranges = append(ranges, p)
		}
	}
	everyName := resolver(f, nil) // always resolves to 127.0.0.1
	f.Fuzz(func(t *testing.T, host string) {
		u, err := webhook.ParseURL("https://"+host+"/", checkout.ModeLive)
		if err != nil {
			return // not registered, so never dialed
		}
		guard := NewAddressGuard(false)
		guard.resolver = everyName
		registered := guard.Check(t.Context(), checkout.ModeLive, u.Hostname())
		dialed := dial(t.Context(), guard, u.Hostname())
		for _, a := range dialed {
			require.True(t, a.Unmap().IsGlobalUnicast(), "%q leads to %s", host, a)
			require.Empty(t, a.Zone(), host)
			for _, p := range ranges {
				require.False(t, p.Contains(a.Unmap()), "%q leads to %s of %s", host, a, p)
			}
		}
		if errors.Is(registered, ErrBlockedAddress) {
			require.Empty(t, dialed, "%q may not be registered and is dialed", host)
		}
		if address, err := netip.ParseAddr(u.Hostname()); err == nil { // an address means the same to both
			require.Equal(t, registered == nil, len(dialed) == 1, "%q: registration %v, dialed %v", host, registered, dialed)
			if registered == nil {
				require.Equal(t, address.Unmap(), dialed[0].Unmap(), host)
			}
		}
	})
}

// dial returns the addresses that a delivery to host would connect to.
func dial(ctx context.Context, guard *AddressGuard, host string) (reached []netip.Addr) {
	dialer := guard.dialer(checkout.ModeLive)
	guarded := dialer.Control
	dialer.Control = func(network, address string, c syscall.RawConn) error {
		if err := guarded(network, address, c); err != nil {
			return err
		}
		if at, err := netip.ParseAddrPort(address); err == nil {
			reached = append(reached, at.Addr())
		}
		return errWouldConnect
	}
	if conn, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(strings.TrimSpace(host), "443")); err == nil {
		_ = conn.Close() // never reached: no connection is made
	}
	return reached
}
