package money

import (
	"cmp"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/btcsuite/btcd/btcutil"
	"github.com/btcsuite/btcd/chaincfg"
	"github.com/caarlos0/env/v11"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"

	"example.com/checkout/deploy/proof/e2e"
	"example.com/checkout/deploy/standin/devstack"
	"example.com/checkout/storage/storagetest/must"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/money"
	"example.com/checkout/workflows/runs"
)

// each pays a session of each currency on test networks, and compares what Stripe, the nodes and the service say.
type each struct {
	*e2e.Merchant

	settings map[string]string // of test mode
	patience time.Duration     // for a transfer to become final
}

// realDefaults are what TestEachCurrency needs beside what a person gives. Few confirmations are final, so that it ends
// soon.
var realDefaults = map[string]string{
	"CHECKOUT_TEST_CARDS": "stripe", "CHECKOUT_TEST_CHAINS": "networks",
	"CHECKOUT_TEST_STRIPE_WEBHOOK_SECRETS": "whsec_none", // no report comes here: the service asks
	"CHECKOUT_TEST_ETHEREUM_CHAIN_ID":      "11155111", "CHECKOUT_TEST_ETHEREUM_CONFIRMATIONS": "3",
	"CHECKOUT_TEST_BITCOIN_NETWORK": "testnet4", "CHECKOUT_TEST_BITCOIN_CONFIRMATIONS": "1",
	"CHECKOUT_TEST_BITCOIN_BATCH_INTERVAL": "5s",
	// Kraken and Coinbase alone have no two prices of USDC in US dollars. Source: docs.chain.link.
	"CHECKOUT_TEST_RATE_CHAINLINK_FEEDS": "BTC/USD=0x1b44F3514812d835EB1BDB0acB33d3fA3351Ee43," +
		"ETH/USD=0x694AA1769357215DE4FAC081bf1f309aDC325306,EUR/USD=0x1a81afB8146aeFfCFc5E50e8479e826E7D55b910," +
		"GBP/USD=0x91FAB41F5f3bE955963a986366edAcff1aaeaa83,USDC/USD=0xA2F78ab2355fe2f984D808B5CeE7FD0A93D5270E",
	"CHECKOUT_TEST_MAX_PAYOUT": "100", "CHECKOUT_TEST_MAX_DAY": "1000", "CHECKOUT_TEST_MERCHANT_MAX_DAY": "1000",
	"CHECKOUT_TEST_MERCHANT_MAX_UNSETTLED": "1000", "CHECKOUT_RECONCILE_INTERVAL": "5s",
}

// realNeeds are the settings that a person gives. Without settings of Bitcoin, payouts in BTC are left out.
var realNeeds = []string{
	"CHECKOUT_TEST_STRIPE_SECRET_KEY", "CHECKOUT_TEST_STRIPE_PUBLISHABLE_KEY", "CHECKOUT_TEST_ETHEREUM_RPC_URLS",
	"CHECKOUT_TEST_ETHEREUM_TREASURY", "CHECKOUT_TEST_ETHEREUM_KEYSTORE",
	"CHECKOUT_TEST_ETHEREUM_KEYSTORE_PASSWORD_FILE", "CHECKOUT_TEST_ETHEREUM_USDC", "CHECKOUT_TEST_ETHEREUM_USDT",
}

// TestEachCurrency pays with Stripe's test mode, on Sepolia and on a test network of Bitcoin: see
// deploy/release/live.md. Without TEST_NETWORKS it pays with the doubles.
func TestEachCurrency(t *testing.T) {
	t.Parallel()
	file := os.Getenv("TEST_NETWORKS")
	if file == "" {
		e2e.OnlyLong(t)
		file = filepath.Join(t.TempDir(), "networks")
		settings := strings.Join(startNetworks(t).environment(), "\n")
		require.NoError(t, os.WriteFile(file, []byte(settings), 0o600))
	}
	text := must.Get(os.ReadFile(file))(t)
	settings := maps.Clone(realDefaults)
	maps.Copy(settings, env.ToMap(strings.Fields(string(text))))
	var missing []string
	for _, name := range realNeeds {
		if settings[name] == "" && settings["CHECKOUT_TEST_SIMULATED"] == "" {
			missing = append(missing, name)
		}
	}
	require.Empty(t, missing, "%s lacks these settings", file)
	p := each{settings: settings, patience: 40 * time.Minute}
	p.Merchant = &e2e.Merchant{T: t}
	p.requireFloat()
	var environment []string
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		environment = append(environment, name+"="+settings[name])
	}
	p.Merchant = e2e.NewMerchant(t, e2e.OwnStack(t, devstack.Options{Env: environment}))
	p.payEach()
}

func (p each) currencies() []money.PayoutCurrency {
	all := []money.PayoutCurrency{money.USDC, money.USDT, money.ETH}
	if p.settings["CHECKOUT_TEST_BITCOIN_RPC_URL"] == "" {
		p.T.Log("BTC is left out: CHECKOUT_TEST_BITCOIN_RPC_URL is not set")
		return all
	}
	return append(all, money.BTC)
}

// requireFloat requires that the treasury can pay, before anything is started.
func (p each) requireFloat() {
	for _, c := range p.currencies() {
		if c == money.BTC {
			var has json.Number
			p.bitcoin(&has, "getbalance", "*", 1)
			require.NotContains(p.T, []string{"0.00000000", "0"}, has.String(),
				"the Bitcoin wallet has no coin with a confirmation: send it some tBTC, in several coins")
			continue
		}
		treasury := p.settings["CHECKOUT_TEST_ETHEREUM_TREASURY"]
		require.NotZero(p.T, p.has(treasury, c).Sign(), "the treasury %s has no %s on this chain: send it some", treasury, c)
	}
}

// payee returns where payouts in a currency go. Nobody has its key, and every run has another one.
func (p each) payee(c money.PayoutCurrency) string {
	key := make([]byte, 20)
	_, _ = rand.Read(key) // it never fails
	if c != money.BTC {
		return common.BytesToAddress(key).Hex()
	}
	params := &chaincfg.TestNet3Params // the addresses of testnet4 and signet are the same
	if p.settings["CHECKOUT_TEST_BITCOIN_NETWORK"] == "regtest" {
		params = &chaincfg.RegressionNetParams
	}
	address := must.Get(btcutil.NewAddressWitnessPubKeyHash(key, params))(p.T)
	return address.EncodeAddress()
}

// payEach pays the sessions, and then follows each payment to its end. What differs fails the test; the rest of the
// comparisons go on.
func (p each) payEach() {
	payees, sessions := map[money.PayoutCurrency]string{}, map[money.PayoutCurrency]string{}
	for _, c := range p.currencies() {
		payees[c] = p.payee(c)
	}
	live{p.Merchant}.payTo(payees)
	for _, c := range p.currencies() {
		sessions[c] = p.sells(c)
	}
	for _, c := range p.currencies() {
		p.AwaitStatus(sessions[c], checkout.StatusCompleted, time.Minute)
		p.compareCharge(sessions[c], c)
	}
	for _, c := range p.currencies() {
		p.comparePayout(sessions[c], c, payees[c])
	}
	p.compareBooks(sessions)
}

// sells creates a session and pays it with a card of Stripe's tests.
func (p each) sells(c money.PayoutCurrency) (id string) {
	e2e.Await(p.T, "a session is created: a rate and a price of the network are there", time.Minute, func() bool {
		got, err := p.Call(http.MethodPost, "/v1/checkout", terms(c))
		if err != nil || got.Status != http.StatusCreated {
			p.T.Logf("%s: %s", c, got.Body)
			time.Sleep(time.Second)
			return false
		}
		id, _ = got.Field("id").(string)
		return true
	})
	token := p.stripe(http.MethodPost, "/v1/test_helpers/confirmation_tokens", url.Values{"payment_method": {"pm_card_visa"}})
	(live{p.Merchant}).send(id, url.Values{
		"email": {"ann@example.com"}, "confirmation_token": {fmt.Sprint(token["id"])}})
	return id
}

func (p each) compareCharge(id string, c money.PayoutCurrency) {
	reference := e2e.Query[string](p.T, p.Stack, `
		SELECT acquirer_ref FROM transaction WHERE session_id = $1 AND status = 'succeeded'`, id)
	intent := p.stripe(http.MethodGet, "/v1/payment_intents/"+reference, nil)
	p.T.Logf("%s: %s was charged by %s", c, id, reference)
	for field, want := range map[string]any{
		"status": "succeeded", "amount": 1050.0, "amount_received": 1050.0, "currency": "eur", "livemode": false,
		"confirmation_method": "manual",
	} {
		assert.Equal(p.T, want, intent[field], "%s: %s of %s at Stripe", c, field, reference)
	}
}

// comparePayout waits until the payout is final, and compares it with what the payee has on the chain.
func (p each) comparePayout(id string, c money.PayoutCurrency, payee string) {
	e2e.Await(p.T, fmt.Sprintf("the payout of %s in %s is final", id, c), p.patience, func() bool {
		time.Sleep(500 * time.Millisecond)
		return p.Session(id).Field("payout.confirmed_at") != nil
	})
	s := p.Session(id)
	amount, hash := fmt.Sprint(s.Field("payout.amount")), fmt.Sprint(s.Field("payout.tx_hash"))
	p.T.Logf("%s: %s paid %s to %s by %s, less %v for the network", c, id, amount, payee, hash, s.Field("payout.fee"))
	want := must.Get(money.ParseCrypto(amount, c))(p.T)
	assert.Zero(p.T, want.Units().Cmp(p.received(c, hash, payee)), "%s: %s has another amount on the chain", c, payee)
}

// compareBooks compares what the charges cost at Stripe with the ledger, which has no sum that differs.
func (p each) compareBooks(sessions map[money.PayoutCurrency]string) {
	books := e2e.TemporalClient(p.T, p.Stack).ScheduleClient().GetHandle(p.T.Context(), runs.ScheduleBooks+"-test")
	for c, id := range sessions {
		reference := e2e.Query[string](p.T, p.Stack, `
			SELECT acquirer_ref FROM transaction WHERE session_id = $1 AND status = 'succeeded'`, id)
		intent := p.stripe(http.MethodGet, "/v1/payment_intents/"+reference+"?expand[]=latest_charge.balance_transaction", nil)
		charge, _ := intent["latest_charge"].(map[string]any)
		booked, _ := charge["balance_transaction"].(map[string]any)
		var cost int64
		e2e.Await(p.T, "the cost of "+id+" is booked", 2*time.Minute, func() bool {
			_ = books.Trigger(p.T.Context(), client.ScheduleTriggerOptions{}) // the next look triggers it again
			time.Sleep(time.Second)
			cost = e2e.Query[int64](p.T, p.Stack, `
				SELECT coalesce(sum(p.amount), -1)::bigint FROM ledger_posting p JOIN ledger_entry e ON e.id = p.entry_id
				JOIN transaction t ON t.id = e.subject WHERE p.account = 'expense:acquirer' AND t.session_id = $1`, id)
			return cost >= 0
		})
		p.T.Logf("%s: %s cost %v %v at Stripe", c, reference, booked["fee"], booked["currency"])
		assert.EqualValues(p.T, booked["fee"], cost, "%s: what Stripe took, and what the ledger has", reference)
	}
	findings := e2e.Query[[]string](p.T, p.Stack, `SELECT coalesce(array_agg(kind || ': ' || detail), '{}') FROM finding`)
	assert.Empty(p.T, findings, "the service found these by itself")
}

// stripe asks Stripe past the service.
func (p each) stripe(method, path string, form url.Values) map[string]any {
	at := cmp.Or(p.settings["CHECKOUT_TEST_STRIPE_API_URL"], "https://api.stripe.com")
	var got map[string]any
	p.ask(&got, method, at+path, form.Encode(),
		"Authorization", "Bearer "+p.settings["CHECKOUT_TEST_STRIPE_SECRET_KEY"], "Content-Type", "application/x-www-form-urlencoded")
	return got
}

// has returns what an address has on Ethereum, in the currency's smallest unit.
func (p each) has(address string, c money.PayoutCurrency) *big.Int {
	var got hexutil.Big
	node, _, _ := strings.Cut(p.settings["CHECKOUT_TEST_ETHEREUM_RPC_URLS"], ",")
	if c == money.ETH {
		p.rpc(node, "", &got, "eth_getBalance", address, "latest")
		return got.ToInt()
	}
	var word hexutil.Bytes // hexutil.Big takes no leading zero
	call := map[string]any{
		"to":   p.settings["CHECKOUT_TEST_ETHEREUM_"+string(c)],
		"data": "0x70a08231" + strings.Repeat("0", 24) + strings.ToLower(strings.TrimPrefix(address, "0x")), // balanceOf
	}
	p.rpc(node, "", &word, "eth_call", call, "latest")
	return new(big.Int).SetBytes(word)
}

// received returns what a payee has, in the currency's smallest unit: on Bitcoin of a transaction of the treasury's
// wallet.
func (p each) received(c money.PayoutCurrency, txHash, address string) *big.Int {
	if c != money.BTC {
		return p.has(address, c)
	}
	var tx struct {
		Decoded struct {
			Out []struct {
				Value  json.Number `json:"value"`
				Script struct {
					Address string `json:"address"`
				} `json:"scriptPubKey"`
			} `json:"vout"`
		} `json:"decoded"`
	}
	p.bitcoin(&tx, "gettransaction", txHash, true, true)
	sum := new(big.Int)
	for _, out := range tx.Decoded.Out {
		if out.Script.Address == address {
			paid := must.Get(money.ParseUnits(out.Value.String(), money.BTC.Places()))(p.T)
			sum.Add(sum, paid)
		}
	}
	return sum
}

func (p each) bitcoin(result any, method string, params ...any) {
	password := must.Get(os.ReadFile(p.settings["CHECKOUT_TEST_BITCOIN_RPC_PASSWORD_FILE"]))(p.T)
	wallet := cmp.Or(p.settings["CHECKOUT_TEST_BITCOIN_WALLET"], "treasury")
	node := strings.TrimSuffix(p.settings["CHECKOUT_TEST_BITCOIN_RPC_URL"], "/") + "/wallet/" + wallet
	p.rpc(node, strings.TrimSpace(string(password)), result, method, params...)
}

// rpc asks a node of either kind. The user is in the URL.
func (p each) rpc(node, password string, result any, method string, params ...any) {
	question := must.Get(json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": method, "params": params}))(p.T)
	at, err := url.Parse(node)
	require.True(p.T, err == nil, "the node's address cannot be read")
	header := []string{"Content-Type", "application/json"}
	if user := at.User; user != nil {
		secret, _ := user.Password()
		pair := user.Username() + ":" + cmp.Or(password, secret)
		header = append(header, "Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(pair)))
	}
	var got struct {
		Result json.RawMessage
		Error  any
	}
	p.ask(&got, http.MethodPost, node, string(question), header...)
	require.Nil(p.T, got.Error, method)
	require.NoError(p.T, json.Unmarshal(got.Result, result), method)
}

// ask sends a request and reads its JSON. No message shows the address, which may have a key in it.
func (p each) ask(answer any, method, address, body string, header ...string) {
	got, err := e2e.Try(method, address, body, header...)
	require.True(p.T, err == nil, "no answer")
	require.Equal(p.T, http.StatusOK, got.Status, string(got.Body))
	require.NoError(p.T, json.Unmarshal(got.Body, answer))
}
