package ethereum

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/accounts/keystore"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/stretchr/testify/require"

	"example.com/checkout/activities/jsonrpc"
	"example.com/checkout/deploy/standin/chains"
	"example.com/checkout/storage/storagetest/must"
	"example.com/checkout/workflows/money"
	"example.com/checkout/workflows/treasury"
)

func TestOpen_RefusesWrongSettings(t *testing.T) {
	t.Parallel()
	good := Options{
		RPCURLs: []string{"http://127.0.0.1:1"}, ChainID: 1, Treasury: "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed",
		Tokens:     map[money.PayoutCurrency]string{money.USDC: "0xfB6916095ca1df60bB79Ce92cE3Ea74c37c5d359"},
		MaxFeeGwei: 200, Confirmations: "finalized",
	}
	require.NoError(t, must.Err(newChain(good)))
	for want, change := range map[string]func(*Options){
		"there must be one or two nodes, not 0":                         func(o *Options) { o.RPCURLs = nil },
		"there must be one or two nodes, not 3":                         func(o *Options) { o.RPCURLs = []string{"http://a", "http://b", "http://c"} },
		"node 1: its address is not an http or https URL":               func(o *Options) { o.RPCURLs = []string{"wss://mainnet.example/key"} },
		"node 2: its address is not an http or https URL":               func(o *Options) { o.RPCURLs = append(o.RPCURLs, "http://%zz") },
		"the treasury's address must be 0x and 40 hexadecimal digits":   func(o *Options) { o.Treasury = "5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed" },
		"the treasury's address has a checksum":                         func(o *Options) { o.Treasury = "0x5AAeb6053F3E94C9b9A09f33669435E7Ef1BeAed" },
		"the treasury's address is below 0x10000":                       func(o *Options) { o.Treasury = "0x0000000000000000000000000000000000000000" },
		"the address of the token USDT must be 0x":                      func(o *Options) { o.Tokens = map[money.PayoutCurrency]string{money.USDT: ""} },
		"BTC is not a token of Ethereum":                                func(o *Options) { o.Tokens = map[money.PayoutCurrency]string{money.BTC: o.Treasury} },
		"ETH is not a token of Ethereum":                                func(o *Options) { o.Tokens = map[money.PayoutCurrency]string{money.ETH: o.Treasury} },
		"the highest price of gas must be above 0 gwei":                 func(o *Options) { o.MaxFeeGwei = 0 },
		"the fee for a stuck transfer must be a decimal number of ETH":  func(o *Options) { o.StuckFee = "-1" },
		`the number of confirmations must be "finalized" or a whole`:    func(o *Options) { o.Confirmations = "0" },
		`number of confirmations must be "finalized" or a whole number`: func(o *Options) { o.Confirmations = "latest" },
	} {
		o := good
		change(&o)
		_, err := Open(t.Context(), o)
		require.ErrorContains(t, err, "ethereum: ")
		require.ErrorContains(t, err, want)
		require.NotErrorIs(t, err, jsonrpc.ErrNotReady)
	}
}

func TestOpen_ChecksTheNodeTheTokensAndTheKey(t *testing.T) {
	r := newRig(t, chains.Options{})
	liar := r.deploy("Liar") // a token with 18 decimals
	require.Equal(t, treasury.Account{Network: "ethereum", ChainID: "eip155:31337", Address: r.key.account.Hex()},
		r.open().Account())
	other := must.Get(crypto.GenerateKey())(t)

	for want, change := range map[string]func(*Options){
		"the address of the sanctions oracle must be 0x":          func(o *Options) { o.SanctionsOracle = "0x1" },
		"node 1: the sanctions oracle gives no answer":            func(o *Options) { o.SanctionsOracle = r.payee() },
		"the sanctions oracle gives no answer":                    func(o *Options) { o.SanctionsOracle = r.market.USDC.Hex() },
		"node 1: its chain id is 31337, not 1":                    func(o *Options) { o.ChainID = 1 },
		"the token at the address of USDC has 18 decimals, not 6": func(o *Options) { o.Tokens = map[money.PayoutCurrency]string{money.USDC: liar.Hex()} },
		"at the address of USDT is no token":                      func(o *Options) { o.Tokens = map[money.PayoutCurrency]string{money.USDT: o.Treasury} },
		"the signer has no key for the treasury's address " + r.key.account.Hex(): func(o *Options) {
			o.Signer = &Keystore{crypto.PubkeyToAddress(other.PublicKey), other}
		},
	} {
		o := r.options
		change(&o)
		_, err := Open(t.Context(), o)
		require.ErrorContains(t, err, want)
		require.NotErrorIs(t, err, jsonrpc.ErrNotReady, "waiting does not help")
	}
}

// A node that is syncing, behind or unreachable may recover, so its error is jsonrpc.ErrNotReady, also after Open.
func TestOpen_WaitsForANodeThatIsNotReady(t *testing.T) {
	r := newRig(t, chains.Options{})
	p := proxyTo(t, r.anvil.URL)
	r.options.RPCURLs = []string{p.URL}
	r.options.MaxHeadAge = time.Minute
	r.mine(1) // a block of now
	opened := r.open()
	v := r.signed(opened, money.USDC, "100", 0)

	for want, l := range map[string]lie{
		"it is syncing": on("eth_syncing", map[string]string{"currentBlock": "0x1", "highestBlock": "0x2"}),
		"its last block is 1h1m": onFirst("eth_getBlockByNumber", "latest", edit(func(truth json.RawMessage) any {
			return edited(truth, map[string]any{"timestamp": hexutil.Uint64(time.Now().Add(-61 * time.Minute).Unix())})
		})),
		"it has no finalized block": onFirst("eth_getBlockByNumber", "finalized", null),
	} {
		p.tell(l)
		_, err := Open(t.Context(), r.options)
		require.ErrorIs(t, err, jsonrpc.ErrNotReady)
		require.ErrorContains(t, err, want)
		require.ErrorContains(t, r.lookError(opened, v), want)
		require.ErrorContains(t, must.Err(opened.Check(t.Context(), money.USDC, r.payee())), want)
		require.ErrorContains(t, r.planError(opened, request(money.USDC, r.payee(), "100")), want)
		require.ErrorContains(t, must.Err(opened.Snapshot(t.Context())), want)
		require.ErrorContains(t, must.Err(opened.Outflows(t.Context(), 0, anyBlock)), want)
	}
}

// The same chain id proves nothing.
func TestOpen_RefusesNodesOnDifferentChains(t *testing.T) {
	r := newRig(t, chains.Options{})
	fork := proxyTo(t, r.anvil.URL)
	r.options.RPCURLs = []string{r.anvil.URL, fork.URL}
	opened := r.open()

	elsewhere := common.HexToHash("0xf0")
	fork.tell(onFirst("eth_getBlockByNumber", "0x0", with(map[string]any{"hash": elsewhere})))
	_, err := Open(t.Context(), r.options)
	require.ErrorIs(t, err, ErrWitnessesDisagree)
	require.ErrorContains(t, err, "their first blocks differ")

	fork.tell(onFirst("eth_getBlockByNumber", "finalized", with(map[string]any{"hash": elsewhere})))
	_, err = opened.Snapshot(t.Context())
	require.ErrorIs(t, err, ErrWitnessesDisagree)
	require.ErrorContains(t, err, "their final blocks at height")

	// The second node lags by a block of the other fork: heights are compared where both have one.
	fork.tell(onFirst("eth_getBlockByNumber", "finalized", with(map[string]any{"hash": elsewhere, "number": "0x1"})))
	require.ErrorIs(t, must.Err(opened.Snapshot(t.Context())), ErrWitnessesDisagree)
}

// Providers put keys into the user, the path and the query of an address.
func TestErrors_NeverHoldTheURL(t *testing.T) {
	t.Parallel()
	secrets := []string{"hunter22", "pathkey123", "querykey456", "Acme & Sons"}
	at := func(address string) string {
		return strings.Replace(address, "http://", "http://user:hunter22@", 1) + "/v3/pathkey123?token=querykey456"
	}
	answer := func(h http.HandlerFunc) string {
		server := httptest.NewServer(h)
		t.Cleanup(server.Close)
		return server.URL
	}
	for name, address := range map[string]string{
		"nobody listens": "http://127.0.0.1:1",
		"no such host":   "http://hunter22.invalid",
		"status": answer(func(w http.ResponseWriter, r *http.Request) {
			http.Error(w, "no access for Acme & Sons: "+r.URL.String(), http.StatusUnauthorized)
		}),
		"refusal": answer(func(w http.ResponseWriter, r *http.Request) {
			_, _ = w.Write([]byte(`{"jsonrpc": "2.0", "id": 1, "error": {"code": -32005, "message": "` + r.URL.String() + ` is over its limit"}}`))
		}),
		"redirect": answer(func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://127.0.0.1:1/pathkey123", http.StatusTemporaryRedirect)
		}),
		"no JSON": answer(func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write([]byte(r.URL.String())) }),
	} {
		n := must.Get(jsonrpc.Dial("node 1", at(address), jsonrpc.Options{}))(t)
		var id hexutil.Uint64
		for _, err := range []error{n.Call(t.Context(), &id, "eth_chainId"), n.Ask(t.Context(), jsonrpc.Ask(&id, "eth_chainId"))} {
			require.Error(t, err, name)
			for ; err != nil; err = errors.Unwrap(err) {
				for _, secret := range append(secrets, strings.TrimPrefix(address, "http://")) {
					require.NotContains(t, err.Error(), secret, name)
				}
			}
		}
	}
	for _, wrong := range []string{"ftp://pathkey123", "http://a b/pathkey123", "://pathkey123", "http:///pathkey123"} {
		_, err := jsonrpc.Dial("node 1", wrong, jsonrpc.Options{})
		require.Error(t, err)
		require.NotContains(t, err.Error(), "pathkey123")
	}
}

func TestOpenKeystore_NeedsThePassword(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	account := must.Get(keystore.NewKeyStore(dir, keystore.LightScryptN, keystore.LightScryptP).NewAccount("correct horse"))(t)
	key := must.Get(OpenKeystore(account.URL.Path, "correct horse"))(t)
	require.Equal(t, []common.Address{account.Address}, must.Get(key.Accounts(t.Context()))(t))

	_, err := OpenKeystore(account.URL.Path, "battery staple")
	require.ErrorContains(t, err, "the password is wrong")
	require.NotContains(t, err.Error(), "battery")
	other := filepath.Join(dir, "other")
	require.NoError(t, os.WriteFile(other, []byte(`{"version": 1}`), 0o600))
	require.ErrorContains(t, must.Err(OpenKeystore(other, "correct horse")), "is not a key file of version 3")
	require.ErrorIs(t, must.Err(OpenKeystore(filepath.Join(dir, "none"), "x")), os.ErrNotExist)
}
