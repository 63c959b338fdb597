package ethereum

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/checkout/activities/jsonrpc"
	"example.com/checkout/deploy/standin/chains"
)

// Providers answer a method that they do not serve with a status of HTTP, too. A node without a pool to show
// stops nothing, and one that has no time for the question does.
func TestSnapshot_OfANodeThatShowsNoPool(t *testing.T) {
	r := newRig(t, chains.Options{})
	node := must(url.Parse(r.anvil.URL))(t)
	var status atomic.Int64
	behind := httputil.NewSingleHostReverseProxy(node)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		body, _ := io.ReadAll(q.Body)
		if bytes.Contains(body, []byte(`"txpool_`)) {
			w.WriteHeader(int(status.Load()))
			fmt.Fprint(w, `{"jsonrpc": "2.0", "id": 1, "error": {"code": -32600, "message": "Unsupported method"}}`)
			return
		}
		q.Body = io.NopCloser(bytes.NewReader(body))
		behind.ServeHTTP(w, q)
	}))
	t.Cleanup(server.Close)
	c := r.open(func(o *Options) { o.RPCURLs = []string{server.URL} })
	for _, unserved := range []int64{400, 403, 404, 405, 501} {
		status.Store(unserved)
		require.NoError(t, errorOf(c.Snapshot(t.Context())), "HTTP %d", unserved)
	}
	for _, passing := range []int64{429, 500, 503} {
		status.Store(passing)
		require.ErrorIs(t, errorOf(c.Snapshot(t.Context())), jsonrpc.ErrNotReady, "HTTP %d", passing)
	}
}
