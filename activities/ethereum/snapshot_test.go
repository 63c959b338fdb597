package ethereum

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/checkout/activities/jsonrpc"
	"example.com/checkout/deploy/standin/chains"
	"example.com/checkout/storage/storagetest/must"
)

// Providers refuse a method with an HTTP status, too. A round goes on without a pool, but not after a passing refusal.
func TestSnapshot_OfANodeThatShowsNoPool(t *testing.T) {
	p, c := newRig(t, chains.Options{}).openProxied()
	answerPool := func(status httpStatus) {
		p.tell(func(method string, _ []json.RawMessage, _ json.RawMessage) any {
			if strings.HasPrefix(method, "txpool_") {
				return status
			}
			return nil
		})
	}
	for _, unserved := range []httpStatus{400, 403, 404, 405, 501} {
		answerPool(unserved)
		require.NoError(t, must.Err(c.Snapshot(t.Context())), "HTTP %d", unserved)
	}
	for _, passing := range []httpStatus{429, 500, 503} {
		answerPool(passing)
		require.ErrorIs(t, must.Err(c.Snapshot(t.Context())), jsonrpc.ErrNotReady, "HTTP %d", passing)
	}
}
