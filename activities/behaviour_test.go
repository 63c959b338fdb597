package activities

import (
	"bytes"
	"compress/gzip"
	"crypto/tls"
	"crypto/x509"
	"io"
	"maps"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/dns/dnsmessage"
	"golang.org/x/net/http2"

	"example.com/checkout/storage/storagetest/must"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/webhook"
)

// behaviour is how a receiver answers a POST, and the expected result of the attempt.
type behaviour struct {
	url    string
	status int
	kind   webhook.ErrorKind // "": success
	takes  time.Duration     // at least; 0 when the result is immediate
}

const (
	connect = webhook.ErrorConnect
	timeout = webhook.ErrorTimeout
	badTLS  = webhook.ErrorTLS
	badHTTP = webhook.ErrorHTTP
	success = webhook.ErrorKind("")
)

// The slow receivers take up to ten seconds, so all start at once. The others follow four at a time: together they
// would slow each other and the slow ones down on a busy machine.
func TestReceiver_EveryBehaviour(t *testing.T) {
	t.Parallel()
	ca := newCertificateAuthority(t)
	r := receiversTrusting(t, ca, namesOfReceivers)
	var posts sync.WaitGroup
	turns := make(chan struct{}, 4)
	for name, b := range behaviours(t, ca) {
		posts.Go(func() {
			if b.takes == 0 {
				turns <- struct{}{}
				defer func() { <-turns }()
			}
			b.post(t, r, name)
		})
	}
	posts.Wait()
}

// behaviours starts a receiver for each behaviour.
func behaviours(t *testing.T, ca *certificateAuthority) map[string]behaviour {
	all := map[string]behaviour{}
	for _, table := range []map[string]behaviour{
		connections(t), bodies(t), names, handshakes(t, ca), streams(t, ca), heads(t),
	} {
		maps.Copy(all, table)
	}
	return all
}

// When a receiver's machine vanishes silently, later attempts must not use its open connection.
func TestReceiver_ADeadHTTP2ConnectionIsNotUsedAgain(t *testing.T) {
	t.Parallel()
	ca := newCertificateAuthority(t)
	f := fakeHTTP2Receiver(t, ca.server(t, nil), nil, func(s *stream) {
		_ = s.headers(true, ":status", "200")
		s.hold()
	})
	r := receiversTrusting(t, ca, nil)
	for n := range 5 {
		require.Equal(t, 200, postTo(t, r, f).status)
		require.EqualValues(t, n+1, f.requests.Load())
	}
}

// post reports with t.Errorf because it runs in its own goroutine.
func (b behaviour) post(t *testing.T, r receivers, name string) {
	began := time.Now()
	got := r.post(t.Context(), checkout.ModeTest, b.url, http.Header{}, bytes.Repeat([]byte("x"), 64<<10))
	took := time.Since(began)
	if got.status != b.status || got.kind != b.kind {
		t.Errorf("%s: got status %d, kind %q; want %d, %q", name, got.status, got.kind, b.status, b.kind)
	}
	if took < b.takes || took > b.takes+5*time.Second {
		t.Errorf("%s: took %v; want %v", name, took, b.takes)
	}
	if len(got.body) > 16<<10 {
		t.Errorf("%s: kept %d bytes", name, len(got.body))
	}
}

// receiversTrusting returns receivers that may reach loopback, resolve names and trust ca.
func receiversTrusting(t *testing.T, ca *certificateAuthority, names map[string][]answer) receivers {
	g := NewAddressGuard(true)
	g.resolver = resolver(t, names)
	r := newReceivers(g)
	r.test.(*http.Transport).TLSClientConfig.RootCAs = ca.pool()
	return r
}

// deaf is an address on which no program listens. A port that was just closed could be taken again.
const deaf = "127.0.0.1:1"

// connections never become an answer.
func connections(t *testing.T) map[string]behaviour {
	return map[string]behaviour{
		"nobody listens":                       {"http://" + deaf, 0, connect, 0},
		"accepts and never reads":              {fakeReceiver(t, (*wire).hold).url, 0, timeout, 10 * time.Second},
		"accepts and hangs up":                 {fakeReceiver(t, func(*wire) {}).url, 0, connect, 0},
		"accepts and resets":                   {fakeReceiver(t, (*wire).reset).url, 0, connect, 0},
		"reads the headers and hangs up":       {fakeReceiver(t, (*wire).head).url, 0, connect, 0},
		"reads and hangs up":                   {answering(t, ""), 0, connect, 0},
		"reads and resets":                     {after(t, (*wire).reset), 0, connect, 0},
		"reads and never answers":              {after(t, (*wire).hold), 0, timeout, 10 * time.Second},
		"hangs up in the status line":          {answering(t, "HTTP/1."), 0, badHTTP, 0},
		"hangs up in the headers":              {answering(t, "HTTP/1.1 200 OK\r\nX-A: b\r\n"), 0, connect, 0},
		"resets in the headers":                {after(t, func(w *wire) { w.say("HTTP/1.1 200 OK\r\nX-A:"); w.wait(50 * time.Millisecond); w.reset() }), 0, connect, 0},
		"hangs up after an informational head": {answering(t, "HTTP/1.1 103 Early Hints\r\n\r\n"), 0, connect, 0},
	}
}

// heads are status lines and headers.
func heads(t *testing.T) map[string]behaviour {
	table := map[string]behaviour{
		"200 without a reason":                {answering(t, "HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n"), 200, success, 0},
		"HTTP/1.0":                            {answering(t, "HTTP/1.0 200 OK\r\n\r\n"), 200, success, 0},
		"bare line feeds":                     {answering(t, "HTTP/1.1 200 OK\nContent-Length: 0\n\n"), 200, success, 0},
		"16 kB of headers":                    {answering(t, "HTTP/1.1 200 OK\r\nX-Long: "+strings.Repeat("a", 16<<10)+"\r\nContent-Length: 0\r\n\r\n"), 200, success, 0},
		"100 and then 200":                    {answering(t, "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"), 200, success, 0},
		"103 thrice and then 200":             {answering(t, strings.Repeat("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n", 3)+"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"), 200, success, 0},
		"103 and then 500":                    {answering(t, "HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n"), 500, badHTTP, 0},
		"103 for ever":                        {after(t, func(w *wire) { w.repeat("HTTP/1.1 103 Early Hints\r\n\r\n", 0) }), 0, badHTTP, 0},
		"103 with headers for ever":           {after(t, func(w *wire) { w.repeat("HTTP/1.1 103 Early Hints\r\nX-A: "+strings.Repeat("a", 8000)+"\r\n\r\n", 0) }), 0, badHTTP, 0},
		"103 now and then":                    {after(t, func(w *wire) { w.repeat("HTTP/1.1 103 Early Hints\r\n\r\n", 200*time.Millisecond) }), 0, timeout, 10 * time.Second},
		"102 and then silence":                {after(t, func(w *wire) { w.say("HTTP/1.1 102 Processing\r\n\r\n"); w.hold() }), 0, timeout, 10 * time.Second},
		"a status line and then silence":      {after(t, func(w *wire) { w.say("HTTP/1.1 200 OK\r\n"); w.hold() }), 0, timeout, 10 * time.Second},
		"headers that drip":                   {after(t, func(w *wire) { w.say("HTTP/1.1 200 OK\r\nX-A: "); w.repeat("a", 100*time.Millisecond) }), 0, timeout, 10 * time.Second},
		"the last header after 6.5 s":         {late(t, "HTTP/1.1 200 OK\r\n", 6500*time.Millisecond, "Content-Length: 0\r\n\r\n"), 200, success, 6 * time.Second},
		"an answer after 6.5 s":               {late(t, "", 6500*time.Millisecond, okAnswer), 200, success, 6 * time.Second},
		"an answer after 12 s":                {late(t, "", 12*time.Second, okAnswer), 0, timeout, 10 * time.Second},
		"100 kB in one header":                {answering(t, "HTTP/1.1 200 OK\r\nX-Long: "+strings.Repeat("a", 100<<10)+"\r\n\r\n"), 0, badHTTP, 0},
		"10,000 headers":                      {answering(t, "HTTP/1.1 200 OK\r\n"+strings.Repeat("X-A: b\r\n", 10_000)+"\r\n"), 0, badHTTP, 0},
		"headers for ever":                    {after(t, func(w *wire) { w.say("HTTP/1.1 200 OK\r\n"); w.repeat("X-A: b\r\n", 0) }), 0, badHTTP, 0},
		"a status line for ever":              {after(t, func(w *wire) { w.repeat("HTTP/1.1 200 OK", 0) }), 0, badHTTP, 0},
		"a header without a colon":            {answering(t, "HTTP/1.1 200 OK\r\nnonsense\r\n\r\n"), 0, badHTTP, 0},
		"a header with a space in its name":   {answering(t, "HTTP/1.1 200 OK\r\nX A: b\r\n\r\n"), 200, success, 0},
		"a status of letters":                 {answering(t, "HTTP/1.1 abc OK\r\n\r\n"), 0, badHTTP, 0},
		"status 000":                          {answering(t, "HTTP/1.1 000 OK\r\n\r\n"), 0, badHTTP, 0},
		"status 099":                          {answering(t, "HTTP/1.1 099 OK\r\n\r\n"), 99, badHTTP, 0},
		"HTTP/0.9":                            {answering(t, "<html>OK</html>\r\n"), 0, badHTTP, 0},
		"another protocol":                    {answering(t, "SSH-2.0-OpenSSH_9.9\r\n\r\n"), 0, badHTTP, 0},
		"HTTP/2 without asking":               {answering(t, "\x00\x00\x00\x04\x00\x00\x00\x00\x00\r\n"), 0, badHTTP, 0},
		"a transfer encoding that nobody has": {answering(t, "HTTP/1.1 200 OK\r\nTransfer-Encoding: rot13\r\n\r\n"), 0, badHTTP, 0},
		"101 and the connection handed over": {after(t, func(w *wire) {
			w.say("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n")
			w.hold()
		}), 101, badHTTP, 0},
		"101 without an upgrade":            {answering(t, "HTTP/1.1 101 Switching Protocols\r\n\r\n"), 101, badHTTP, 0},
		"a redirect to nowhere":             {answering(t, "HTTP/1.1 302 Found\r\nLocation: http://[::1\r\nContent-Length: 0\r\n\r\n"), 302, badHTTP, 0},
		"429 with Retry-After":              {answering(t, "HTTP/1.1 429 No\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n"), 429, badHTTP, 0},
		"an answer before the body is read": {fakeReceiver(t, func(w *wire) { w.head(); w.say("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"); w.hold() }).url, 200, success, 0},
		"an answer before anything is read": {fakeReceiver(t, func(w *wire) { w.hear(); w.say("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"); w.hold() }).url, 200, success, 0},
		"two answers at once":               {answering(t, strings.Repeat("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", 2)), 200, success, 0},
	}
	for _, status := range []int{200, 201, 204, 206, 226, 299} {
		table["status "+strconv.Itoa(status)] = behaviour{answering(t, "HTTP/1.1 "+strconv.Itoa(status)+" X\r\nContent-Length: 0\r\n\r\n"), status, success, 0}
	}
	for _, status := range []int{300, 304, 399, 400, 401, 404, 408, 410, 413, 499, 500, 502, 503, 504, 599, 600, 999} {
		table["status "+strconv.Itoa(status)] = behaviour{answering(t, "HTTP/1.1 "+strconv.Itoa(status)+" X\r\nContent-Length: 0\r\n\r\n"), status, badHTTP, 0}
	}
	return table
}

// late sends first at once, and then after a delay from the attempt on: the fake receiver may get its turn later.
func late(t *testing.T, first string, delay time.Duration, then string) string {
	began := time.Now()
	return after(t, func(w *wire) {
		w.say(first)
		w.wait(time.Until(began.Add(delay)))
		w.say(then)
		w.drain()
	})
}

// bodies follow a status, which has already decided.
func bodies(t *testing.T) map[string]behaviour {
	return map[string]behaviour{
		"a body that drips":        {after(t, func(w *wire) { w.say("HTTP/1.1 200 OK\r\n\r\n"); w.repeat("a", 100*time.Millisecond) }), 200, success, time.Second},
		"a body that never comes":  {after(t, func(w *wire) { w.say("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n"); w.hold() }), 200, success, time.Second},
		"a body of 500 that drips": {after(t, func(w *wire) { w.say("HTTP/1.1 500 No\r\n\r\n"); w.repeat("a", 100*time.Millisecond) }), 500, badHTTP, time.Second},
		"a body without end":       {after(t, func(w *wire) { w.say("HTTP/1.1 200 OK\r\n\r\n"); w.repeat(strings.Repeat("a", 64<<10), 0) }), 200, success, 0},
		"chunks without end": {after(t, func(w *wire) {
			w.say("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
			w.repeat("1\r\na\r\n", 0)
		}), 200, success, 0},
		"a chunk extension without end": {after(t, func(w *wire) {
			w.say("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;")
			w.repeat("aaaaaaaa", 0)
		}), 200, success, 0},
		"a chunk of 2^63 bytes": {answering(t, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n8000000000000000\r\na"), 200, success, 0},
		"chunks that are none":  {answering(t, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"), 200, success, 0},
		"a hang-up in the body": {answering(t, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nabc"), 200, success, 0},
		"a reset in the body": {after(t, func(w *wire) {
			w.say("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nabc")
			w.wait(50 * time.Millisecond)
			w.reset()
		}), 200, success, 0},
		"a length and chunks": {answering(t, "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n"), 200, success, 0},
		"trailers":            {answering(t, "HTTP/1.1 200 OK\r\nTrailer: X-A\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\nX-A: b\r\n\r\n"), 200, success, 0},
		"trailers without end": {after(t, func(w *wire) {
			w.say("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n")
			w.repeat("X-A: b\r\n", 0)
		}), 200, success, 0},
		"a trailer that is a status": {answering(t, "HTTP/1.1 500 No\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nStatus: 200\r\n\r\n"), 500, badHTTP, 0},
	}
}

// namesOfReceivers is the zone of the nameserver.
var namesOfReceivers = map[string][]answer{
	"silent.test":   {{silent: true}},
	"servfail.test": {{code: dnsmessage.RCodeServerFailure}},
	"refused.test":  {{code: dnsmessage.RCodeRefused}},
	"empty.test":    {{}},
	"loop.test":     {{cname: "loop.test."}},
	"inside.test":   {leadsTo("10.0.0.1")},
	"invalid6.test": {leadsTo("fd00::1")},
}

// names do not resolve to a receiver.
var names = map[string]behaviour{
	"no such name":                {"http://not-there.invalid/", 0, webhook.ErrorDNS, 0},
	"a nameserver that fails":     {"http://servfail.test/", 0, webhook.ErrorDNS, 0},
	"a nameserver that refuses":   {"http://refused.test/", 0, webhook.ErrorDNS, 0},
	"a name without addresses":    {"http://empty.test/", 0, webhook.ErrorDNS, 0},
	"an alias of itself":          {"http://loop.test/", 0, webhook.ErrorDNS, 0},
	"a nameserver that is silent": {"http://silent.test/", 0, timeout, 10 * time.Second},
	"a private address":           {"http://inside.test/", 0, blocked, 0},
	"a private IPv6, for https":   {"https://invalid6.test/", 0, blocked, 0},
}

// In TLS 1.3 the client learns after the handshake that it needs a certificate, by an alert or the connection's end.
func TestReceiver_AClientCertificateIsRequiredByTLS13(t *testing.T) {
	t.Parallel()
	ca := newCertificateAuthority(t)
	config := ca.server(t, nil)
	config.ClientAuth = tls.RequireAnyClientCert
	silent := fakeTLSReceiver(t, config, func(*wire) {})
	got := receiversTrusting(t, ca, nil).post(t.Context(), checkout.ModeTest, silent.url, http.Header{}, bytes.Repeat([]byte("x"), 64<<10))
	require.Zero(t, got.status)
	require.Contains(t, []webhook.ErrorKind{webhook.ErrorTLS, webhook.ErrorConnect}, got.kind)
}

// handshakes are good and bad TLS handshakes.
func handshakes(t *testing.T, ca *certificateAuthority) map[string]behaviour {
	answer := func(w *wire) {
		if w.request() == nil {
			w.say("HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
			w.drain()
		}
	}
	with := func(change func(*tls.Config)) string {
		config := ca.server(t, nil)
		change(config)
		return fakeTLSReceiver(t, config, answer).url
	}
	certified := func(change func(*x509.Certificate)) string {
		return fakeTLSReceiver(t, ca.server(t, change), answer).url
	}
	https := func(url string) string { return "https" + strings.TrimPrefix(url, "http") }
	helpful := fakeReceiver(t, func(w *wire) { // Go's server does not read on, so its reset may overtake the words
		w.hear()
		w.say("HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n")
		w.finish()
		w.drain()
	})
	bareTLS := strings.Replace(with(func(*tls.Config) {}), "https", "http", 1)
	return map[string]behaviour{
		"a good certificate":             {certified(nil), 200, success, 0},
		"TLS 1.2":                        {with(func(c *tls.Config) { c.MaxVersion = tls.VersionTLS12 }), 200, success, 0},
		"TLS 1.1":                        {with(func(c *tls.Config) { c.MinVersion, c.MaxVersion = tls.VersionTLS10, tls.VersionTLS11 }), 0, badTLS, 0},
		"an expired certificate":         {certified(func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) }), 0, badTLS, 0},
		"a certificate of tomorrow":      {certified(func(c *x509.Certificate) { c.NotBefore = time.Now().Add(time.Minute) }), 0, badTLS, 0},
		"a certificate of another host":  {certified(func(c *x509.Certificate) { c.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 9)} }), 0, badTLS, 0},
		"a certificate without a name":   {certified(func(c *x509.Certificate) { c.IPAddresses = nil; c.Subject.CommonName = "127.0.0.1" }), 0, badTLS, 0},
		"a certificate for clients only": {certified(func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth} }), 0, badTLS, 0},
		"a self-signed certificate":      {fakeTLSReceiver(t, newCertificateAuthority(t).server(t, nil), answer).url, 0, badTLS, 0},
		"no cipher in common": {with(func(c *tls.Config) {
			c.MaxVersion = tls.VersionTLS12
			c.CipherSuites = []uint16{tls.TLS_RSA_WITH_AES_128_CBC_SHA}
		}), 0, badTLS, 0},
		"a client certificate is required": {with(func(c *tls.Config) { c.ClientAuth = tls.RequireAnyClientCert; c.MaxVersion = tls.VersionTLS12 }), 0, badTLS, 0},
		"an unknown protocol by ALPN":      {with(func(c *tls.Config) { c.NextProtos = []string{"spdy/3"} }), 0, badTLS, 0},
		"a handshake that never ends":      {https(fakeReceiver(t, (*wire).drain).url), 0, timeout, 10 * time.Second},
		"a handshake that drips":           {https(fakeReceiver(t, func(w *wire) { w.say("\x16\x03\x03\x3f\xff"); w.repeat("\x02", 100*time.Millisecond) }).url), 0, timeout, 10 * time.Second},
		"a hang-up in the handshake":       {https(fakeReceiver(t, (*wire).hear).url), 0, badTLS, 0},
		"a reset in the handshake":         {https(fakeReceiver(t, func(w *wire) { w.hear(); w.reset() }).url), 0, badTLS, 0},
		"TLS to a plain port":              {https(serve(t, func(http.ResponseWriter, *http.Request) {})), 0, badTLS, 0},
		"plain to a TLS port":              {bareTLS, 0, connect, 0}, // the server sends an alert and hangs up
		"the same, answered in words":      {helpful.url, 400, badHTTP, 0},
		"nobody listens, for https":        {"https://" + deaf, 0, connect, 0},
		"a hang-up after the handshake":    {fakeTLSReceiver(t, ca.server(t, nil), func(*wire) {}).url, 0, connect, 0},
		"silence after the handshake":      {fakeTLSReceiver(t, ca.server(t, nil), (*wire).hold).url, 0, timeout, 10 * time.Second},
		"a reset after the request":        {fakeTLSReceiver(t, ca.server(t, nil), func(w *wire) { _ = w.request(); w.reset() }).url, 0, connect, 0},
		"200 without the end of TLS":       {fakeTLSReceiver(t, ca.server(t, nil), func(w *wire) { _ = w.request(); w.say("HTTP/1.1 200 OK\r\n\r\nabc"); w.finish(); w.hold() }).url, 200, success, 0},
	}
}

// streams are HTTP/2 receivers.
func streams(t *testing.T, ca *certificateAuthority) map[string]behaviour {
	config := ca.server(t, nil)
	does := func(converse func(*stream)) string { return fakeHTTP2Receiver(t, config, nil, converse).url }
	resets := func(code http2.ErrCode) string { return does(func(s *stream) { _ = s.WriteRSTStream(s.id, code) }) }
	leaves := func(last uint32, code http2.ErrCode) string {
		return does(func(s *stream) { _ = s.WriteGoAway(last, code, nil); s.finish(); s.hold() })
	}
	silent := config.Clone()
	silent.NextProtos = []string{"h2"}
	ok := []string{":status", "200"}
	return map[string]behaviour{
		"HTTP/2 answers 200":              {does(func(s *stream) { _ = s.headers(true, ok...) }), 200, success, 0},
		"HTTP/2 answers 500":              {does(func(s *stream) { _ = s.headers(true, ":status", "500") }), 500, badHTTP, 0},
		"HTTP/2 answers 103 and then 200": {does(func(s *stream) { _ = s.headers(false, ":status", "103"); _ = s.headers(true, ok...) }), 200, success, 0},
		"HTTP/2 sends trailers": {does(func(s *stream) {
			_ = s.headers(false, ok...)
			_ = s.WriteData(s.id, false, []byte("a"))
			_ = s.headers(true, "x-a", "b")
		}), 200, success, 0},
		"HTTP/2 never answers":               {does(func(s *stream) { s.hold() }), 0, timeout, 10 * time.Second},
		"HTTP/2 never even sends settings":   {fakeTLSReceiver(t, silent, (*wire).hold).url, 0, timeout, 10 * time.Second},
		"HTTP/2 allows no streams":           {fakeHTTP2Receiver(t, config, []http2.Setting{{ID: http2.SettingMaxConcurrentStreams, Val: 0}}, (*stream).hold).url, 0, timeout, 10 * time.Second},
		"HTTP/2 opens no window":             {fakeHTTP2Receiver(t, config, []http2.Setting{{ID: http2.SettingInitialWindowSize, Val: 0}}, (*stream).hold).url, 0, timeout, 10 * time.Second},
		"HTTP/2 leaves, nothing done":        {leaves(0, http2.ErrCodeNo), 0, connect, 0},
		"HTTP/2 leaves, this one unanswered": {leaves(1, http2.ErrCodeNo), 0, connect, 0},
		"HTTP/2 resets: internal error":      {resets(http2.ErrCodeInternal), 0, connect, 0},
		"HTTP/2 resets: refused":             {resets(http2.ErrCodeRefusedStream), 0, connect, 0},
		"HTTP/2 resets: HTTP/1.1 required":   {resets(http2.ErrCodeHTTP11Required), 0, connect, 0},
		"HTTP/2 hangs up":                    {does(func(s *stream) { s.reset() }), 0, connect, 0},
		"HTTP/2 says 200 and resets":         {does(func(s *stream) { _ = s.headers(false, ok...); _ = s.WriteRSTStream(s.id, http2.ErrCodeInternal) }), 200, success, 0},
		"HTTP/2 sends a body without end": {does(func(s *stream) {
			_ = s.headers(false, ok...)
			until(func() error { return s.WriteData(s.id, false, make([]byte, 16<<10)) })
		}), 200, success, 0},
		"HTTP/2 sends a body that drips": {does(func(s *stream) { _ = s.headers(false, ok...); s.hold() }), 200, success, time.Second},
		"HTTP/2 sends 103 for ever": {does(func(s *stream) {
			until(func() error { return s.headers(false, ":status", "103", "x-a", strings.Repeat("a", 1000)) })
		}), 0, badHTTP, 0},
		"HTTP/2 sends 103 now and then": {does(func(s *stream) {
			until(func() error { s.wait(200 * time.Millisecond); return s.headers(false, ":status", "103") })
		}), 0, timeout, 10 * time.Second},
		"HTTP/2 sends no status":           {does(func(s *stream) { _ = s.headers(true, "x-a", "b") }), 0, badHTTP, 0},
		"HTTP/2 sends a status of letters": {does(func(s *stream) { _ = s.headers(true, ":status", "abc") }), 0, badHTTP, 0},
		"HTTP/2 sends 10,000 headers":      {does(bomb), 0, badHTTP, 0},
		"HTTP/2 sends headers for ever":    {does(continueForEver), 0, connect, 0},
		"HTTP/2 pings for ever, nothing else": {does(func(s *stream) {
			until(func() error { s.wait(time.Millisecond); return s.WritePing(false, [8]byte{}) })
		}), 0, timeout, 10 * time.Second},
		"HTTP/2 sends data before headers":  {does(func(s *stream) { _ = s.WriteData(s.id, true, []byte("a")); s.hold() }), 0, connect, 0},
		"HTTP/2 sends frames of 8 MB":       {does(func(s *stream) { _ = s.WriteRawFrame(http2.FrameData, 0, s.id, make([]byte, 8<<20)) }), 0, connect, 0},
		"HTTP/2 is promised and not spoken": {fakeTLSReceiver(t, silent, func(w *wire) { w.say("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"); w.drain() }).url, 0, connect, 0},
	}
}

// bomb is small on the wire: one header and many references to it.
func bomb(s *stream) {
	var b bytes.Buffer
	b.Write(packed(":status", "200", "x-a", strings.Repeat("a", 3000)))
	b.Write(bytes.Repeat([]byte{0x80 | 62}, 10_000)) // the newest entry of the dynamic table
	_ = s.WriteHeaders(http2.HeadersFrameParam{StreamID: s.id, BlockFragment: b.Bytes(), EndHeaders: true, EndStream: true})
}

func continueForEver(s *stream) {
	_ = s.WriteHeaders(http2.HeadersFrameParam{StreamID: s.id, BlockFragment: packed(":status", "200")})
	until(func() error { return s.WriteContinuation(s.id, false, packed("x-a", "b")) })
}

// The status has decided, and no compressed body is inflated.
func TestReceiver_KeepsTheFirst16KiBOfABodyAsTheyCame(t *testing.T) {
	t.Parallel()
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	for range 20 {
		require.NoError(t, must.Err(z.Write(make([]byte, 1<<20))))
	}
	require.NoError(t, z.Close())
	head := "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: " + strconv.Itoa(packed.Len()) + "\r\n\r\n"
	r := newReceivers(NewAddressGuard(true))
	got := r.post(t.Context(), checkout.ModeTest, answering(t, head+packed.String()), http.Header{}, []byte("{}"))
	require.Equal(t, reply{status: 200, body: packed.Bytes()[:16<<10]}, got)

	got = r.post(t.Context(), checkout.ModeTest, after(t, func(w *wire) { w.say("HTTP/1.1 500 No\r\n\r\nabc"); w.hold() }), http.Header{}, []byte("{}"))
	require.Equal(t, "abc", string(got.body), "what came in a second is kept")
}

// The worker must hold all that a receiver may send before the body is read.
func TestReceiver_OffersAnHTTP2ReceiverASmallWindow(t *testing.T) {
	t.Parallel()
	ca := newCertificateAuthority(t)
	config := ca.server(t, nil)
	config.NextProtos = []string{"h2"}
	type window struct{ stream, connection uint32 }
	offered := make(chan window, 1)
	f := fakeTLSReceiver(t, config, func(w *wire) {
		_, _ = io.CopyN(io.Discard, w.in, int64(len(http2.ClientPreface)))
		f := http2.NewFramer(w, w.in)
		got := window{connection: 65_535} // the initial value: RFC 9113, 6.9.2
		for {
			frame, err := f.ReadFrame()
			if err != nil {
				return
			}
			switch frame := frame.(type) {
			case *http2.SettingsFrame:
				if !frame.IsAck() {
					got.stream, _ = frame.Value(http2.SettingInitialWindowSize)
					_ = f.WriteSettings()
				}
			case *http2.WindowUpdateFrame:
				got.connection += frame.Increment
			case *http2.HeadersFrame:
				offered <- got
				return
			}
		}
	})
	postTo(t, receiversTrusting(t, ca, nil), f)
	got := <-offered
	require.EqualValues(t, 64<<10, got.stream)
	require.LessOrEqual(t, got.connection, uint32(1<<20+65_535))
}
