package devstack

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/big"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"

	"example.com/checkout/deploy/standin/acquirer"
	"example.com/checkout/deploy/standin/chains"
	"example.com/checkout/deploy/standin/ticker"
	"example.com/checkout/workflows/money"
)

// LiveDouble simulates everything that live mode needs: the card network, a chain with tokens, price feeds and a funded
// treasury, and the sources of prices. Nothing is real, and everything is on loopback.
type LiveDouble struct {
	Acquirer *acquirer.Acquirer
	Anvil    *chains.Anvil
	Market   chains.Market
	Bitcoin  *chains.Bitcoin // nil without Options.Bitcoin, or without Debian's package
	// WebhookSecret signs the reports of the card network.
	WebhookSecret string

	bitcoinPassword string // the file with it
	float           int64  // see Options.Float
	prices          *httptest.Server
}

// Accounts of the chain. Account 0 deploys the contracts.
const (
	treasuryAccount = 1
	merchantAccount = 2
	fundingAccount  = 3
)

const acquirerDatabase = "acquirer"

// chainFile keeps the chain between starts.
const chainFile = "chain.json"

// startLiveDouble starts the simulation before the worker and the API.
func (s *Stack) startLiveDouble(ctx context.Context) (err error) {
	if !s.options.LiveDouble {
		return nil
	}
	if s.Postgres == nil {
		return errors.New("-live-double needs the stack's own PostgreSQL: unset DATABASE_URL")
	}
	d := &LiveDouble{WebhookSecret: "whsec_" + s.Demo.Password, float: s.options.Float}
	s.Live = d
	if err := s.Postgres.CreateDatabase(ctx, acquirerDatabase, ""); err != nil {
		return err
	}
	d.prices = httptest.NewServer(ticker.New())
	// Final is what has four blocks on top: a reorganization of three blocks undoes nothing final.
	d.Anvil, err = chains.StartAnvil(ctx, chains.Options{
		StateFile: filepath.Join(s.options.Dir, chainFile), BlockTime: time.Second, Epoch: 2, Port: s.options.Ports.Ethereum,
	})
	if err != nil {
		return err
	}
	if err := d.fundTreasury(ctx); err != nil {
		return err
	}
	if err := s.startBitcoin(ctx, d); err != nil {
		return err
	}
	card := acquirer.Options{
		DatabaseURL: s.url(acquirerDatabase), Livemode: true, SecretKey: AcquirerKey,
		Webhooks: acquirer.Webhooks{
			URL: s.APIURL() + "/acquirers/stripe/events", Secret: d.WebhookSecret, Copies: 3, Spread: 2 * time.Second,
		},
	}
	if port := s.options.Ports.Acquirer; port != 0 {
		card.APIAddress = loopback(port)
	}
	d.Acquirer, err = acquirer.Start(ctx, card)
	return err
}

// AcquirerKey is the secret key of the simulated card network. It is taken by the double only.
const AcquirerKey = "sk_test_simulated"

// plenty is a float in US dollars that no local run uses up.
const plenty = 1_000_000

// fundTreasury deploys the contracts and funds the treasury once.
func (d *LiveDouble) fundTreasury(ctx context.Context) (err error) {
	if d.Market, err = d.Anvil.DeployMarket(ctx); err != nil {
		return err
	}
	dollars := cmp.Or(d.float, plenty)
	for c := range d.Market.Tokens() {
		has, err := d.TreasuryBalance(ctx, c)
		if err != nil {
			return err
		}
		if has.Sign() > 0 {
			return nil // funded at an earlier start
		}
		if err := d.Fund(ctx, c, dollars); err != nil {
			return err
		}
	}
	if d.float == 0 {
		return nil // every account of a new chain has 10,000 ether
	}
	return d.Anvil.SetBalance(ctx, d.Treasury(), units(money.ETH, dollars))
}

// Fund gives the treasury more of a currency, in US dollars. Ether comes from an account of the chain.
// It returns when the transaction is in a block, which a reorganization may still remove on Ethereum.
func (d *LiveDouble) Fund(ctx context.Context, c money.PayoutCurrency, dollars int64) error {
	switch {
	case c == money.BTC:
		return d.fundBitcoin(ctx, dollars)
	case c != money.ETH:
		return d.Anvil.Fund(ctx, string(c), d.Market.Tokens()[c], d.Treasury(), units(c, dollars))
	}
	from, to := d.Anvil.Accounts[fundingAccount], d.Treasury()
	hash, err := d.Anvil.Send(ctx, chains.Transaction{From: from, To: &to, Value: units(c, dollars)})
	if err == nil {
		_, err = d.Anvil.Receipt(ctx, hash)
	}
	return err
}

// units returns an amount of US dollars in the currency's smallest unit.
func units(c money.PayoutCurrency, dollars int64) *big.Int { return amountOf(c, dollars).Units() }

func amountOf(c money.PayoutCurrency, dollars int64) money.Crypto {
	price, _ := new(big.Rat).SetString(c.TestPrice())
	return money.FloorCrypto(price.Quo(big.NewRat(dollars, 1), price), c)
}

// Treasury is the account that pays.
func (d *LiveDouble) Treasury() common.Address { return d.Anvil.Accounts[treasuryAccount] }

// payoutAddress is where the demo merchant gets its live payouts in a currency, "" when none is paid out.
func (d *LiveDouble) payoutAddress(ctx context.Context, c money.PayoutCurrency) (address string, err error) {
	switch {
	case c.Network() == money.Ethereum:
		return d.Anvil.Accounts[merchantAccount].Hex(), nil
	case d.Bitcoin == nil:
		return "", nil
	}
	err = d.Bitcoin.Call(ctx, merchantWallet, &address, "getnewaddress", "", "bech32m")
	return address, err
}

// environment returns the settings of live mode for a command, "api" or "worker".
func (d *LiveDouble) environment(command string) []string {
	if d == nil {
		return nil
	}
	env := []string{
		"CHECKOUT_LIVE_SIMULATED=true",
		"CHECKOUT_STRIPE_API_URL=" + d.Acquirer.APIURL(),
		"CHECKOUT_STRIPE_JS_URL=" + d.Acquirer.ScriptURL(),
		"CHECKOUT_ETHEREUM_RPC_URLS=" + d.Anvil.URL,
		"CHECKOUT_ETHEREUM_CHAIN_ID=" + strconv.FormatUint(chains.ChainID, 10),
		"CHECKOUT_ETHEREUM_TREASURY=" + d.Treasury().Hex(),
		"CHECKOUT_RATE_KRAKEN_URL=" + d.prices.URL,
		"CHECKOUT_RATE_COINBASE_URL=" + d.prices.URL,
		"CHECKOUT_RATE_CHAINLINK_FEEDS=" + d.feeds(),
		"CHECKOUT_LIVE_MAX_PAYOUT=10000", "CHECKOUT_LIVE_MAX_DAY=1000000", "CHECKOUT_LIVE_MERCHANT_MAX_DAY=1000000",
		"CHECKOUT_LIVE_MERCHANT_MAX_UNSETTLED=1000000",
	}
	for c, token := range d.Market.Tokens() {
		env = append(env, fmt.Sprintf("CHECKOUT_ETHEREUM_%s=%s", c, token.Hex()))
	}
	env = append(env, d.bitcoinEnvironment()...)
	switch command {
	case "api":
		env = append(env,
			"CHECKOUT_STRIPE_PUBLISHABLE_KEY=pk_test_simulated", "CHECKOUT_STRIPE_WEBHOOK_SECRETS="+d.WebhookSecret,
		)
	case "worker":
		env = append(env, "CHECKOUT_STRIPE_SECRET_KEY="+AcquirerKey, "CHECKOUT_ETHEREUM_SIGNER_URL="+d.Anvil.URL)
	}
	return env
}

// feeds writes the price feeds as the setting has them.
func (d *LiveDouble) feeds() string {
	var all []string
	for description, at := range d.Market.Feeds {
		all = append(all, strings.ReplaceAll(description, " ", "")+"="+at.Hex())
	}
	slices.Sort(all)
	return strings.Join(all, ",")
}

// Balance returns what the demo merchant has on the chain, in the currency's smallest unit.
func (d *LiveDouble) Balance(ctx context.Context, c money.PayoutCurrency) (*big.Int, error) {
	if c == money.BTC {
		return d.bitcoins(ctx, merchantWallet)
	}
	return d.BalanceOf(ctx, d.Anvil.Accounts[merchantAccount].Hex(), c)
}

// TreasuryBalance returns what the treasury has in blocks, in the currency's smallest unit.
func (d *LiveDouble) TreasuryBalance(ctx context.Context, c money.PayoutCurrency) (*big.Int, error) {
	if c == money.BTC {
		return d.bitcoins(ctx, TreasuryWallet)
	}
	return d.BalanceOf(ctx, d.Treasury().Hex(), c)
}

// BalanceOf returns what an address has in blocks, in the currency's smallest unit.
func (d *LiveDouble) BalanceOf(ctx context.Context, address string, c money.PayoutCurrency) (*big.Int, error) {
	account := common.HexToAddress(address)
	switch c {
	case money.BTC:
		return d.bitcoinsOf(ctx, address)
	case money.ETH:
		var balance hexutil.Big
		err := d.Anvil.Call(ctx, &balance, "eth_getBalance", account, "latest")
		return balance.ToInt(), err
	}
	balance, err := d.Anvil.Read(ctx, string(c), d.Market.Tokens()[c], "balanceOf", account)
	if err != nil {
		return nil, err
	}
	amount, ok := balance.(*big.Int)
	if !ok {
		return nil, fmt.Errorf("balanceOf of %s is no number", c)
	}
	return amount, nil
}

// stop ends the simulation. The chain writes its state.
func (d *LiveDouble) stop() {
	if d == nil {
		return
	}
	if d.Acquirer != nil {
		d.Acquirer.Stop()
	}
	if d.Anvil != nil {
		_ = d.Anvil.Stop() // it was killed if it did not stop
	}
	if d.Bitcoin != nil {
		_ = d.Bitcoin.Stop() // the same
	}
	if d.prices != nil {
		d.prices.Close()
	}
}
