package activities

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/checkout/storage/storagetest/must"
)

// specialPurpose is a range of addresses that no receiver can have.
type specialPurpose struct {
	prefix, name  string
	before, after neighbour // the addresses next to the range
}

type neighbour int

const (
	none    neighbour = iota // the range is at an end of the address space
	special                  // belongs to another range of the table, or is no global unicast address
	public
)

// specialPurposes lists the IANA Special-Purpose Address Registries (RFC 6890), and ranges of other documents.
var specialPurposes = []specialPurpose{
	{"0.0.0.0/8", "this network", none, public},
	{"0.0.0.0/32", "this host on this network", none, special},
	{"10.0.0.0/8", "private use", public, public},
	{"100.64.0.0/10", "shared address space", public, public},
	{"127.0.0.0/8", "loopback", public, public},
	{"169.254.0.0/16", "link local", public, public},
	{"172.16.0.0/12", "private use", public, public},
	{"192.0.0.0/24", "IETF protocol assignments", public, public},
	{"192.0.0.0/29", "IPv4 service continuity", public, special},
	{"192.0.0.8/32", "IPv4 dummy address", special, special},
	{"192.0.0.9/32", "Port Control Protocol anycast", special, special},
	{"192.0.0.10/32", "TURN anycast", special, special},
	{"192.0.0.170/32", "NAT64/DNS64 discovery", special, special},
	{"192.0.0.171/32", "NAT64/DNS64 discovery", special, special},
	{"192.0.2.0/24", "documentation", public, public},
	{"192.31.196.0/24", "AS112-v4", public, public},
	{"192.52.193.0/24", "AMT", public, public},
	{"192.88.99.0/24", "6to4 relay anycast", public, public},
	{"192.88.99.2/32", "6a44 relay anycast", special, special},
	{"192.168.0.0/16", "private use", public, public},
	{"192.175.48.0/24", "direct delegation AS112", public, public},
	{"198.18.0.0/15", "benchmarking", public, public},
	{"198.51.100.0/24", "documentation", public, public},
	{"203.0.113.0/24", "documentation", public, public},
	{"240.0.0.0/4", "reserved", special, none},
	{"255.255.255.255/32", "limited broadcast", special, none},

	{"224.0.0.0/4", "multicast (RFC 5771)", public, special},
	{"168.63.129.16/32", "Azure's WireServer", public, public},

	{"::1/128", "loopback", special, special},
	{"::/128", "unspecified", none, special},
	{"::ffff:0:0/96", "IPv4-mapped; those between are judged as IPv4", special, special},
	{"64:ff9b::/96", "IPv4-IPv6 translation", special, special},
	{"64:ff9b:1::/48", "IPv4-IPv6 translation", special, special},
	{"100::/64", "discard only", special, special},
	{"100:0:0:1::/64", "dummy IPv6 prefix", special, special},
	{"2001::/23", "IETF protocol assignments", public, public},
	{"2001::/32", "Teredo", public, special},
	{"2001:1::1/128", "Port Control Protocol anycast", special, special},
	{"2001:1::2/128", "TURN anycast", special, special},
	{"2001:1::3/128", "DNS-SD anycast", special, special},
	{"2001:2::/48", "benchmarking", special, special},
	{"2001:3::/32", "AMT", special, special},
	{"2001:4:112::/48", "AS112-v6", special, special},
	{"2001:10::/28", "ORCHID", special, special},
	{"2001:20::/28", "ORCHIDv2", special, special},
	{"2001:30::/28", "drone remote id", special, special},
	{"2001:db8::/32", "documentation", public, public},
	{"2002::/16", "6to4", public, public},
	{"2620:4f:8000::/48", "direct delegation AS112", public, public},
	{"3fff::/20", "documentation", public, public},
	{"5f00::/16", "segment routing", special, special},
	{"fc00::/7", "unique local", special, special},
	{"fe80::/10", "link local", special, special},

	{"::/96", "IPv4-compatible (RFC 4291)", none, special},
	{"fec0::/10", "site local (RFC 3879)", special, special},
	{"ff00::/8", "multicast (RFC 4291)", special, none},
	{"::/3", "not global unicast", none, public},
	{"4000::/2", "not global unicast", public, special},
	{"8000::/1", "not global unicast", special, none},
}

// It tries the first and the last address of each range, and their neighbors outside.
func TestAddressGuard_EverySpecialPurposeRange(t *testing.T) {
	t.Parallel()
	world := newDialWorld(t)
	expect := func(a netip.Addr, n neighbour, name string) {
		if n == public {
			world.accepts(t, authority(a), name)
		} else if n == special {
			world.refuses(t, authority(a), name)
		}
	}
	for _, s := range specialPurposes {
		first, last := bounds(t, s.prefix)
		expect(first, special, "first of "+s.prefix+" "+s.name)
		expect(last, special, "last of "+s.prefix+" "+s.name)
		expect(first.Prev(), s.before, "before "+s.prefix)
		expect(last.Next(), s.after, "after "+s.prefix)
	}
}

// bounds returns the first and the last address of a prefix.
func bounds(t *testing.T, prefix string) (first, last netip.Addr) {
	p := must.Get(netip.ParsePrefix(prefix))(t)
	require.Equal(t, p.Masked(), p, "a prefix starts at its first address")
	bytes := p.Addr().AsSlice()
	for bit := p.Bits(); bit < len(bytes)*8; bit++ {
		bytes[bit/8] |= 0x80 >> (bit % 8)
	}
	last, ok := netip.AddrFromSlice(bytes)
	require.True(t, ok)
	return p.Addr(), last
}

func authority(a netip.Addr) string {
	if a.Is4() {
		return a.String()
	}
	return "[" + a.String() + "]"
}
