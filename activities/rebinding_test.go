package activities

import (
	"errors"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"

	"code.dny.dev/ssrf"
	"github.com/stretchr/testify/require"

	"example.com/checkout/storage/pgtemp"
	"example.com/checkout/storage/storagetest/must"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/webhook"
)

// doorCounter answers 200 on one address and counts the connections.
type doorCounter struct {
	net.Listener
	connections atomic.Int64
}

func (d *doorCounter) Accept() (net.Conn, error) {
	c, err := d.Listener.Accept()
	if err == nil {
		d.connections.Add(1)
	}
	return c, err
}

func (d *doorCounter) port() string {
	return strconv.Itoa(d.Addr().(*net.TCPAddr).Port)
}

// listen answers on address until the test ends. It returns nil when this machine does not have the address.
func listen(t *testing.T, address string) *doorCounter {
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", address)
	if errors.Is(err, syscall.EADDRNOTAVAIL) || errors.Is(err, syscall.EAFNOSUPPORT) {
		return nil
	}
	require.NoError(t, err)
	d := &doorCounter{Listener: l}
	server := &http.Server{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})}
	t.Cleanup(func() { _ = server.Close() })
	go func() { _ = server.Serve(d) }()
	return d
}

// unguarded returns receivers without the guard.
func unguarded(r *net.Resolver) receivers {
	transport := newTransport(NewAddressGuard(false), checkout.ModeTest)
	transport.DialContext = (&net.Dialer{Resolver: r, Timeout: webhook.ResponseTimeout}).DialContext
	return receivers{test: transport}
}

// rebindings are names whose address changes after registration, or that have two addresses.
var rebindings = map[string]struct {
	answers      []answer
	registration error
	ipv6         bool // resolves to ::1
}{
	"public, then loopback": {answers: []answer{leadsTo("8.8.8.8"), leadsTo("127.0.0.1")}},
	"public, then an alias of loopback": {
		answers: []answer{leadsTo("8.8.8.8"), {cname: "elsewhere.test.", addresses: []string{"127.0.0.1"}}},
	},
	"an alias of public, then one of loopback": {answers: []answer{
		{cname: "shop.test.", addresses: []string{"8.8.8.8"}}, {cname: "localhost.", addresses: []string{"127.0.0.1"}},
	}},
	"public, then loopback in another spelling": {answers: []answer{leadsTo("8.8.8.8"), leadsTo("::ffff:127.0.0.1")}},
	"public, then loopback twice":               {answers: []answer{leadsTo("8.8.8.8"), leadsTo("127.0.0.1", "127.0.0.1")}},
	"public IPv4, then loopback IPv6":           {answers: []answer{leadsTo("8.8.8.8"), leadsTo("::1")}, ipv6: true},
	"public IPv6, then loopback IPv6":           {answers: []answer{leadsTo("2606:4700:4700::1111"), leadsTo("::1")}, ipv6: true},
	"public, then loopback of both families":    {answers: []answer{leadsTo("8.8.8.8"), leadsTo("::1", "127.0.0.1")}, ipv6: true},
	"nothing, then loopback":                    {answers: []answer{{}, leadsTo("127.0.0.1")}},
	"loopback at once":                          {answers: []answer{leadsTo("127.0.0.1")}, registration: ErrBlockedAddress},
	"public and loopback, then loopback": {
		answers: []answer{leadsTo("8.8.8.8", "127.0.0.1"), leadsTo("127.0.0.1")}, registration: ErrBlockedAddress,
	},
	"public IPv4 and loopback IPv6, then loopback": {
		answers: []answer{leadsTo("8.8.8.8", "::1"), leadsTo("::1")}, registration: ErrBlockedAddress, ipv6: true,
	},
}

// Each name is registered, and gets ten requests. Without the guard the same name reaches the server.
func TestAddressGuard_ANameThatChangesItsMindGetsNowhere(t *testing.T) {
	t.Parallel()
	for name, c := range rebindings {
		address := "127.0.0.1:0"
		if c.ipv6 {
			address = "[::1]:0"
		}
		for range 10 {
			door := listen(t, address)
			if door == nil {
				t.Logf("%s: this machine has no IPv6", name)
				break
			}
			zone := map[string][]answer{"rebind.test": c.answers}
			g := NewAddressGuard(false)
			g.resolver = resolver(t, zone)
			require.Equal(t, c.registration, g.Check(t.Context(), checkout.ModeTest, "rebind.test"), name)
			require.Equal(t, reply{kind: webhook.ErrorBlockedAddress}, knock(t, newReceivers(g), door), name)
			require.Zero(t, door.connections.Load(), name)

			open := resolver(t, zone)
			_, _ = open.LookupNetIP(t.Context(), "ip", "rebind.test") // as at registration; not every name resolves then
			require.Equal(t, reply{status: 200, body: []byte{}}, knock(t, unguarded(open), door), "%s: without the guard", name)
			require.EqualValues(t, 1, door.connections.Load(), "%s: without the guard", name)
		}
	}
}

func knock(t *testing.T, r receivers, door *doorCounter) reply {
	return r.post(t.Context(), checkout.ModeTest, "http://rebind.test:"+door.port()+"/", http.Header{}, []byte("{}"))
}

// The name got its private address after registration. 127.0.0.2 stands for the public one: no test uses the internet.
func TestAddressGuard_APrivateAddressBesideAPublicOneIsSkipped(t *testing.T) {
	t.Parallel()
	port := strconv.Itoa(must.Get(pgtemp.FreePorts(1))(t)[0]) // for several addresses
	public := listen(t, "127.0.0.2:"+port)
	if public == nil {
		t.Skip("only Linux has all of 127.0.0.0/8")
	}
	inside := listen(t, "127.0.0.1:"+port)
	inside6 := listen(t, "[::1]:"+port)
	delivered := 0
	for _, addresses := range [][]string{
		{"127.0.0.2", "127.0.0.1"}, {"127.0.0.1", "127.0.0.2"}, {"127.0.0.2", "10.0.0.1", "127.0.0.1"}, {"::1", "127.0.0.2"}, {"127.0.0.2", "fd00::1"},
	} {
		for range 10 {
			g := guardWithPublic("127.0.0.2/32")
			g.resolver = resolver(t, map[string][]answer{"rebind.test": {leadsTo(addresses...)}})
			require.ErrorIs(t, g.Check(t.Context(), checkout.ModeTest, "rebind.test"), ErrBlockedAddress, "%v", addresses)
			require.Equal(t, reply{status: 200, body: []byte{}}, knock(t, newReceivers(g), public), "%v", addresses)
			delivered++
			require.EqualValues(t, delivered, public.connections.Load(), "%v", addresses)
		}
	}
	require.Zero(t, inside.connections.Load())
	if inside6 != nil {
		require.Zero(t, inside6.connections.Load())
	}
}

// The public address does not answer. The guard still connects to no internal address.
func TestAddressGuard_OfTwoBadAddressesTheFirstNamesTheKind(t *testing.T) {
	t.Parallel()
	inside := listen(t, "127.0.0.1:0")
	for _, c := range []struct {
		addresses []string
		kind      webhook.ErrorKind
	}{
		{[]string{"127.0.0.1", "127.0.0.2"}, webhook.ErrorBlockedAddress},
		{[]string{"127.0.0.2", "127.0.0.1"}, webhook.ErrorConnect},
	} {
		g := guardWithPublic("127.0.0.2/32")
		g.resolver = resolver(t, map[string][]answer{"rebind.test": {leadsTo(c.addresses...)}})
		require.Equal(t, reply{kind: c.kind}, knock(t, newReceivers(g), inside), "%v", c.addresses)
	}
	require.Zero(t, inside.connections.Load())
}

// guardWithPublic returns a guard that treats one range of loopback as public.
func guardWithPublic(prefix string) *AddressGuard {
	g := NewAddressGuard(false)
	g.test = ssrf.New(ssrf.WithAnyPort(), ssrf.WithAllowedV4Prefixes(netip.MustParsePrefix(prefix)))
	return g
}
