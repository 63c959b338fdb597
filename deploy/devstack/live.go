package devstack

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"example.com/checkout/deploy/acquirer"
	"example.com/checkout/deploy/chains"
	"example.com/checkout/deploy/ticker"
	"example.com/checkout/workflows/checkout"
)

// LiveDouble simulates everything that live mode needs: the card network, a chain with tokens, price
// feeds and a funded treasury, and the sources of prices. Nothing is real, and everything is on
// loopback.
type LiveDouble struct {
	Acquirer *acquirer.Acquirer
	Anvil    *chains.Anvil
	Market   chains.Market
	Prices   *ticker.Server
	// WebhookSecret signs the reports of the card network.
	WebhookSecret string

	prices  map[string]string // addresses of the sources of prices, by name
	servers []*http.Server
}

// Accounts of the chain. Account 0 deploys the contracts.
const (
	treasuryAccount = 1
	merchantAccount = 2
)

const acquirerDatabase = "acquirer"

// chainFile keeps the chain between starts.
const chainFile = "chain.json"

// startLiveDouble starts the simulation before the worker and the API.
func (s *Stack) startLiveDouble(ctx context.Context) error {
	if !s.options.LiveDouble {
		return nil
	}
	if s.Postgres == nil {
		return errors.New("-live-double needs the stack's own PostgreSQL: unset DATABASE_URL")
	}
	d := &LiveDouble{WebhookSecret: "whsec_" + s.Demo.Password, prices: map[string]string{}}
	s.Live = d
	if err := s.Postgres.CreateDatabase(ctx, acquirerDatabase, ""); err != nil {
		return err
	}
	if err := d.startPrices(); err != nil {
		return err
	}
	if err := d.startChain(ctx, filepath.Join(s.options.Dir, chainFile)); err != nil {
		return err
	}
	var err error
	d.Acquirer, err = acquirer.Start(ctx, acquirer.Options{
		DatabaseURL: s.url(acquirerDatabase), Livemode: true, SecretKey: AcquirerKey,
		Webhooks: acquirer.Webhooks{
			URL: s.APIURL() + "/acquirers/stripe/events", Secret: d.WebhookSecret, Copies: 3, Spread: 2 * time.Second,
		},
	})
	return err
}

// AcquirerKey is the secret key of the simulated card network. It is taken by the double only.
const AcquirerKey = "sk_test_simulated"

func (d *LiveDouble) startPrices() error {
	d.Prices = ticker.New()
	for _, source := range []string{ticker.Kraken, ticker.Coinbase} {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		d.prices[source] = "http://" + listener.Addr().String()
		server := &http.Server{Handler: d.Prices.Handler(source), ReadHeaderTimeout: 5 * time.Second}
		d.servers = append(d.servers, server)
		go func() { _ = server.Serve(listener) }() // ends with Close
	}
	return nil
}

// startChain starts the chain with a block every second, and funds the treasury once.
func (d *LiveDouble) startChain(ctx context.Context, state string) (err error) {
	d.Anvil, err = chains.StartAnvil(ctx, chains.Options{StateFile: state, BlockTime: time.Second})
	if err != nil {
		return err
	}
	if d.Market, err = d.Anvil.DeployMarket(ctx); err != nil {
		return err
	}
	million := big.NewInt(1_000_000_000_000) // in the tokens' smallest unit
	treasury := d.Anvil.Accounts[treasuryAccount]
	for _, token := range []string{"USDC", "USDT"} {
		at := d.Market.USDC
		if token == "USDT" {
			at = d.Market.USDT
		}
		balance, err := d.Anvil.Read(ctx, token, at, "balanceOf", treasury)
		if err != nil {
			return err
		}
		if has, ok := balance.(*big.Int); ok && has.Sign() > 0 {
			continue // funded at an earlier start
		}
		if err := d.Anvil.Fund(ctx, token, at, treasury, million); err != nil {
			return err
		}
	}
	return nil
}

// payoutAddress is where the demo merchant gets its live payouts.
func (d *LiveDouble) payoutAddress() string { return d.Anvil.Accounts[merchantAccount].Hex() }

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
		"CHECKOUT_ETHEREUM_CHAIN_ID=" + strconv.FormatUint(d.Anvil.ChainID, 10),
		"CHECKOUT_ETHEREUM_TREASURY=" + d.Anvil.Accounts[treasuryAccount].Hex(),
		"CHECKOUT_ETHEREUM_USDC=" + d.Market.USDC.Hex(),
		"CHECKOUT_ETHEREUM_USDT=" + d.Market.USDT.Hex(),
		"CHECKOUT_RATE_KRAKEN_URL=" + d.prices[ticker.Kraken],
		"CHECKOUT_RATE_COINBASE_URL=" + d.prices[ticker.Coinbase],
		"CHECKOUT_RATE_CHAINLINK_FEEDS=" + d.feeds(),
	}
	switch command {
	case "api":
		env = append(env,
			"CHECKOUT_STRIPE_PUBLISHABLE_KEY=pk_test_simulated", "CHECKOUT_STRIPE_WEBHOOK_SECRETS="+d.WebhookSecret,
		)
	case "worker":
		env = append(env,
			"CHECKOUT_STRIPE_SECRET_KEY="+AcquirerKey, "CHECKOUT_ETHEREUM_SIGNER_URL="+d.Anvil.URL,
			"CHECKOUT_LIVE_MAX_PAYOUT=10000", "CHECKOUT_LIVE_MAX_DAY=1000000", "CHECKOUT_LIVE_MERCHANT_MAX_DAY=1000000",
		)
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
func (d *LiveDouble) Balance(ctx context.Context, c checkout.PayoutCurrency) (*big.Int, error) {
	account := d.Anvil.Accounts[merchantAccount]
	if c == checkout.ETH {
		var balance string
		if err := d.Anvil.Call(ctx, &balance, "eth_getBalance", account, "latest"); err != nil {
			return nil, err
		}
		wei, ok := new(big.Int).SetString(balance, 0)
		if !ok {
			return nil, fmt.Errorf("eth_getBalance: %q is no number", balance)
		}
		return wei, nil
	}
	token := d.Market.USDC
	if c == checkout.USDT {
		token = d.Market.USDT
	}
	balance, err := d.Anvil.Read(ctx, string(c), token, "balanceOf", account)
	if err != nil {
		return nil, err
	}
	units, ok := balance.(*big.Int)
	if !ok {
		return nil, fmt.Errorf("balanceOf of %s is no number", c)
	}
	return units, nil
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
	for _, server := range d.servers {
		_ = server.Close() // it only closes sockets
	}
}
