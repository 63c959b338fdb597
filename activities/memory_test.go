package activities

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/checkout/storage/pgtemp"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/webhook"
)

// role makes the test binary a worker that only posts.
const role = "ACTIVITIES_TEST_ROLE"

func TestMain(m *testing.M) {
	log.SetOutput(io.Discard) // net/http logs what receivers send
	if os.Getenv(role) == "worker" {
		if err := postAndMeasure(os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	pgtemp.RunInParallel()
	os.Exit(m.Run())
}

// postings lists the addresses to post to at once.
type postings struct {
	URLs []string `json:"urls"`
	CA   []byte   `json:"ca"` // PEM
}

// footprint is the memory and time that the postings took.
type footprint struct {
	Kinds           map[webhook.ErrorKind]int `json:"kinds"`
	Took            time.Duration             `json:"took"`
	PeakHeap        uint64                    `json:"peak_heap"`          // growth of HeapInuse while they ran, garbage included
	FromSystem      uint64                    `json:"from_system"`        // growth of all that the runtime ever took; never shrinks
	HeapAfter       int64                     `json:"heap_after"`         // growth of HeapAlloc that a collection left
	PeakGoroutines  int                       `json:"peak_goroutines"`    // more than before
	GoroutinesAfter int                       `json:"goroutines_after"`   // more than before, at last
	GoneAfter       time.Duration             `json:"goroutines_gone_in"` // after the last post
}

// TestReceiver_MemoryStaysFlatUnder200BadReceivers posts from another process, so the memory of the
// fake receivers does not count.
func TestReceiver_MemoryStaysFlatUnder200BadReceivers(t *testing.T) {
	t.Parallel()
	ca := newCertificateAuthority(t)
	in := postings{CA: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca.cert.Raw})}
	for range 20 {
		in.URLs = append(in.URLs, floods(t, ca)...)
	}
	require.Len(t, in.URLs, 200)

	got := measure(t, in)
	t.Logf("%+v", got)
	// On a busy machine more attempts run out of time. TestReceiver_EveryBehaviour looks at each alone.
	require.Equal(t, 80, got.Kinds[success])
	require.Equal(t, 120, got.Kinds[badHTTP]+got.Kinds[connect]+got.Kinds[timeout])
	require.Less(t, got.PeakHeap, uint64(50<<20))
	require.Less(t, got.FromSystem, uint64(50<<20))
	require.Less(t, got.HeapAfter, int64(10<<20))
	require.LessOrEqual(t, got.GoroutinesAfter, 2)
}

// floods send as much as they can.
func floods(t *testing.T, ca *certificateAuthority) []string {
	t.Helper()
	config := ca.server(t, nil)
	big := strings.Repeat("a", 256<<10)
	http2 := func(converse func(*stream)) string { return fakeHTTP2Receiver(t, config, nil, converse).url }
	return []string{
		after(t, func(w *wire) { w.say("HTTP/1.1 200 OK\r\n\r\n"); w.repeat(big, 0) }),
		after(t, func(w *wire) { w.say("HTTP/1.1 200 OK\r\n\r\n"); w.repeat("a", 10*time.Millisecond) }),
		after(t, func(w *wire) {
			w.say("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
			w.repeat("1\r\na\r\n", 0)
		}),
		after(t, func(w *wire) { w.say("HTTP/1.1 200 OK\r\n"); w.repeat("X-A: b\r\n", 0) }),
		after(t, func(w *wire) { w.repeat("HTTP/1.1 103 Early Hints\r\n\r\n", 0) }),
		after(t, func(w *wire) { w.say("HTTP/1.1 200 OK\r\nX-A: "); w.repeat("a", 10*time.Millisecond) }),
		"https" + strings.TrimPrefix(fakeReceiver(t, (*wire).drain).url, "http"), // the handshake never ends
		http2(func(s *stream) {
			_ = s.headers(false, ":status", "200")
			until(func() error { return s.WriteData(s.id, false, make([]byte, 16<<10)) })
		}),
		http2(bomb),
		http2(continueForEver),
	}
}

// measure runs the postings in another process.
func measure(t *testing.T, in postings) footprint {
	t.Helper()
	stdin, err := json.Marshal(in)
	require.NoError(t, err)
	worker := exec.CommandContext(t.Context(), os.Args[0])
	worker.Env = append(os.Environ(), role+"=worker")
	worker.Stdin = bytes.NewReader(stdin)
	worker.Stderr = os.Stderr
	stdout, err := worker.Output()
	require.NoError(t, err)
	var out footprint
	require.NoError(t, json.Unmarshal(stdout, &out), "%s", stdout)
	return out
}

// postAndMeasure runs in the other process.
func postAndMeasure(stdin io.Reader, stdout io.Writer) error {
	var in postings
	if err := json.NewDecoder(stdin).Decode(&in); err != nil {
		return err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(in.CA) {
		return fmt.Errorf("no certificate in %q", in.CA)
	}
	r := newReceivers(NewAddressGuard(true))
	r.test.(*http.Transport).TLSClientConfig.RootCAs = roots
	return json.NewEncoder(stdout).Encode(in.measured(r))
}

func (in postings) measured(r receivers) footprint {
	before, goroutines := collected(), runtime.NumGoroutine()
	stop, peak := make(chan struct{}), make(chan footprint)
	go func() { peak <- watch(stop, before, goroutines) }()
	began := time.Now()
	kinds := in.post(r)
	took := time.Since(began)
	close(stop)
	out := <-peak
	out.Kinds, out.Took = kinds, took
	for out.GoneAfter = 0; out.GoneAfter < 15*time.Second; out.GoneAfter += 50 * time.Millisecond {
		if out.GoroutinesAfter = runtime.NumGoroutine() - goroutines; out.GoroutinesAfter <= 0 {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	after := collected()
	out.FromSystem, out.HeapAfter = after.Sys-before.Sys, int64(after.HeapAlloc)-int64(before.HeapAlloc)
	return out
}

// post makes all postings at once and counts how they ended.
func (in postings) post(r receivers) map[webhook.ErrorKind]int {
	var (
		posts sync.WaitGroup
		mu    sync.Mutex
		kinds = map[webhook.ErrorKind]int{}
	)
	for _, url := range in.URLs {
		posts.Go(func() {
			got := r.post(context.Background(), checkout.ModeTest, url, http.Header{}, make([]byte, 16<<10))
			kind := got.kind
			mu.Lock()
			defer mu.Unlock()
			kinds[kind]++
		})
	}
	posts.Wait()
	return kinds
}

// watch samples the memory until stop is closed.
func watch(stop <-chan struct{}, before runtime.MemStats, goroutines int) (peak footprint) {
	for {
		var now runtime.MemStats
		runtime.ReadMemStats(&now)
		peak.PeakHeap = max(peak.PeakHeap, now.HeapInuse-min(now.HeapInuse, before.HeapInuse))
		peak.PeakGoroutines = max(peak.PeakGoroutines, runtime.NumGoroutine()-goroutines)
		select {
		case <-stop:
			return peak
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func collected() (m runtime.MemStats) {
	runtime.GC()
	runtime.GC() // the first collection only moves the content of sync.Pool
	runtime.ReadMemStats(&m)
	return m
}
