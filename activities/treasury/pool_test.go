package treasury_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/stretchr/testify/require"

	"example.com/checkout/storage/storagetest/must"
)

// A strictPool refuses a replacement unless tip and cap rise by a percentage, as geth does and anvil does not.
type strictPool struct {
	URL     string
	percent int64

	mu      sync.Mutex
	waiting map[uint64]*types.Transaction // by nonce
	refused int
}

func newStrictPool(t *testing.T, node string, percent int64) *strictPool {
	t.Helper()
	p := &strictPool{percent: percent, waiting: map[uint64]*types.Transaction{}}
	forward := httputil.NewSingleHostReverseProxy(must.Get(url.Parse(node))(t))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if id, ok := p.underpriced(body); ok {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"jsonrpc": "2.0", "id": %s, "error": {"code": -32000, "message": "replacement transaction underpriced"}}`, id)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		forward.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	p.URL = server.URL
	return p
}

// underpriced reports whether the request sends a replacement that the pool refuses. id is the request's.
func (p *strictPool) underpriced(body []byte) (id json.RawMessage, refused bool) {
	var request struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
		Params []hexutil.Bytes `json:"params"`
	}
	tx := new(types.Transaction)
	if json.Unmarshal(body, &request) != nil || request.Method != "eth_sendRawTransaction" || tx.UnmarshalBinary(request.Params[0]) != nil {
		return nil, false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	before := p.waiting[tx.Nonce()]
	if before != nil && before.Hash() != tx.Hash() &&
		(p.tooClose(before.GasTipCap(), tx.GasTipCap()) || p.tooClose(before.GasFeeCap(), tx.GasFeeCap())) {
		p.refused++
		return request.ID, true
	}
	p.waiting[tx.Nonce()] = tx
	return nil, false
}

func (p *strictPool) tooClose(before, now *big.Int) bool {
	least := new(big.Int).Mul(before, big.NewInt(100+p.percent))
	return new(big.Int).Mul(now, big.NewInt(100)).Cmp(least) < 0
}

// The version that a pool refused is never mined, and the first one stays in the pool until a version is high enough.
func TestSync_AnUnderpricedVersionIsFollowedByAHigherOne(t *testing.T) {
	t.Parallel()
	for percent, versions := range map[int64]int{10: 2, 30: 3} {
		f := newSerialFixture(t).withAnvil(t)
		f.booked(t)
		pool := newStrictPool(t, f.anvil.URL, percent)
		f.open(t, pool.URL)
		ref, transfer := f.sent(t)
		f.StuckAfter = time.Nanosecond
		for range versions - 1 {
			require.Equal(t, 1, f.sync(t).Bumped)
			require.Empty(t, f.received(t)[1:], "nothing is mined")
		}
		require.Equal(t, versions-2, pool.refused)
		last := f.version(t, transfer, versions)
		nonce, _ := last.Slot.Number()
		require.Equal(t, last.TxHash, pool.waiting[nonce].Hash().Hex(), "the highest one waits in the pool")

		f.StuckAfter = time.Hour
		f.mine(t, 3)
		require.Equal(t, 1, f.sync(t).Confirmed)
		require.Equal(t, last.TxHash, f.read(t, ref).TxHash)
		require.EqualValues(t, 1, f.query(t, `SELECT count(*) FROM transfer`))
		require.EqualValues(t, versions, f.query(t, `SELECT count(*) FROM transfer_version`))
		require.Equal(t, f.read(t, ref).Amount.Units().String(), f.received(t), "once")
		f.requireChain(t)
	}
}
