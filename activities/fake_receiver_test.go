package activities

import (
	"bufio"
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"example.com/checkout/storage/storagetest/must"
)

// fake is a merchant's server on loopback that breaks rules.
type fake struct {
	url      string
	requests atomic.Int64 // complete requests
	over     chan struct{}
}

// wire is one connection of a fake.
type wire struct {
	net.Conn
	fake *fake
	tcp  *net.TCPConn
	in   *bufio.Reader
}

// fakeReceiver calls converse on each connection and hangs up when it returns.
func fakeReceiver(t *testing.T, converse func(*wire)) *fake {
	f := &fake{over: make(chan struct{})}
	l := must.Get((&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { close(f.over); _ = l.Close() })
	f.url = "http://" + l.Addr().String() + "/hook"
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = c.Close() }()
				converse(&wire{Conn: c, fake: f, tcp: c.(*net.TCPConn), in: bufio.NewReader(c)})
			}()
		}
	}()
	return f
}

// fakeTLSReceiver is fakeReceiver with a TLS handshake first.
func fakeTLSReceiver(t *testing.T, config *tls.Config, converse func(*wire)) *fake {
	f := fakeReceiver(t, func(w *wire) {
		c := tls.Server(w.Conn, config)
		if c.Handshake() != nil {
			w.finish()
			w.drain() // with unread bytes the alert could get lost
			return
		}
		w.Conn, w.in = c, bufio.NewReader(c)
		converse(w)
	})
	f.url = "https" + strings.TrimPrefix(f.url, "http")
	return f
}

// request reads one request with its body.
func (w *wire) request() error {
	r, err := http.ReadRequest(w.in)
	if err != nil {
		return err
	}
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		return err
	}
	w.fake.requests.Add(1)
	return nil
}

// head reads the headers of a request and leaves its body.
func (w *wire) head() {
	for {
		line, err := w.in.ReadString('\n')
		if err != nil || line == "\r\n" {
			return
		}
	}
}

func (w *wire) say(text string) { _, _ = io.WriteString(w, text) }

// repeat sends text again and again until the other side has gone.
func (w *wire) repeat(text string, every time.Duration) {
	for {
		if _, err := io.WriteString(w, text); err != nil || !w.wait(every) {
			return
		}
	}
}

// wait waits d and reports whether the test still runs.
func (w *wire) wait(d time.Duration) bool {
	select {
	case <-w.fake.over:
		return false
	case <-time.After(d):
		return true
	}
}

// hold keeps the connection open until the test ends.
func (w *wire) hold() { <-w.fake.over }

// drain reads until the other side hangs up.
func (w *wire) drain() { _, _ = io.Copy(io.Discard, w) }

// hear waits for the first byte and does not consume it.
func (w *wire) hear() { _, _ = w.in.Peek(1) }

// finish closes the sending side.
func (w *wire) finish() { _ = w.tcp.CloseWrite() }

// reset ends the connection with a RST.
func (w *wire) reset() {
	_ = w.tcp.SetLinger(0)
	_ = w.tcp.Close()
}

// answering reads a request, sends text and hangs up.
func answering(t *testing.T, text string) string {
	return after(t, func(w *wire) {
		w.say(text)
		w.finish()
		w.drain()
	})
}

// after reads a request and then calls converse.
func after(t *testing.T, converse func(*wire)) string {
	return fakeReceiver(t, func(w *wire) {
		if w.request() == nil {
			converse(w)
		}
	}).url
}

// stream is one request to an HTTP/2 fake.
type stream struct {
	*http2.Framer
	*wire
	id uint32
}

// fakeHTTP2Receiver calls converse on every stream, one at a time.
func fakeHTTP2Receiver(t *testing.T, config *tls.Config, settings []http2.Setting, converse func(*stream)) *fake {
	config = config.Clone()
	config.NextProtos = []string{"h2"}
	return fakeTLSReceiver(t, config, func(w *wire) {
		if _, err := io.CopyN(io.Discard, w.in, int64(len(http2.ClientPreface))); err != nil {
			return
		}
		f := http2.NewFramer(w, w.in)
		_ = f.WriteSettings(settings...)
		for {
			frame, err := f.ReadFrame()
			if err != nil {
				return
			}
			switch frame := frame.(type) {
			case *http2.SettingsFrame:
				if !frame.IsAck() {
					_ = f.WriteSettingsAck()
				}
			case *http2.DataFrame:
				_ = f.WriteWindowUpdate(0, max(1, frame.Length))
				_ = f.WriteWindowUpdate(frame.StreamID, max(1, frame.Length))
			}
			if frame.Header().Flags.Has(http2.FlagDataEndStream) && (frame.Header().Type == http2.FrameData || frame.Header().Type == http2.FrameHeaders) {
				w.fake.requests.Add(1)
				converse(&stream{Framer: f, wire: w, id: frame.Header().StreamID})
			}
		}
	})
}

// headers answers with name-value pairs.
func (s *stream) headers(endStream bool, pairs ...string) error {
	return s.WriteHeaders(http2.HeadersFrameParam{StreamID: s.id, BlockFragment: packed(pairs...), EndHeaders: true, EndStream: endStream})
}

func packed(pairs ...string) []byte {
	var b bytes.Buffer
	e := hpack.NewEncoder(&b)
	for i := 0; i < len(pairs); i += 2 {
		_ = e.WriteField(hpack.HeaderField{Name: pairs[i], Value: pairs[i+1]})
	}
	return b.Bytes()
}

// until repeats act until it fails.
func until(act func() error) {
	for act() == nil {
	}
}

// serve returns the URL of a server that follows the rules.
func serve(t *testing.T, h http.HandlerFunc) string {
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

// certificateAuthority signs certificates of receivers.
type certificateAuthority struct {
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
}

func newCertificateAuthority(t *testing.T) *certificateAuthority {
	key := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "Test CA"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der := must.Get(x509.CreateCertificate(rand.Reader, template, template, key.Public(), key))(t)
	cert := must.Get(x509.ParseCertificate(der))(t)
	return &certificateAuthority{key: key, cert: cert}
}

func (a *certificateAuthority) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return pool
}

// server returns the TLS configuration of a good receiver on 127.0.0.1. change may spoil its certificate.
func (a *certificateAuthority) server(t *testing.T, change func(*x509.Certificate)) *tls.Config {
	key := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "receiver"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	if change != nil {
		change(leaf)
	}
	der := must.Get(x509.CreateCertificate(rand.Reader, leaf, a.cert, key.Public(), a.key))(t)
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
}
