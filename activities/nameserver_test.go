package activities

import (
	"context"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"golang.org/x/net/dns/dnsmessage"

	"example.com/checkout/storage/storagetest/must"
)

// answer is a nameserver's answer. The zero value has no addresses.
type answer struct {
	addresses []string // of both families, in this order
	cname     string
	code      dnsmessage.RCode
	silent    bool
}

func leadsTo(addresses ...string) answer { return answer{addresses: addresses} }

// nameserver is a DNS server on loopback. It returns a name's answers in turn, with a TTL of 0, and repeats the last
// one. An unknown name resolves to 127.0.0.1, unless it ends in .invalid.
type nameserver struct {
	conn net.PacketConn
	zone map[string][]answer

	mu    sync.Mutex
	asked map[dnsmessage.Question]int
}

// resolver returns a resolver with a new nameserver for zone.
func resolver(t testing.TB, zone map[string][]answer) *net.Resolver {
	conn := must.Get((&net.ListenConfig{}).ListenPacket(t.Context(), "udp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { _ = conn.Close() })
	n := &nameserver{conn: conn, zone: zone, asked: map[dnsmessage.Question]int{}}
	go n.serve()
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp", conn.LocalAddr().String())
	}}
}

func (n *nameserver) serve() {
	buf := make([]byte, 1500)
	for {
		size, from, err := n.conn.ReadFrom(buf)
		if err != nil {
			return
		}
		var m dnsmessage.Message
		if m.Unpack(buf[:size]) != nil || len(m.Questions) != 1 {
			continue
		}
		a := n.next(m.Questions[0])
		if a.silent {
			continue
		}
		if packed, err := a.reply(m.ID, m.Questions[0]); err == nil {
			_, _ = n.conn.WriteTo(packed, from)
		}
	}
}

// next returns the answer to q. It counts A and AAAA queries of a name separately.
func (n *nameserver) next(q dnsmessage.Question) answer {
	n.mu.Lock()
	defer n.mu.Unlock()
	name := strings.ToLower(strings.TrimSuffix(q.Name.String(), "."))
	answers, known := n.zone[name]
	switch {
	case known:
	case strings.Contains(name+".", ".invalid."): // the resolver may append a search domain
		return answer{code: dnsmessage.RCodeNameError}
	default:
		return leadsTo("127.0.0.1")
	}
	i := min(n.asked[q], len(answers)-1)
	n.asked[q]++
	return answers[i]
}

func (a answer) reply(id uint16, q dnsmessage.Question) ([]byte, error) {
	m := dnsmessage.Message{
		Header:    dnsmessage.Header{ID: id, Response: true, RecursionAvailable: true, RCode: a.code},
		Questions: []dnsmessage.Question{q},
	}
	owner := q.Name
	if a.cname != "" {
		target, err := dnsmessage.NewName(a.cname)
		if err != nil {
			return nil, err
		}
		m.Answers = append(m.Answers, resource(owner, &dnsmessage.CNAMEResource{CNAME: target}))
		owner = target
	}
	for _, text := range a.addresses {
		ip := netip.MustParseAddr(text)
		if ip.Is4() && q.Type == dnsmessage.TypeA {
			m.Answers = append(m.Answers, resource(owner, &dnsmessage.AResource{A: ip.As4()}))
		}
		if ip.Is6() && q.Type == dnsmessage.TypeAAAA {
			m.Answers = append(m.Answers, resource(owner, &dnsmessage.AAAAResource{AAAA: ip.As16()}))
		}
	}
	return m.Pack()
}

func resource(owner dnsmessage.Name, body dnsmessage.ResourceBody) dnsmessage.Resource {
	return dnsmessage.Resource{Header: dnsmessage.ResourceHeader{Name: owner, Class: dnsmessage.ClassINET}, Body: body}
}
