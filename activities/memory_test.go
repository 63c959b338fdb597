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
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/checkout/storage/pgtemp"
	"example.com/checkout/storage/storagetest/must"
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

// footprint is the memory that the postings took.
type footprint struct {
	Kinds      map[webhook.ErrorKind]int
	PeakHeap   uint64 // growth of HeapInuse while they ran, garbage included
	FromSystem uint64 // growth of all that the runtime ever took; never shrinks
	HeapAfter  int64  // growth of HeapAlloc that a collection left
	Goroutines int    // more than before, at last
}

// The requests come from another process, so the memory of the fake receivers does not count.
func TestReceiver_MemoryStaysFlatUnder200BadReceivers(t *testing.T) {
	t.Parallel()
	ca := newCertificateAuthority(t)
	in := postings{CA: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca.cert.Raw})}
	all := behaviours(t, ca)
	for _, name := range floods {
		in.URLs = append(in.URLs, slices.Repeat([]string{all[name].url}, 20)...)
	}

	got := measure(t, in)
	t.Logf("%+v", got)
	// 80 answer, less those that a busy machine delays too long. TestReceiver_EveryBehaviour looks at each alone.
	require.GreaterOrEqual(t, got.Kinds[success], 60)
	require.Equal(t, 200, got.Kinds[success]+got.Kinds[badHTTP]+got.Kinds[connect]+got.Kinds[timeout])
	require.Less(t, got.PeakHeap, uint64(50<<20))
	require.Less(t, got.FromSystem, uint64(50<<20))
	require.Less(t, got.HeapAfter, int64(10<<20))
	require.LessOrEqual(t, got.Goroutines, 2)
}

// floods are the behaviours that send as much, or as long, as they can. The first four answer with a status.
var floods = []string{
	"a body without end", "a body that drips", "chunks without end", "HTTP/2 sends a body without end",
	"headers for ever", "headers that drip", "103 for ever", "a handshake that never ends",
	"HTTP/2 sends 10,000 headers", "HTTP/2 sends headers for ever",
}

// measure runs the postings in another process.
func measure(t *testing.T, in postings) footprint {
	stdin := must.Get(json.Marshal(in))(t)
	worker := exec.CommandContext(t.Context(), os.Args[0])
	worker.Env = append(os.Environ(), role+"=worker")
	worker.Stdin = bytes.NewReader(stdin)
	worker.Stderr = os.Stderr
	stdout := must.Get(worker.Output())(t)
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

func (in postings) measured(r receivers) (out footprint) {
	before, goroutines := collected(), runtime.NumGoroutine()
	kinds := make(chan map[webhook.ErrorKind]int)
	go func() { kinds <- in.post(r) }()
	for out.Kinds == nil {
		var now runtime.MemStats
		runtime.ReadMemStats(&now)
		out.PeakHeap = max(out.PeakHeap, now.HeapInuse-min(now.HeapInuse, before.HeapInuse))
		select {
		case out.Kinds = <-kinds:
		case <-time.After(10 * time.Millisecond):
		}
	}
	out.Goroutines = runtime.NumGoroutine() - goroutines
	for end := time.Now().Add(15 * time.Second); out.Goroutines > 0 && time.Now().Before(end); {
		time.Sleep(50 * time.Millisecond)
		out.Goroutines = runtime.NumGoroutine() - goroutines
	}
	after := collected()
	out.FromSystem, out.HeapAfter = after.Sys-before.Sys, int64(after.HeapAlloc)-int64(before.HeapAlloc)
	return out
}

// post makes all postings at once and counts how they ended.
func (in postings) post(r receivers) map[webhook.ErrorKind]int {
	kinds := make(chan webhook.ErrorKind)
	for _, url := range in.URLs {
		go func() {
			kinds <- r.post(context.Background(), checkout.ModeTest, url, http.Header{}, make([]byte, 16<<10)).kind
		}()
	}
	counts := map[webhook.ErrorKind]int{}
	for range in.URLs {
		counts[<-kinds]++
	}
	return counts
}

func collected() (m runtime.MemStats) {
	runtime.GC()
	runtime.GC() // the first collection only moves the content of sync.Pool
	runtime.ReadMemStats(&m)
	return m
}
