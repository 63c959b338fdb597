package ethereum

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/big"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/stretchr/testify/require"

	"example.com/checkout/activities/jsonrpc"
	"example.com/checkout/deploy/standin/chains"
	"example.com/checkout/storage/storagetest/must"
	"example.com/checkout/workflows/money"
	"example.com/checkout/workflows/treasury"
)

const (
	gwei     = 1_000_000_000
	anyBlock = math.MaxUint64
)

// A rig is a real node with tokens, a funded treasury, and proxies through which it can lie.
type rig struct {
	*testing.T

	anvil   *chains.Anvil
	market  chains.Market
	key     *Keystore
	options Options // of a chain with one honest node
	fresh   byte    // the last fresh address
}

// newRig starts a node. Blocks come from mine only. The test runs beside others.
func newRig(t *testing.T, o chains.Options) *rig {
	t.Parallel()
	anvil := chains.ForTest(t, o)
	market := must.Get(anvil.DeployMarket(t.Context()))(t)
	secret := must.Get(crypto.GenerateKey())(t)
	r := &rig{T: t, anvil: anvil, market: market, key: &Keystore{crypto.PubkeyToAddress(secret.PublicKey), secret}}
	r.options = Options{
		RPCURLs: []string{anvil.URL}, ChainID: anvil.ChainID, Treasury: r.key.account.Hex(),
		Tokens: map[money.PayoutCurrency]string{money.USDC: market.USDC.Hex(), money.USDT: market.USDT.Hex()},
		Signer: r.key, MaxFeeGwei: 200, Confirmations: "finalized", MaxHeadAge: 24 * time.Hour,
	}
	r.fund(r.key.account)
	return r
}

// fund gives an account 100 ETH and a million of each token.
func (r *rig) fund(account common.Address) {
	million := big.NewInt(1_000_000_000_000)
	require.NoError(r, r.anvil.SetBalance(r.Context(), account, new(big.Int).Mul(big.NewInt(100), big.NewInt(1e18))))
	r.invoke("USDC", r.market.USDC, "mint", account, million)
	r.invoke("USDT", r.market.USDT, "mint", account, million)
}

func (r *rig) open(change ...func(*Options)) *Chain {
	o := r.options
	for _, c := range change {
		c(&o)
	}
	return must.Get(Open(r.Context(), o))(r)
}

// openProxied returns a chain that asks its node through a proxy.
func (r *rig) openProxied() (*proxy, *Chain) {
	p := proxyTo(r.T, r.anvil.URL)
	return p, r.open(func(o *Options) { o.RPCURLs = []string{p.URL} })
}

// setBaseFee mines a block whose base fee is so many wei.
func (r *rig) setBaseFee(wei uint64) {
	require.NoError(r, r.anvil.SetBaseFee(r.Context(), wei))
	r.mine(1)
}

func (r *rig) mine(blocks uint64) {
	require.NoError(r, r.anvil.Mine(r.Context(), blocks))
}

// invoke changes a contract: it is mined at once, with everything that waits.
func (r *rig) invoke(name string, at common.Address, method string, args ...any) {
	require.NoError(r, r.anvil.Automine(r.Context(), true))
	require.NoError(r, r.anvil.Invoke(r.Context(), name, at, method, args...))
	require.NoError(r, r.anvil.Automine(r.Context(), false))
}

func (r *rig) deploy(name string, args ...any) common.Address {
	require.NoError(r, r.anvil.Automine(r.Context(), true))
	at := must.Get(r.anvil.Deploy(r.Context(), name, args...))(r)
	require.NoError(r, r.anvil.Automine(r.Context(), false))
	return at
}

// payee returns an address that nobody has used.
func (r *rig) payee() string {
	r.fresh++
	return common.BytesToAddress([]byte{0xaa, 0xbb, 0xcc, r.fresh}).Hex()
}

// request asks for a payout; the price of 1 ETH is 3,200.
func request(currency money.PayoutCurrency, to, gross string) treasury.TransferRequest {
	rate := money.MustRate("3200")
	if currency == money.ETH {
		rate = money.MustRate("1")
	}
	return treasury.TransferRequest{
		PayoutID: "po_1", Destination: to, Gross: money.MustCrypto(gross, currency), FeeRate: rate,
	}
}

func (r *rig) signed(c *Chain, currency money.PayoutCurrency, gross string, nonce uint64) treasury.TransferVersion {
	plan := must.Get(c.Plan(r.Context(), []treasury.TransferRequest{request(currency, r.payee(), gross)}, nil))(r)
	plan.Slot = treasury.NumberSlot(nonce)
	return must.Get(c.Sign(r.Context(), plan))(r)
}

func (r *rig) bumped(c *Chain, last treasury.TransferVersion) treasury.TransferVersion {
	plan := must.Get(c.Bump(r.Context(), last))(r)
	return must.Get(c.Sign(r.Context(), plan))(r)
}

func (r *rig) sent(c *Chain, currency money.PayoutCurrency, gross string, nonce uint64) treasury.TransferVersion {
	v := r.signed(c, currency, gross, nonce)
	require.NoError(r, c.Send(r.Context(), v))
	return v
}

func (r *rig) planError(c *Chain, req treasury.TransferRequest) error {
	return must.Err(c.Plan(r.Context(), []treasury.TransferRequest{req}, nil))
}

func (r *rig) lookError(c *Chain, v treasury.TransferVersion) error {
	return must.Err(c.Look(r.Context(), []treasury.TransferVersion{v}))
}

func (r *rig) outflows(c *Chain, from uint64) treasury.Outflows {
	return must.Get(c.Outflows(r.Context(), from, anyBlock))(r)
}

func (r *rig) sees(c *Chain, want treasury.TransferState, versions ...treasury.TransferVersion) treasury.TransferSnapshot {
	got := must.Get(c.Look(r.Context(), versions))(r)
	require.Equal(r, want, got.State)
	return got
}

// has returns what an account has, as a decimal.
func (r *rig) has(currency money.PayoutCurrency, account string) string {
	reader := &Chain{treasury: common.HexToAddress(account), tokens: r.market.Tokens()}
	n := must.Get(jsonrpc.Dial("reader", r.anvil.URL, jsonrpc.Options{}))(r)
	return must.Get(reader.balance(r.Context(), n, currency, "latest"))(r).String()
}

// A lie changes a node's answer. It gets the method, its arguments and the true answer, a result as JSON.
// It returns the answer to give; nil is the true one. An error becomes one of JSON-RPC.
type lie func(method string, args []json.RawMessage, truth json.RawMessage) any

// An httpStatus is a lie: the node does not serve the method, with this status.
type httpStatus int

// A proxy passes JSON-RPC on to a node and can change single answers.
type proxy struct {
	URL   string
	lie   atomic.Pointer[lie]
	mu    sync.Mutex
	asked map[string]int // by method
}

func (p *proxy) tell(l lie) { p.lie.Store(&l) }
func (p *proxy) count(method string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.asked[method]
}

func proxyTo(t *testing.T, target string) *proxy {
	p := &proxy{asked: map[string]int{}}
	p.tell(always(nil))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		answer, err := http.Post(target, "application/json", bytes.NewReader(body))
		if err != nil {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		defer answer.Body.Close()
		truth, _ := io.ReadAll(answer.Body)
		status, changed := p.changed(body, truth)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(int(status))
		_, _ = w.Write(changed)
	}))
	t.Cleanup(server.Close)
	p.URL = server.URL
	return p
}

type rpcRequest struct {
	ID     json.RawMessage   `json:"id"`
	Method string            `json:"method"`
	Params []json.RawMessage `json:"params"`
}

type rpcAnswer struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   any             `json:"error,omitempty"`
}

// changed returns the answers to one request or a batch, and their status of HTTP.
func (p *proxy) changed(body, truth []byte) (status httpStatus, changed []byte) {
	var requests []rpcRequest
	var answers []rpcAnswer
	batch := bytes.HasPrefix(bytes.TrimSpace(body), []byte("["))
	if !batch {
		body, truth = fmt.Appendf(nil, "[%s]", body), fmt.Appendf(nil, "[%s]", truth)
	}
	_ = json.Unmarshal(body, &requests)
	_ = json.Unmarshal(truth, &answers)
	status = http.StatusOK
	for i, r := range requests {
		p.mu.Lock()
		p.asked[r.Method]++
		p.mu.Unlock()
		switch told := (*p.lie.Load())(r.Method, r.Params, answers[i].Result).(type) {
		case nil:
		case httpStatus:
			status, answers[i].Result = told, nil
			answers[i].Error = map[string]any{"code": -32600, "message": "Unsupported method"}
		case error:
			answers[i].Result, answers[i].Error = nil, map[string]any{"code": -32000, "message": told.Error()}
		default:
			answers[i].Result, _ = json.Marshal(told)
			answers[i].Error = nil
		}
	}
	changed, _ = json.Marshal(answers)
	if !batch {
		changed = changed[1 : len(changed)-1]
	}
	return status, changed
}

// edited returns an object of JSON with other fields.
func edited(object json.RawMessage, fields map[string]any) any {
	all := map[string]any{}
	_ = json.Unmarshal(object, &all)
	for name, value := range fields {
		all[name] = value
	}
	return all
}

// An edit makes an answer from the true one.
type edit func(truth json.RawMessage) any

// with changes fields of the true answer.
func with(fields map[string]any) edit {
	return func(truth json.RawMessage) any { return edited(truth, fields) }
}

func always(answer any) lie {
	return func(string, []json.RawMessage, json.RawMessage) any { return answer }
}

// on lies about one method. The answer may be an edit.
func on(method string, answer any) lie {
	return func(asked string, _ []json.RawMessage, truth json.RawMessage) any {
		if asked != method {
			return nil
		}
		if change, ok := answer.(edit); ok {
			return change(truth)
		}
		return answer
	}
}

// onFirst lies about one method with one first argument, which is text.
func onFirst(method, first string, answer any) lie {
	about := on(method, answer)
	return func(asked string, args []json.RawMessage, truth json.RawMessage) any {
		if len(args) == 0 || string(args[0]) != `"`+first+`"` {
			return nil
		}
		return about(asked, args, truth)
	}
}

// either tells the first of some lies that is about a question.
func either(lies ...lie) lie {
	return func(method string, args []json.RawMessage, truth json.RawMessage) any {
		for _, l := range lies {
			if answer := l(method, args, truth); answer != nil {
				return answer
			}
		}
		return nil
	}
}

// pruned is a node that forgot the states of old blocks.
func pruned(method string, args []json.RawMessage, _ json.RawMessage) any {
	if method == "eth_getTransactionCount" && args[1][0] == '"' {
		return errPruned
	}
	return nil
}

// null is the answer of a node that has nothing.
var null = json.RawMessage("null")

// use takes a nonce of the treasury by a transaction that is none of ours.
func (r *rig) use(to common.Address, value int64) string {
	require.NoError(r, r.anvil.Impersonate(r.Context(), r.key.account))
	return must.Get(r.anvil.Send(r.Context(), chains.Transaction{From: r.key.account, To: &to, Value: big.NewInt(value)}))(r)
}
