package main

import (
	"context"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// A link is a TCP proxy between the processes of one command and one server. It can be made to
// fail. Shopify/toxiproxy does more, but it brings a server of its own and a dozen modules; this
// file is enough here.
type link struct {
	name     string // "worker-temporal"
	target   string // host:port
	listener net.Listener

	fault atomic.Value // a linkFault
	conns sync.Map     // both sides of every connection, each a net.Conn
}

// linkFault is a fault of a link.
type linkFault string

const (
	linkPasses    linkFault = ""
	linkCut       linkFault = "cut"        // connections are closed, new ones too
	linkBlackHole linkFault = "black hole" // no byte arrives, and no side gets an error
	linkDelays    linkFault = "delay"      // linkDelay in each direction
	linkSwallows  linkFault = "no answers" // requests arrive, and their answers do not
)

const linkDelay = 250 * time.Millisecond

// startLink starts a link that listens on address and passes bytes on to target.
func startLink(name, address, target string) (*link, error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	l := &link{name: name, target: target, listener: listener}
	go l.serve()
	return l, nil
}

func (l *link) serve() {
	for {
		client, err := l.listener.Accept()
		if err != nil {
			return // closed
		}
		go l.pass(client)
	}
}

var dialer = net.Dialer{Timeout: 5 * time.Second}

// pass connects a client to the target until one of the two closes.
func (l *link) pass(client net.Conn) {
	if l.current() == linkCut {
		_ = client.Close() // the fault "cut"
		return
	}
	server, err := dialer.DialContext(context.Background(), "tcp", l.target)
	if err != nil {
		_ = client.Close() // as the target would refuse it
		return
	}
	for _, conn := range []net.Conn{client, server} {
		l.conns.Store(conn, nil)
		defer l.conns.Delete(conn)
	}
	var both sync.WaitGroup
	both.Go(func() { l.copy(server, client, linkBlackHole) })
	both.Go(func() { l.copy(client, server, linkBlackHole, linkSwallows) })
	both.Wait()
}

// copy passes bytes on, or applies the fault. It keeps the bytes back during the faults holds. It
// closes both connections when one ends.
func (l *link) copy(to, from net.Conn, holds ...linkFault) {
	defer func() { _, _ = to.Close(), from.Close() }() // an error means that the other direction closed them
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			for slices.Contains(holds, l.current()) { // until the fault ends, as TCP would repeat them
				time.Sleep(50 * time.Millisecond)
			}
			if l.current() == linkDelays {
				time.Sleep(linkDelay)
			}
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

func (l *link) current() linkFault {
	f, _ := l.fault.Load().(linkFault) // linkPasses at first
	return f
}

// set begins a fault, or ends it with linkPasses.
func (l *link) set(f linkFault) {
	l.fault.Store(f)
	if f == linkCut {
		l.reset()
	}
}

// reset breaks every connection with a TCP reset. New connections work.
func (l *link) reset() {
	for conn := range l.conns.Range {
		if tcp, ok := conn.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0) // then a close sends a TCP reset
			_ = tcp.Close()      // an error means that it is already closed
		}
	}
}

func (l *link) close() {
	_ = l.listener.Close() // no new connections
	l.reset()
}
