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

// FuzzAddressGuard holds registration and dial against each other, with a
// nameserver that takes every name for 127.0.0.1: what may not be registered is
// not dialed unless it is malformed, what may be registered and is dialed is a
// public address, and no special-purpose address is ever connected to, whichever
// spelling led there.
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
	everyName := resolver(f, nil) // leads to 127.0.0.1
	f.Fuzz(func(t *testing.T, host string) {
		u, err := webhook.ParseURL("https://"+host+"/", checkout.ModeLive)
		if err != nil {
			return // it is not registered, and never dialed
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
		if address, err := netip.ParseAddr(u.Hostname()); err == nil { // what is no name means the same to both
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
		_ = conn.Close() // never: nothing is connected to
	}
	return reached
}
