package bitcoin

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/checkout/activities/jsonrpc"
	"example.com/checkout/deploy/standin/chains"
	"example.com/checkout/storage/storagetest/must"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/money"
	"example.com/checkout/workflows/treasury"
)

// TestOpen_SaysWhatIsWrong without the URL or the password.
func TestOpen_SaysWhatIsWrong(t *testing.T) {
	r := newRig(t)
	for name, c := range map[string]struct {
		change func(*Options)
		want   string
		later  bool // it may be ready later
	}{
		"network":     {func(o *Options) { o.Network = "main" }, "its network is regtest, not main", false},
		"shallow":     {func(o *Options) { o.Network, o.Confirmations = "main", 2 }, "fewer than 3 confirmations", false},
		"no network":  {func(o *Options) { o.Network = "mainnet" }, "must be one of main, test, testnet4, signet, regtest", false},
		"password":    {func(o *Options) { o.RPCPassword = "secret" }, "refuses the user or the password", false},
		"no password": {func(o *Options) { o.RPCPassword = "" }, "the password file a password", false},
		"wallet":      {func(o *Options) { o.Wallet = "none" }, "refused (-18)", false},
		"not there":   {func(o *Options) { o.RPCURL = "http://user@127.0.0.1:1" }, "connection refused", true},
		"in the URL":  {func(o *Options) { o.RPCURL = "http://user:hidden@127.0.0.1:1" }, "must be in its file", false},
		"no URL":      {func(o *Options) { o.RPCURL = "user:hidden@127.0.0.1" }, "not an http or https URL", false},
	} {
		o := r.options
		c.change(&o)
		_, err := Open(t.Context(), o)
		require.ErrorContains(t, err, c.want, name)
		require.Equal(t, c.later, strings.Contains(err.Error(), jsonrpc.ErrNotReady.Error()), name)
		for _, secret := range []string{"127.0.0.1", r.node.Password, "hidden", "secret"} {
			require.NotContains(t, err.Error(), secret, name)
		}
	}
}

// It answers every call with the same error, also calls that it would refuse for good.
func TestOpen_AStartingNodeIsNotReady(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var asked []map[string]any
		_ = json.NewDecoder(r.Body).Decode(&asked)
		for _, question := range asked {
			question["error"] = map[string]any{"code": -28, "message": "Loading wallet…"}
		}
		_ = json.NewEncoder(w).Encode(asked) // the client may be gone
	}))
	t.Cleanup(server.Close)
	n := must.Get(dial("node", strings.Replace(server.URL, "//", "//user@", 1), "password", ""))(t)
	var unknown *jsonrpc.Refusal
	require.ErrorIs(t, n.Ask(t.Context(), jsonrpc.Ask(nil, "gettransaction", "aa").In(&unknown), jsonrpc.Ask(nil, "getblockcount")), jsonrpc.ErrNotReady)
	require.Nil(t, unknown)
	_, err := Open(t.Context(), Options{Network: "regtest", RPCURL: "http://user@" + server.Listener.Addr().String(),
		RPCPassword: "password"})
	require.ErrorIs(t, err, jsonrpc.ErrNotReady)
}

// A node without peers shows an old chain.
func TestOpen_AnOldHeadIsNotReady(t *testing.T) {
	t.Parallel()
	ago := time.Now().Add(-3 * time.Hour).Unix()
	node := chains.BitcoinForTest(t, chains.BitcoinOptions{Args: []string{"-mocktime=" + strconv.FormatInt(ago, 10)}})
	require.NoError(t, must.Err(node.Mine(t.Context(), 1)))
	o := Options{Network: "regtest", RPCURL: "http://" + node.User + "@" + strings.TrimPrefix(node.URL, "http://"),
		RPCPassword: node.Password, MaxHeadAge: 2 * time.Hour}
	_, err := Open(t.Context(), o)
	require.ErrorIs(t, err, jsonrpc.ErrNotReady)
	require.ErrorContains(t, err, "its last block is 3h0m")
	o.MaxHeadAge = 4 * time.Hour
	require.NoError(t, must.Err(Open(t.Context(), o)))
}

func TestOpen_ALockedWalletIsNotReady(t *testing.T) {
	r := newRig(t, "1")
	r.call(wallet, nil, "encryptwallet", "a passphrase")
	require.ErrorIs(t, must.Err(Open(t.Context(), r.options)), jsonrpc.ErrNotReady)
	r.call(wallet, nil, "walletpassphrase", "a passphrase", 600)
	r.signed(r.open(), "0.1")
}

// TestOpen_WithoutAWallet prices transfers, and needs calls only that move nothing.
func TestOpen_WithoutAWallet(t *testing.T) {
	r := newRig(t, "1")
	c := r.open(func(o *Options) { o.Wallet, o.Signs = "", false })
	r.market.Set("0.00010000")
	fee := must.Get(c.TransferFee(t.Context(), money.BTC))(t)
	require.Equal(t, "0.00001530", fee.String())
	plan := r.planned(r.open(), "0.1")
	require.Equal(t, -1, plan.Fee.Cmp(fee), "an output of the largest kind costs more")
	require.ErrorContains(t, must.Err(c.Sign(t.Context(), plan)), "no signer")
	require.Error(t, must.Err(c.TransferFee(t.Context(), money.ETH)))
}

// The node only watches and keeps few blocks, and another node without the chain signs.
func TestSigner_HasTheKeys(t *testing.T) {
	r := newRig(t)
	vault := chains.BitcoinForTest(t, chains.BitcoinOptions{})
	require.NoError(t, vault.Call(t.Context(), "", nil, "createwallet", "watched", false, false, "", false, true, true))
	var public struct {
		Descriptors []map[string]any `json:"descriptors"`
	}
	require.NoError(t, vault.Call(t.Context(), "watched", &public, "listdescriptors"))
	r.makeWallet("watched", true)
	r.call("watched", nil, "importdescriptors", public.Descriptors)
	require.NoError(t, must.Err(r.node.Fund(t.Context(), "watched", "1")))
	r.mine(6)

	watch := func(o *Options) { o.Wallet = "watched" }
	o := r.options
	watch(&o)
	require.ErrorContains(t, must.Err(Open(t.Context(), o)), "the wallet has no keys: set a signer")
	c := r.open(watch, func(o *Options) {
		o.SignerURL, o.SignerPassword = "http://"+vault.User+"@"+strings.TrimPrefix(vault.URL, "http://"), vault.Password
	})
	v := r.sent(c, "0.5")
	r.mine(6)
	r.sees(c, treasury.TransferStateConfirmed, v)
	require.Equal(t, [2]string{btc("1").Sub(v.Outputs[0].Amount).Sub(v.MaxCost).String(),
		btc("1").Sub(v.Outputs[0].Amount).Sub(v.MaxCost).String()}, r.has(c))

	// Somebody who controls only the node that watches wants the change.
	stolen := r.payee("bech32")
	var descriptor struct{ Descriptor string }
	r.call("", &descriptor, "getdescriptorinfo", "addr("+stolen+")")
	r.call("watched", nil, "importdescriptors", []map[string]any{{"desc": descriptor.Descriptor, "timestamp": "now"}})
	plan := r.planned(c, "0.1")
	forged := r.terms(plan)
	forged.Change[0].Address = stolen
	terms := must.Get(forged.encode())(t)
	plan.Terms = terms
	require.ErrorContains(t, must.Err(c.Sign(t.Context(), plan)), "the change would leave its wallet: "+stolen)

	// A wallet knows 1,000 addresses ahead. The one of the signer gives none out.
	for range 1_001 {
		r.call("watched", nil, "getrawchangeaddress", "bech32")
	}
	r.sign(c, r.planned(c, "0.1"))

	stranger := chains.BitcoinForTest(t, chains.BitcoinOptions{})
	require.NoError(t, stranger.Call(t.Context(), "", nil, "createwallet", "watched", false, false, "", false, true, true))
	o.SignerURL = "http://" + stranger.User + "@" + strings.TrimPrefix(stranger.URL, "http://")
	o.SignerPassword = stranger.Password
	require.ErrorContains(t, must.Err(Open(t.Context(), o)), "does not have the treasury's address")
}

// The signer changes an output or an input, or signs nothing.
func TestSign_RefusesWhatTheSignerChanged(t *testing.T) {
	r := newRig(t, "1", "1")
	c := r.open()
	plan := r.planned(c, "0.1")
	terms := r.terms(plan)
	want := must.Get(c.transaction(plan, terms))(t)
	signed := must.Get(parse(r.sign(c, plan).Raw))(t)
	for name, change := range map[string]func(){
		"output":   func() { signed.TxOut[0].Value++ },
		"payee":    func() { signed.TxOut[0].PkScript[5]++ },
		"sequence": func() { signed.TxIn[0].Sequence++ },
		"coin":     func() { signed.TxIn[0].PreviousOutPoint.Index++ },
		"lock":     func() { signed.LockTime++ },
		"witness":  func() { signed.TxIn[0].Witness = nil },
		"more":     func() { signed.AddTxOut(signed.TxOut[0]) },
	} {
		signed = must.Get(parse(r.sign(c, plan).Raw))(t)
		require.NoError(t, checkSigned(bytesOf(t, signed), want))
		change()
		require.Error(t, checkSigned(bytesOf(t, signed), want), name)
	}

	terms.Change[0].Address = r.payee("bech32")
	plan.Terms = must.Get(terms.encode())(t)
	require.ErrorContains(t, must.Err(c.Sign(t.Context(), plan)), "would leave the wallet")
}

func TestCheck_OfTheRightNetworkAndNotOurs(t *testing.T) {
	r := newRig(t)
	c := r.open()
	var own string
	r.call(wallet, &own, "getnewaddress")
	for address, want := range map[string]checkout.PayoutFailure{
		r.payee("bech32"): "", strings.ToUpper(r.payee("bech32m")): "", r.payee("legacy"): "",
		own: checkout.PayoutInvalidAddress, strings.ToUpper(own): checkout.PayoutInvalidAddress,
		c.Account().Address:                          checkout.PayoutInvalidAddress,
		"bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4": checkout.PayoutInvalidAddress,
		"0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed": checkout.PayoutInvalidAddress,
	} {
		require.Equal(t, want, must.Get(c.Check(t.Context(), money.BTC, address))(t), address)
	}
	require.Equal(t, "bip122:0f9188f13cb7b2c71f2a335e3a4fc328", c.Account().ChainID)
	require.Equal(t, "bip122:000000000019d6689c085ae165831e93", ChainName("main"))
}
