package activities

import (
	"errors"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/checkout/storage/storagetest/must"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/webhook"
)

// spelling is the host of a URL and the expected results of registration and dial.
type spelling struct {
	authority    string
	registration error             // nil: accepted
	dial         webhook.ErrorKind // "": would connect
}

const (
	blocked  = webhook.ErrorBlockedAddress
	noName   = webhook.ErrorDNS
	noURL    = webhook.ErrorInternal // building the request fails
	connects = webhook.ErrorKind("")
)

// spellings are hosts that the guard, or a parser before it, treats differently. special_purpose_test.go has ranges.
var spellings = []spelling{
	// Plain.
	{"127.0.0.1", ErrBlockedAddress, blocked},
	{"10.1.2.3:443", ErrBlockedAddress, blocked},
	{"0.0.0.0", ErrBlockedAddress, blocked},
	{"[::1]", ErrBlockedAddress, blocked},
	{"[::]", ErrBlockedAddress, blocked},
	{"8.8.8.8:8443", nil, connects},
	{"[2606:4700:4700::1111]:8443", nil, connects},

	// Ports: only the address is dangerous.
	{"8.8.8.8:22", nil, connects},

	// Other lengths, cases and zeros of IPv6.
	{"[0:0:0:0:0:0:0:1]", ErrBlockedAddress, blocked},
	{"[::0.0.0.1]", ErrBlockedAddress, blocked},
	{"[FD00::1]", ErrBlockedAddress, blocked},
	{"[2606:4700:4700:0:0:0:0:1111]", nil, connects},

	// IPv4 inside IPv6: mapped, compatible, translated, NAT64, 6to4, Teredo.
	{"[::ffff:127.0.0.1]", ErrBlockedAddress, blocked},
	{"[0:0:0:0:0:ffff:7f00:0001]", ErrBlockedAddress, blocked},
	{"[::ffff:8.8.8.8]", nil, connects},
	{"[::127.0.0.1]", ErrBlockedAddress, blocked},
	{"[::ffff:0:127.0.0.1]", ErrBlockedAddress, blocked},
	{"[64:ff9b::127.0.0.1]", ErrBlockedAddress, blocked},
	{"[64:ff9b:1::7f00:1]", ErrBlockedAddress, blocked},
	{"[2002:7f00:1::]", ErrBlockedAddress, blocked},
	{"[2001:0:4136:e378:8000:63bf:3fff:fdd2]", ErrBlockedAddress, blocked},

	// Zones.
	{"[fe80::1%25lo]", ErrBlockedAddress, blocked},
	{"[::ffff:127.0.0.1%25lo]", ErrBlockedAddress, blocked},
	{"[2606:4700:4700::1111%25lo]", ErrBlockedAddress, blocked},
	{"[fe80::1%lo]", webhook.ErrURLSyntax, noURL},

	// Numbers that some programs read as 127.0.0.1, 0.0.0.0 or 10.0.0.1.
	{"2130706433", ErrHostName, noName},
	{"0x7f000001", ErrHostName, blocked},
	{"127.1", ErrHostName, noName},
	{"0177.0.0.1", ErrHostName, noName},
	{"127.0.0.01", ErrHostName, noName},
	{"0x7f.1", ErrHostName, blocked},
	{"127.0.0.0x1", ErrHostName, blocked},
	{"127.0.0.0o1", ErrHostName, blocked},
	{"0", ErrHostName, noName},
	{"0x", ErrHostName, blocked},
	{"18446744073709551616", ErrHostName, noName},
	{"127.0.0.256", ErrHostName, noName},
	{"127.0.0.1.1", ErrHostName, noName},
	{"example.127", ErrHostName, blocked},

	// Digits and dots of other scripts mean the plain ones.
	{"１２７.０.０.１", ErrBlockedAddress, blocked},
	{"127。0。0。1", ErrBlockedAddress, blocked},
	{"%EF%BC%91%EF%BC%92%EF%BC%97.0.0.1", ErrBlockedAddress, blocked},
	{"ｌｏｃａｌｈｏｓｔ", ErrBlockedAddress, blocked},
	{"１２７.１", ErrHostName, noName},
	{"８.８.８.８", nil, connects},

	// Dots at the ends.
	{"127.0.0.1.", ErrBlockedAddress, noName},
	{".127.0.0.1", ErrHostName, noName},
	{"127..0.0.1", ErrHostName, noName},
	{"localhost.", ErrBlockedAddress, blocked},
	{".", ErrHostName, blocked},

	// Names of this machine and of the network around it.
	{"localhost", ErrBlockedAddress, blocked},
	{"app.localhost", ErrBlockedAddress, blocked},
	{"127.0.0.1.nip.example", ErrBlockedAddress, blocked},
	{"INSIDE.example.", ErrBlockedAddress, blocked},
	{"inside6.example", ErrBlockedAddress, blocked},
	{"mapped.example", ErrBlockedAddress, blocked},
	{"nat64.example", ErrBlockedAddress, blocked},
	{"alias.example", ErrBlockedAddress, blocked},
	{"bücher.example", ErrBlockedAddress, blocked},
	{"1a", ErrBlockedAddress, blocked},

	// Metadata services of clouds.
	{"169.254.169.254", ErrBlockedAddress, blocked}, // AWS, GCP, Azure, DigitalOcean and more
	{"169.254.170.2", ErrBlockedAddress, blocked},   // AWS ECS
	{"169.254.0.23", ErrBlockedAddress, blocked},    // Tencent
	{"100.100.100.200", ErrBlockedAddress, blocked}, // Alibaba
	{"192.0.0.192", ErrBlockedAddress, blocked},     // Oracle
	{"168.63.129.16", ErrBlockedAddress, blocked},   // Azure
	{"[fd00:ec2::254]", ErrBlockedAddress, blocked}, // AWS
	{"[fd20:ce::254]", ErrBlockedAddress, blocked},  // GCP
	{"[fe80::a9fe:a9fe]", ErrBlockedAddress, blocked},
	{"[::ffff:168.63.129.16]", ErrBlockedAddress, blocked},
	{"metadata.google.internal", ErrBlockedAddress, blocked},

	// A part of the URL that looks like the host.
	{"8.8.8.8@127.0.0.1", webhook.ErrURLUserinfo, blocked},
	{"@127.0.0.1", webhook.ErrURLUserinfo, blocked},
	{"127.0.0.1@8.8.8.8", webhook.ErrURLUserinfo, connects},
	{"127.0.0.1#@8.8.8.8", ErrBlockedAddress, blocked},
	{"8.8.8.8#@127.0.0.1", nil, connects},
	{`8.8.8.8\@127.0.0.1`, webhook.ErrURLSyntax, noURL},
	{"8.8.8.8%40127.0.0.1", webhook.ErrURLSyntax, noURL},
	{"%31%32%37.0.0.1", webhook.ErrURLSyntax, noURL},
	{"127.0.0.1 ", webhook.ErrURLSyntax, noURL},
	{"127.0.0.1:80:80", webhook.ErrURLSyntax, noURL},
	{"[::1", webhook.ErrURLSyntax, noURL},
	{"[127.0.0.1]", webhook.ErrURLSyntax, noURL},
	{":80", webhook.ErrURLSyntax, blocked},

	// Not names.
	{`"><script>.co`, ErrHostName, noName},
	{"-", ErrHostName, noName},
	{"a..co", ErrHostName, noName},
	{"a_b.invalid", ErrHostName, noName},
	{"a\u202eb.invalid", ErrHostName, noName},
	{strings.Repeat("a", 63) + ".invalid", nil, noName},
	{strings.Repeat("a", 64) + ".invalid", ErrHostName, noName},
	{strings.Repeat("ü", 60) + ".invalid", ErrHostName, noName}, // 66 in ASCII
	{strings.Repeat("a.", 123) + "invalid", nil, noName},
	{strings.Repeat("a.", 123) + "invalid1", ErrHostName, noName},

	// Names that do not exist yet may be registered.
	{"not-there.invalid", nil, noName},
	{"127.0.0.1.invalid", nil, noName},
	{"bücher.invalid", nil, noName},

	// Names that lead outside.
	{"shop.example", nil, connects},
	{"SHOP.example.", nil, connects},
	{"shop6.example", nil, connects},
}

// TestAddressGuard_EverySpelling checks each spelling at registration and at the dial.
func TestAddressGuard_EverySpelling(t *testing.T) {
	t.Parallel()
	world := newDialWorld(t)
	seen := map[string]bool{}
	for _, c := range spellings {
		require.False(t, seen[c.authority], "%q stands there twice", c.authority)
		seen[c.authority] = true
		require.Equal(t, c.registration, world.register(t, c.authority), "%q at registration", c.authority)
		kind, dialed := world.post(t, c.authority)
		require.Equal(t, c.dial, kind, "%q at the dial", c.authority)
		require.Equal(t, c.dial == connects, len(dialed) > 0, "%q dialed %v", c.authority, dialed)
	}
}

func TestAddressGuard_AllowsLoopbackInTestModeOnly(t *testing.T) {
	t.Parallel()
	g := NewAddressGuard(true)
	for _, host := range []string{"127.0.0.1", "::1"} {
		require.NoError(t, g.Check(t.Context(), checkout.ModeTest, host))
		require.ErrorIs(t, g.Check(t.Context(), checkout.ModeLive, host), ErrBlockedAddress, "the setting never opens live mode")
	}
	for _, host := range []string{"10.0.0.1", "169.254.169.254", "168.63.129.16", "0.0.0.0", "::ffff:10.0.0.1", "fd00::1"} {
		require.ErrorIs(t, g.Check(t.Context(), checkout.ModeTest, host), ErrBlockedAddress, host)
	}
}

// The guard must work for every network name that the dialer passes.
func TestAddressGuard_RefusesOtherNetworks(t *testing.T) {
	t.Parallel()
	control := NewAddressGuard(false).control(checkout.ModeLive)
	for _, network := range []string{"udp4", "udp6", "unix", "ip4", "tcp"} {
		require.ErrorIs(t, control(network, "8.8.8.8:443", nil), ErrBlockedAddress, network)
	}
	require.NoError(t, control("tcp4", "8.8.8.8:443", nil))
	require.ErrorIs(t, control("tcp4", "not-an-address:443", nil), ErrBlockedAddress)
}

// dialWorld is the guarded way out with its own nameserver. It stops before the first packet to a permitted address.
type dialWorld struct {
	guard *AddressGuard
	out   receivers // as in production
	dry   receivers
	last  []netip.AddrPort // what dry would have connected to
}

var errWouldConnect = errors.New("would connect")

func newDialWorld(t *testing.T) *dialWorld {
	w := &dialWorld{guard: NewAddressGuard(false)}
	w.guard.resolver = resolver(t, map[string][]answer{
		"shop.example":             {leadsTo("93.184.216.34")},
		"shop6.example":            {leadsTo("2606:4700:4700::1111")},
		"inside.example":           {leadsTo("10.0.0.1")},
		"inside6.example":          {leadsTo("fd00::1")},
		"mapped.example":           {leadsTo("::ffff:10.0.0.1")},
		"nat64.example":            {leadsTo("64:ff9b::a00:1")},
		"alias.example":            {{cname: "inside.example.", addresses: []string{"192.168.0.1"}}},
		"metadata.google.internal": {leadsTo("169.254.169.254")},
	})
	w.out = newReceivers(w.guard)
	transport := newTransport(w.guard, checkout.ModeTest)
	transport.DialContext = dryDialer(w.guard, checkout.ModeTest, &w.last).DialContext
	w.dry.test = transport
	return w
}

// dryDialer is the guard's dialer. It notes an address that the guard lets pass, and does not connect.
func dryDialer(guard *AddressGuard, mode checkout.Mode, passed *[]netip.AddrPort) *net.Dialer {
	dialer := guard.dialer(mode)
	guarded := dialer.Control
	dialer.Control = func(network, address string, c syscall.RawConn) error {
		if err := guarded(network, address, c); err != nil {
			return err
		}
		*passed = append(*passed, netip.MustParseAddrPort(address))
		return errWouldConnect
	}
	return dialer
}

// register returns the error of a registration of the address, nil when it is accepted.
func (w *dialWorld) register(t *testing.T, authority string) error {
	u, err := webhook.ParseURL("http://"+authority+"/", checkout.ModeTest)
	if err != nil {
		return err
	}
	return w.guard.Check(t.Context(), checkout.ModeTest, u.Hostname())
}

// post returns connects and the addresses, or why there was no connection. The dial stops just before it would connect.
func (w *dialWorld) post(t *testing.T, authority string) (webhook.ErrorKind, []netip.AddrPort) {
	w.last = nil
	got := w.dry.post(t.Context(), checkout.ModeTest, "http://"+authority+"/", http.Header{}, []byte("{}"))
	require.Zero(t, got.status, authority)
	if len(w.last) > 0 {
		require.Equal(t, webhook.ErrorConnect, got.kind, authority)
		return connects, w.last
	}
	got = w.out.post(t.Context(), checkout.ModeTest, "http://"+authority+"/", http.Header{}, []byte("{}"))
	require.Zero(t, got.status, authority)
	return got.kind, nil
}

func (w *dialWorld) accepts(t *testing.T, authority, why string) {
	require.NoError(t, w.register(t, authority), why)
	kind, dialed := w.post(t, authority)
	require.Equal(t, connects, kind, why)
	require.Len(t, dialed, 1, why)
	u := must.Get(webhook.ParseURL("http://"+authority+"/", checkout.ModeTest))(t)
	require.Equal(t, netip.MustParseAddr(u.Hostname()).Unmap(), dialed[0].Addr(), why)
}

func (w *dialWorld) refuses(t *testing.T, authority, why string) {
	require.ErrorIs(t, w.register(t, authority), ErrBlockedAddress, why)
	kind, dialed := w.post(t, authority)
	require.Equal(t, blocked, kind, why)
	require.Empty(t, dialed, why)
}
