package money

import (
	"io"
	"math/big"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/shopspring/decimal"
	"github.com/stretchr/testify/require"

	"example.com/checkout/deploy/program/app"
	"example.com/checkout/deploy/proof/e2e"
	"example.com/checkout/deploy/standin/acquirer"
	"example.com/checkout/deploy/standin/devstack"
	"example.com/checkout/deploy/standin/need"
	"example.com/checkout/storage/storagetest/must"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/money"
)

// Accounts of the chain that the stack does not use.
const (
	testTreasury = 5
	testPayee    = 6
)

// networks are test mode's own networks beside those of simulated live mode: an acquirer that says
// livemode false, and an account on the chain.
type networks struct {
	live
	acquirer *acquirer.Acquirer
	secret   string
	treasury common.Address
	payee    common.Address
}

// TestTestNetworks begins payments in the sandbox, starts the processes again with the settings of test
// networks, and sees each payment end where it began. New payments then go to the test networks.
func TestTestNetworks(t *testing.T) {
	t.Parallel()
	n := startNetworks(t)
	asked := n.Sell(e2e.Card3DS)
	bank := n.awaitBank(asked)
	require.True(t, strings.HasPrefix(bank, n.Stack.PageURL()+"/sandbox/"), bank)

	n.restart("CHECKOUT_TEST_CARDS=stripe", "CHECKOUT_TEST_CHAINS=networks")
	t.Run("a payment that began in the sandbox ends there", func(t *testing.T) { n.in(t).endsInSandbox(asked, bank) })
	t.Run("an address of the sandbox is refused", func(t *testing.T) { n.in(t).needsAnAddress() })
	t.Run("a payment on the test networks", func(t *testing.T) { n.in(t).paysOnNetworks() })
	waiting := n.Create(terms(money.ETH))
	t.Run("the bank agrees and the customer does not return", func(t *testing.T) {
		n := n.in(t)
		n.pay(waiting, card3DS)
		n.answerBank(waiting, "confirm")
		n.AwaitStatus(waiting, checkout.StatusCompleted, 20*time.Second)
		n.paidOut(waiting)
	})
	t.Run("live mode knows nothing of it", func(t *testing.T) {
		n := n.in(t)
		all := must.Get(n.Stack.Live.Acquirer.Facts(t.Context()))(t)
		require.Empty(t, all.Intents)
		require.Equal(t, "test", e2e.Query[string](t, n.Stack, `SELECT string_agg(DISTINCT mode, ',') FROM ledger_posting WHERE account <> 'wallet' AND account <> 'funding'`))
		require.Equal(t, n.treasury.Hex(), e2e.Query[string](t, n.Stack, `
			SELECT string_agg(DISTINCT a.address, ',') FROM transfer t JOIN treasury_account a ON a.id = t.account_id WHERE a.mode = 'test'`))
		require.Zero(t, e2e.Query[int](t, n.Stack, `SELECT count(*) FROM finding`))
		requireNowhere(t, n.live, cardSucceeds, testAcquirerKey, n.secret)
	})
}

const (
	testAcquirerKey = "sk_test_networks"
	testWallet      = "test"
)

// startNetworks starts a stack whose test mode is the sandbox, and beside it the test networks.
func startNetworks(t *testing.T) networks {
	n := networks{live: startLive(t), secret: "whsec_networks"}
	n.Merchant = e2e.NewMerchant(t, n.Stack)
	chain := n.Stack.Live.Anvil
	n.treasury, n.payee = chain.Accounts[testTreasury], chain.Accounts[testPayee]
	for c, at := range n.Stack.Live.Market.Tokens() {
		require.NoError(t, chain.Fund(t.Context(), string(c), at, n.treasury, big.NewInt(1_000_000_000_000)))
	}
	node := n.Stack.Live.Bitcoin
	if node == nil {
		need.Missing(t, "the Debian package bitcoin-knots", "a way to http://deb.debian.org, and apt-get of Debian")
	}
	require.NoError(t, node.OpenWallet(t.Context(), testWallet))
	must.Get(node.Fund(t.Context(), testWallet, "0.5", "0.5"))(t)
	must.Get(node.Mine(t.Context(), devstack.BitcoinConfirmations))(t)
	require.NoError(t, n.Stack.Postgres.CreateDatabase(t.Context(), "acquirer_test", ""))
	n.acquirer = must.Get(acquirer.Start(t.Context(), acquirer.Options{
		DatabaseURL: n.Stack.Postgres.URL("acquirer_test"), SecretKey: testAcquirerKey,
		Webhooks: acquirer.Webhooks{URL: n.Stack.APIURL() + "/acquirers/stripe/events", Secret: n.secret, Copies: 2},
	}))(t)
	t.Cleanup(n.acquirer.Stop)
	return n
}

func (n networks) in(t *testing.T) networks {
	n.live = n.live.in(t)
	return n
}

func (n networks) restart(choice ...string) {
	require.NoError(n.T, n.Stack.API.Stop(20*time.Second))
	require.NoError(n.T, n.Stack.Worker.Stop(20*time.Second))
	settings := slices.Concat(n.Stack.Environment(), n.environment(), choice)
	require.NoError(n.T, app.Main(n.T.Context(), []string{"setup"}, settings, io.Discard, io.Discard))
	for _, command := range []string{"worker", "api"} {
		process := must.Get(n.Stack.StartMore(command, command, append(n.environment(), choice...)...))(n.T)
		n.T.Cleanup(func() { _ = process.Stop(20 * time.Second) }) // Stop kills a process that does not end
	}
	e2e.Await(n.T, "the API is ready", 30*time.Second, func() bool {
		got, err := e2e.Try(http.MethodGet, n.Stack.APIURL()+"/readyz", "")
		return err == nil && got.Status == http.StatusOK
	})
}

// environment returns the settings of the test networks: those of live mode under the names of test mode,
// with an acquirer and a treasury of their own.
func (n networks) environment() []string {
	var env []string
	for _, setting := range n.Stack.OperatorsEnvironment() {
		rest, ok := strings.CutPrefix(setting, "CHECKOUT_LIVE_")
		if !ok {
			rest, ok = strings.CutPrefix(setting, "CHECKOUT_")
		}
		for _, of := range []string{"STRIPE_", "ETHEREUM_", "BITCOIN_", "RATE_", "SIMULATED", "MAX_", "MERCHANT_"} {
			if ok && strings.HasPrefix(rest, of) {
				env = append(env, "CHECKOUT_TEST_"+rest)
			}
		}
	}
	return append(env,
		"CHECKOUT_TEST_STRIPE_API_URL="+n.acquirer.APIURL(), "CHECKOUT_TEST_STRIPE_JS_URL="+n.acquirer.ScriptURL(),
		"CHECKOUT_TEST_STRIPE_SECRET_KEY="+testAcquirerKey, "CHECKOUT_TEST_STRIPE_PUBLISHABLE_KEY=pk_test_networks",
		"CHECKOUT_TEST_STRIPE_WEBHOOK_SECRETS="+n.secret, "CHECKOUT_TEST_ETHEREUM_TREASURY="+n.treasury.Hex(),
		"CHECKOUT_TEST_BITCOIN_WALLET="+testWallet,
	)
}

// endsInSandbox answers the sandbox's bank about a payment that began before the restart.
func (n networks) endsInSandbox(id, bank string) {
	n.Confirm(bank)
	n.AwaitStatus(id, checkout.StatusCompleted, 20*time.Second)
	n.paidOut(id)
	require.Equal(n.T, 1, e2e.Query[int](n.T, n.Stack, `
		SELECT count(*) FROM sandbox_transfer x JOIN payout p ON p.id = x.payout_id WHERE p.session_id = $1`, id))
	require.Zero(n.T, e2e.Query[int](n.T, n.Stack, `SELECT count(*) FROM transfer`))
	facts := must.Get(n.acquirer.Facts(n.T.Context()))(n.T)
	require.Empty(n.T, facts.Intents)
}

// needsAnAddress gives the merchant an address on the chain after the API has refused the sandbox's.
func (n networks) needsAnAddress() {
	got := n.Must(http.StatusForbidden, http.MethodPost, "/v1/checkout", e2e.Terms)
	require.Equal(n.T, "Test mode is not activated: there is no payout address for USDC.", got.Field("message"))
	n.payTo(map[money.PayoutCurrency]string{money.USDC: n.payee.Hex(), money.ETH: n.payee.Hex()})
}

// paysOnNetworks pays with a confirmation token and reads the merchant's balance from the chain.
func (n networks) paysOnNetworks() {
	n.awaitFollowed(checkout.ModeTest)
	id := n.Create(terms(money.USDC))
	n.pay(id, cardSucceeds)
	n.AwaitStatus(id, checkout.StatusCompleted, 20*time.Second)
	require.Equal(n.T, false, n.Session(id).Field("livemode"))
	amount := n.paidOut(id)
	e2e.Await(n.T, "the coins are on the chain", 20*time.Second, func() bool { return n.usdc().Equal(amount) })
	e2e.Await(n.T, "the transfer is final", time.Minute, func() bool { return n.confirmed(id) })
	facts := must.Get(n.acquirer.Facts(n.T.Context()))(n.T)
	require.Len(n.T, facts.Charges, 1)
	require.Zero(n.T, e2e.Query[int](n.T, n.Stack, `
		SELECT count(*) FROM sandbox_transfer x JOIN payout p ON p.id = x.payout_id WHERE p.session_id = $1`, id))
}

func (n networks) usdc() decimal.Decimal {
	balance, err := n.Stack.Live.Anvil.Read(n.T.Context(), "USDC", n.Stack.Live.Market.USDC, "balanceOf", n.payee)
	require.NoError(n.T, err)
	return decimal.NewFromBigInt(balance.(*big.Int), -money.USDC.Places())
}

// pay sends the page's form with a token of test mode's acquirer.
func (n networks) pay(id, number string) {
	token := tokenOf(n.T, n.acquirer.ScriptURL(), number)
	n.send(id, url.Values{"email": {"ann@example.com"}, "confirmation_token": {token}})
}
