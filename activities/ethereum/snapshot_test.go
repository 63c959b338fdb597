package ethereum

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/checkout/activities/jsonrpc"
	"example.com/checkout/deploy/standin/chains"
	"example.com/checkout/storage/storagetest/must"
	"example.com/checkout/workflows/money"
	"example.com/checkout/workflows/treasury"
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

// After the restore of an old backup it may be a payment that PostgreSQL lacks.
func TestSnapshot_ATransactionBehindAGapIsSeen(t *testing.T) {
	r := newRig(t, chains.Options{})
	c := r.open()
	r.sent(c, money.USDC, "20", 1)
	now := must.Get(c.Snapshot(t.Context()))(t)
	require.Equal(t, append(treasury.NumberSlot(0), treasury.NumberSlot(1)...), now.Using)
	require.EqualValues(t, 2, now.Next)
}
