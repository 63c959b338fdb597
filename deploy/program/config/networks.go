package config

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"os"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/shopspring/decimal"

	"example.com/checkout/workflows/address"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/money"
	"example.com/checkout/workflows/treasury"
)

// Networks holds the settings of the card network and the chain of one mode. The tags are the names
// of live mode's settings; see testName. The two processes get different ones: only the worker gets
// what moves money.
type Networks struct {
	Mode checkout.Mode `env:"-"`
	// Cards: Stripe charges the cards of the mode. Chains: its payouts are sent on
	// real chains. Live mode has both or is off. What test mode has not is the sandbox's.
	Cards, Chains bool `env:"-"`

	// All of the mode is simulated on this computer, and live pages say so. Then every address below
	// must be on loopback; otherwise none of the simulation's addresses may be set.
	Simulated bool `env:"CHECKOUT_LIVE_SIMULATED"`

	// Stripe's secret or restricted key, `sk_live_…` or `rk_live_…`. Worker only: it moves money.
	StripeSecretKey string `env:"CHECKOUT_STRIPE_SECRET_KEY"`
	// Stripe's publishable key, `pk_live_…`, for the page. API only.
	StripePublishableKey string `env:"CHECKOUT_STRIPE_PUBLISHABLE_KEY"`
	// Secrets of Stripe's webhooks, `whsec_…`; two of them, separated by a comma, during a rotation.
	// Stripe sends to `/acquirers/stripe/events` of the REST API. API only.
	StripeWebhookSecrets []string `env:"CHECKOUT_STRIPE_WEBHOOK_SECRETS"`
	// Address of a simulated Stripe.
	StripeAPIURL string `env:"CHECKOUT_STRIPE_API_URL"`
	// Stripe's script for the page.
	StripeScriptURL string `env:"CHECKOUT_STRIPE_JS_URL" envDefault:"https://js.stripe.com/dahlia/stripe.js"`

	// One or two Ethereum nodes, separated by a comma. With two, nothing counts as final unless both agree.
	EthereumRPCURLs []string `env:"CHECKOUT_ETHEREUM_RPC_URLS"`
	// Ethereum's chain: 1 is the main network.
	EthereumChainID uint64 `env:"CHECKOUT_ETHEREUM_CHAIN_ID" envDefault:"1"`
	// Address of the treasury on Ethereum. Payouts in ETH, USDC and USDT are sent from it.
	EthereumTreasury string `env:"CHECKOUT_ETHEREUM_TREASURY"`
	// Contract of USDC.
	EthereumUSDC string `env:"CHECKOUT_ETHEREUM_USDC" envDefault:"0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48"`
	// Contract of USDT.
	EthereumUSDT string `env:"CHECKOUT_ETHEREUM_USDT" envDefault:"0xdAC17F958D2ee523a2206206994597C13D831ec7"`
	// The treasury's key: a keystore file of version 3. Worker only. It or a signer is needed.
	EthereumKeystore string `env:"CHECKOUT_ETHEREUM_KEYSTORE"`
	// File with the password of the keystore. Worker only.
	EthereumPasswordFile string `env:"CHECKOUT_ETHEREUM_KEYSTORE_PASSWORD_FILE"`
	// A remote signer that answers `eth_signTransaction`. Worker only.
	EthereumSignerURL string `env:"CHECKOUT_ETHEREUM_SIGNER_URL"`
	// When a transfer counts as final: `finalized`, or a number of blocks on top of it.
	EthereumConfirmations string `env:"CHECKOUT_ETHEREUM_CONFIRMATIONS" envDefault:"finalized"`
	// The highest fee for a unit of gas, in gwei. Above it payouts wait.
	EthereumMaxFeeGwei uint64 `env:"CHECKOUT_ETHEREUM_MAX_FEE_GWEI" envDefault:"200"`

	// The Bitcoin node, Bitcoin Core 28 or later, as `http://USER@HOST:8332`. Without it there are no payouts in BTC.
	BitcoinRPCURL string `env:"CHECKOUT_BITCOIN_RPC_URL"`
	// File with the password of the node's user. The API's user needs no call of a wallet.
	BitcoinPasswordFile string `env:"CHECKOUT_BITCOIN_RPC_PASSWORD_FILE"`
	// Bitcoin's network, as the node names it: main, test, testnet4, signet or regtest.
	BitcoinNetwork string `env:"CHECKOUT_BITCOIN_NETWORK" envDefault:"main"`
	// The treasury's wallet in the node. Payouts in BTC are sent from it. Worker only.
	BitcoinWallet string `env:"CHECKOUT_BITCOIN_WALLET" envDefault:"treasury"`
	// A second node whose wallet of the same name has the keys, when that of the first only watches. Worker only.
	BitcoinSignerURL string `env:"CHECKOUT_BITCOIN_SIGNER_URL"`
	// File with the password of the second node's user. Worker only.
	BitcoinSignerPasswordFile string `env:"CHECKOUT_BITCOIN_SIGNER_PASSWORD_FILE"`
	// From how many confirmations on a transfer and a coin count as final.
	BitcoinConfirmations uint64 `env:"CHECKOUT_BITCOIN_CONFIRMATIONS" envDefault:"6"`
	// Within how many blocks a transfer should be mined. The node estimates the fee for it.
	BitcoinFeeTarget uint64 `env:"CHECKOUT_BITCOIN_FEE_TARGET" envDefault:"6"`
	// The highest fee for a virtual byte, in satoshis. Above it payouts wait.
	BitcoinMaxFeeRate uint64 `env:"CHECKOUT_BITCOIN_MAX_FEE_RATE" envDefault:"150"`
	// How long payouts in BTC wait for others, at most 4m: one transaction pays up to 100.
	BitcoinBatchInterval time.Duration `env:"CHECKOUT_BITCOIN_BATCH_INTERVAL" envDefault:"1m"`

	// Sources of exchange rates, at least two: kraken, coinbase and chainlink, separated by commas.
	RateSources []string `env:"CHECKOUT_RATE_SOURCES" envDefault:"kraken,coinbase,chainlink"`
	// How old a price of kraken and coinbase may be.
	RateMaxAge time.Duration `env:"CHECKOUT_RATE_MAX_AGE" envDefault:"1m"`
	// How far the sources may differ.
	MaxDeviation Fraction `env:"CHECKOUT_RATE_MAX_DEVIATION" envDefault:"1%"`
	// The treasury's margin on a rate to USDC and USDT.
	SpreadStable Fraction `env:"CHECKOUT_RATE_SPREAD_STABLE" envDefault:"0.5%"`
	// The treasury's margin on a rate to ETH and BTC.
	Spread Fraction `env:"CHECKOUT_RATE_SPREAD" envDefault:"1%"`
	// Address of a simulated kraken.
	KrakenURL string `env:"CHECKOUT_RATE_KRAKEN_URL"`
	// Address of a simulated coinbase.
	CoinbaseURL string `env:"CHECKOUT_RATE_COINBASE_URL"`
	// Chainlink's feeds on another chain than the main network, such as `ETH/USD=0x…`, separated by commas.
	Feeds Feeds `env:"CHECKOUT_RATE_CHAINLINK_FEEDS"`

	// The largest payout in US dollars. What would be larger is not charged. Needed by both.
	MaxPayout money.Amount `env:"CHECKOUT_LIVE_MAX_PAYOUT"`
	// All payouts of a day together, in US dollars. Needed by both.
	MaxDay money.Amount `env:"CHECKOUT_LIVE_MAX_DAY"`
	// All payouts of a merchant in a day together, in US dollars. Needed by both.
	MaxMerchantDay money.Amount `env:"CHECKOUT_LIVE_MERCHANT_MAX_DAY"`
	// All payouts of a merchant together, in US dollars, whose charges Stripe has not made available yet. What
	// is above it waits. Needed by both.
	MaxMerchantUnsettled money.Amount `env:"CHECKOUT_LIVE_MERCHANT_MAX_UNSETTLED"`
	// How long a payout waits after its payment, at least.
	PayoutDelay time.Duration `env:"CHECKOUT_LIVE_PAYOUT_DELAY" envDefault:"0s"`
	// How long a payout may wait before it fails, and how long its exchange rate is locked for a retry.
	PayoutPatience time.Duration `env:"CHECKOUT_LIVE_PAYOUT_PATIENCE" envDefault:"24h"`

	// For how many days the float should last. Below it the alert CheckoutFloatLow fires. 0 turns it off. Worker only.
	FloatDays uint16 `env:"CHECKOUT_TREASURY_FLOAT_DAYS" envDefault:"2"`

	// File with addresses to which nothing is paid, one a line; `#` begins a comment. It is read at start.
	SanctionsFile string `env:"CHECKOUT_SANCTIONS_FILE"`
	// A contract with `isSanctioned(address)`, as Chainalysis has one. Nothing is paid to an address that it names.
	SanctionsOracle string `env:"CHECKOUT_SANCTIONS_ORACLE"`
	// Sanctioned are the addresses of the file.
	Sanctioned address.List `env:"-"`
}

// A Fraction is a part of one.
type Fraction struct{ decimal.Decimal }

// Feeds are the addresses of Chainlink's feeds by price, nil for those of the main network.
type Feeds map[string]string

// Limits returns the limits of the payouts. A limit is 0 when it is not set.
func (n Networks) Limits() treasury.PayoutLimits {
	return treasury.PayoutLimits{
		Payout: n.MaxPayout, Day: n.MaxDay, MerchantDay: n.MaxMerchantDay, MerchantUnsettled: n.MaxMerchantUnsettled,
	}
}

// On reports whether any of the networks is configured.
func (n Networks) On() bool { return n.Cards || n.Chains }

// testName returns the name of a setting of live mode in test mode.
func testName(live string) string {
	rest, ok := strings.CutPrefix(live, "CHECKOUT_LIVE_")
	if !ok {
		rest = strings.TrimPrefix(live, "CHECKOUT_")
	}
	return "CHECKOUT_TEST_" + rest
}

// name returns a setting's name in the mode of n.
func (n Networks) name(live string) string {
	if n.Mode.Live() {
		return live
	}
	return testName(live)
}

// testNetworks returns the part of environment that sets the networks of test mode, under the names of
// live mode.
func testNetworks(environment map[string]string) map[string]string {
	renamed := map[string]string{}
	for field := range reflect.TypeFor[Networks]().Fields() {
		live, _, _ := strings.Cut(field.Tag.Get("env"), ",")
		if value, ok := environment[testName(live)]; ok {
			renamed[live] = value
		}
	}
	return renamed
}

// choose sets which networks the mode has. Live mode has all of them as soon as it has a key of Stripe.
func (n *Networks) choose(mode checkout.Mode, cards, chains string) {
	n.Mode = mode
	n.Cards, n.Chains = cards == cardsStripe, chains == chainsNetworks
	if mode.Live() {
		n.Cards = n.StripePublishableKey != "" || n.StripeSecretKey != "" || n.Simulated
		n.Chains = n.Cards
	}
}

// simulations returns every address that a simulation needs, by setting.
func (n Networks) simulations() map[string][]string {
	all := map[string][]string{}
	if n.Cards {
		all["CHECKOUT_STRIPE_API_URL"] = []string{n.StripeAPIURL}
		all["CHECKOUT_STRIPE_JS_URL"] = []string{n.StripeScriptURL}
	}
	if n.Chains {
		all["CHECKOUT_ETHEREUM_RPC_URLS"] = n.EthereumRPCURLs
		all["CHECKOUT_RATE_KRAKEN_URL"] = []string{n.KrakenURL}
		all["CHECKOUT_RATE_COINBASE_URL"] = []string{n.CoinbaseURL}
	}
	return all
}

// check parses the settings, and passes their faults to report, by name. The settings that a process needs are checked
// by ForAPI and ForWorker.
func (n *Networks) check(reportAs func(name string, err error)) {
	report := func(live string, err error) { reportAs(n.name(live), err) }
	if n.Simulated {
		n.checkSimulated(report)
	} else if n.On() {
		n.checkReal(report)
	}
	if !n.Mode.Live() && n.Chains && n.EthereumChainID == 1 {
		report("CHECKOUT_ETHEREUM_CHAIN_ID", errors.New("must not be 1, the main network: Sepolia is 11155111"))
	}
	if n.EthereumKeystore != "" && n.EthereumSignerURL != "" {
		report("CHECKOUT_ETHEREUM_SIGNER_URL",
			fmt.Errorf("must not be set together with %s", n.name("CHECKOUT_ETHEREUM_KEYSTORE")))
	}
	n.checkBitcoin(report)
	report("CHECKOUT_LIVE_PAYOUT_PATIENCE", atLeast(n.PayoutPatience, time.Minute))
	report("CHECKOUT_LIVE_PAYOUT_DELAY", atLeast(n.PayoutDelay, 0))
	if n.SanctionsOracle != "" {
		report("CHECKOUT_SANCTIONS_ORACLE", address.Rules{}.Check(checkout.ModeLive, money.Ethereum, n.SanctionsOracle))
	}
}

// readSanctions reads the file with sanctioned addresses. Without a file there are none.
func (n *Networks) readSanctions(report func(name string, err error)) {
	if n.SanctionsFile == "" {
		return
	}
	from, err := os.Open(n.SanctionsFile)
	if err != nil {
		report(n.name("CHECKOUT_SANCTIONS_FILE"), errors.New("cannot be read"))
		return
	}
	defer from.Close()
	n.Sanctioned, err = address.ReadList(from)
	report(n.name("CHECKOUT_SANCTIONS_FILE"), err)
}

// checkSimulated wants every address on loopback: one real endpoint among simulated ones would move
// real money by a test.
func (n Networks) checkSimulated(report func(name string, err error)) {
	because := ", because " + n.name("CHECKOUT_LIVE_SIMULATED") + " is set"
	for name, addresses := range n.simulations() {
		for _, address := range addresses {
			if !onLoopback(address) {
				report(name, errors.New("must be an http:// address on 127.0.0.1"+because))
			}
		}
	}
	if n.EthereumSignerURL != "" && !onLoopback(n.EthereumSignerURL) {
		report("CHECKOUT_ETHEREUM_SIGNER_URL", errors.New("must be on 127.0.0.1"+because))
	}
	if n.Chains && n.EthereumChainID == 1 {
		report("CHECKOUT_ETHEREUM_CHAIN_ID", errors.New("must not be 1, the main network"+because))
	}
	for name, address := range map[string]string{
		"CHECKOUT_BITCOIN_RPC_URL": n.BitcoinRPCURL, "CHECKOUT_BITCOIN_SIGNER_URL": n.BitcoinSignerURL,
	} {
		if n.Chains && address != "" && !onLoopback(withoutUser(address)) {
			report(name, errors.New("must be an http:// address on 127.0.0.1"+because))
		}
	}
	if strings.Contains(n.StripeSecretKey, "k_live_") {
		report("CHECKOUT_STRIPE_SECRET_KEY", errors.New("must not be a live key"+because))
	}
}

func (n Networks) checkReal(report func(name string, err error)) {
	simulated := errors.New("is for a simulation: set " + n.name("CHECKOUT_LIVE_SIMULATED") + " too, or remove it")
	for name, address := range map[string]string{
		"CHECKOUT_STRIPE_API_URL": n.StripeAPIURL, "CHECKOUT_RATE_KRAKEN_URL": n.KrakenURL,
		"CHECKOUT_RATE_COINBASE_URL": n.CoinbaseURL,
	} {
		if address != "" {
			report(name, simulated)
		}
	}
	if !strings.HasPrefix(n.StripeScriptURL, "https://js.stripe.com/") {
		report("CHECKOUT_STRIPE_JS_URL", errors.New("must begin with https://js.stripe.com/"))
	}
	secret, restricted := "sk_"+string(n.Mode)+"_", "rk_"+string(n.Mode)+"_"
	if n.StripeSecretKey != "" && !hasAnyPrefix(n.StripeSecretKey, secret, restricted) {
		report("CHECKOUT_STRIPE_SECRET_KEY", fmt.Errorf("must be a %s key: %s… or %s…", n.Mode, secret, restricted))
	}
	publishable := "pk_" + string(n.Mode) + "_"
	if n.StripePublishableKey != "" && !strings.HasPrefix(n.StripePublishableKey, publishable) {
		report("CHECKOUT_STRIPE_PUBLISHABLE_KEY", fmt.Errorf("must be a %s key: %s…", n.Mode, publishable))
	}
	for _, secret := range n.StripeWebhookSecrets {
		if !strings.HasPrefix(secret, "whsec_") {
			report("CHECKOUT_STRIPE_WEBHOOK_SECRETS", errors.New("must be whsec_…, separated by commas"))
		}
	}
}

// ForAPI returns an error that names every setting that the API process still needs.
func (n Networks) ForAPI() error {
	present := map[string]bool{}
	if n.Cards {
		present["CHECKOUT_STRIPE_PUBLISHABLE_KEY"] = n.StripePublishableKey != ""
		present["CHECKOUT_STRIPE_WEBHOOK_SECRETS"] = len(n.StripeWebhookSecrets) > 0
	}
	if n.Chains {
		present["CHECKOUT_ETHEREUM_TREASURY"] = n.EthereumTreasury != ""
		present["CHECKOUT_ETHEREUM_RPC_URLS"] = len(n.EthereumRPCURLs) > 0 // for prices and fees
		if n.Bitcoin() {
			present["CHECKOUT_BITCOIN_RPC_PASSWORD_FILE"] = n.BitcoinPasswordFile != ""
		}
		n.needsLimits(present)
	}
	return n.needed(present)
}

// ForWorker returns an error that names every setting that the worker still needs.
func (n Networks) ForWorker() error {
	present := map[string]bool{}
	if n.Cards {
		present["CHECKOUT_STRIPE_SECRET_KEY"] = n.StripeSecretKey != ""
	}
	if n.Chains {
		present["CHECKOUT_ETHEREUM_RPC_URLS"] = len(n.EthereumRPCURLs) > 0
		present["CHECKOUT_ETHEREUM_TREASURY"] = n.EthereumTreasury != ""
		key := "CHECKOUT_ETHEREUM_KEYSTORE or " + n.name("CHECKOUT_ETHEREUM_SIGNER_URL")
		present[key] = n.EthereumKeystore+n.EthereumSignerURL != ""
		if n.Bitcoin() {
			present["CHECKOUT_BITCOIN_RPC_PASSWORD_FILE"] = n.BitcoinPasswordFile != ""
		}
		if n.BitcoinSignerURL != "" {
			present["CHECKOUT_BITCOIN_SIGNER_PASSWORD_FILE"] = n.BitcoinSignerPasswordFile != ""
		}
		n.needsLimits(present)
		if n.EthereumKeystore != "" {
			present["CHECKOUT_ETHEREUM_KEYSTORE_PASSWORD_FILE"] = n.EthereumPasswordFile != ""
		}
	}
	return n.needed(present)
}

// needsLimits notes the limits of payouts: neither process charges what could not be paid out.
func (n Networks) needsLimits(present map[string]bool) {
	present["CHECKOUT_LIVE_MAX_PAYOUT"] = n.MaxPayout != 0
	present["CHECKOUT_LIVE_MAX_DAY"] = n.MaxDay != 0
	present["CHECKOUT_LIVE_MERCHANT_MAX_DAY"] = n.MaxMerchantDay != 0
	present["CHECKOUT_LIVE_MERCHANT_MAX_UNSETTLED"] = n.MaxMerchantUnsettled != 0
}

func (n Networks) needed(present map[string]bool) error {
	var faults []error
	for name, there := range present {
		if !there {
			faults = append(faults, fmt.Errorf("%s is not set: %s mode needs it", n.name(name), n.Mode))
		}
	}
	slices.SortFunc(faults, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errors.Join(faults...)
}

// sharesAccount reports whether both would sign with one account of one chain.
func (n Networks) sharesAccount(other Networks) bool {
	return n.Chains && other.Chains && n.EthereumChainID == other.EthereumChainID &&
		strings.EqualFold(n.EthereumTreasury, other.EthereumTreasury)
}

// KeystorePassword reads the password of the keystore from its file.
func (n Networks) KeystorePassword() (string, error) {
	return n.password("CHECKOUT_ETHEREUM_KEYSTORE_PASSWORD_FILE", n.EthereumPasswordFile)
}

// password reads the file of a setting.
func (n Networks) password(setting, file string) (string, error) {
	content, err := os.ReadFile(file) //nolint:gosec // G304: a setting
	if err != nil {                   // the error would be about a file that holds a secret
		return "", errors.New(n.name(setting) + " cannot be read")
	}
	return strings.TrimRight(string(content), "\r\n"), nil
}

// UnmarshalText reads a percentage such as "0.5%".
func (f *Fraction) UnmarshalText(text []byte) error {
	number, ok := strings.CutSuffix(string(text), "%")
	percent, err := decimal.NewFromString(number)
	if !ok || err != nil || len(number) > 10 || percent.IsNegative() {
		return errors.New(`must be a percentage such as "0.5%"`)
	}
	f.Decimal = percent.Shift(-2)
	return nil
}

func feeds(text string) (Feeds, error) {
	all := Feeds{}
	for entry := range strings.SplitSeq(text, ",") {
		price, address, ok := strings.Cut(strings.TrimSpace(entry), "=")
		if !ok {
			return nil, errors.New("must be PRICE=ADDRESS, such as ETH/USD=0x…, separated by commas")
		}
		all[price] = address
	}
	return all, nil
}

// dollars reads a limit in US dollars as cents.
func dollars(text string) (money.Amount, error) {
	amount, err := decimal.NewFromString(text)
	most := decimal.New(1, 12)
	if err != nil || len(text) > 20 || !amount.IsPositive() || amount.GreaterThan(most) ||
		!amount.Equal(amount.Truncate(2)) {
		return 0, errors.New(`must be US dollars with at most 2 decimals, such as "2500"`)
	}
	return money.Amount(amount.Shift(2).IntPart()), nil
}

func onLoopback(address string) bool {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" || u.User != nil {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return ip != nil && ip.IsLoopback()
}

func hasAnyPrefix(text string, prefixes ...string) bool {
	return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(text, p) })
}

// reserved returns the addresses that no merchant may use: the treasury's, and the contracts of tokens and sanctions.
func (n Networks) reserved() []string {
	all := append(slices.Sorted(maps.Values(n.Tokens())), n.EthereumTreasury, n.SanctionsOracle)
	return slices.DeleteFunc(all, func(text string) bool { return text == "" })
}

// Tokens returns the contracts of the payout currencies that are tokens of Ethereum.
func (n Networks) Tokens() map[money.PayoutCurrency]string {
	return map[money.PayoutCurrency]string{money.USDC: n.EthereumUSDC, money.USDT: n.EthereumUSDT}
}
