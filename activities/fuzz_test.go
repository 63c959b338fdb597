package activities

import (
	"errors"
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/checkout/storage/storagetest/must"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/webhook"
)

// FuzzAddressGuard compares registration and dial. Every name resolves to 127.0.0.1. A host that is refused is not
// dialed unless it is malformed, and no spelling leads to a special-purpose address.
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
		var dialed []netip.AddrPort
		dialer := dryDialer(guard, checkout.ModeLive, &dialed)
		require.Error(t, must.Err(dialer.DialContext(t.Context(), "tcp", net.JoinHostPort(strings.TrimSpace(u.Hostname()), "443"))))
		for _, to := range dialed {
			a := to.Addr()
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
				require.Equal(t, address.Unmap(), dialed[0].Addr().Unmap(), host)
			}
		}
	})
}
