package config

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/shopspring/decimal"

	"example.com/checkout/workflows/checkout"
)

// Live holds the settings of live mode. Without any of them, live mode is off. The two processes get
// different ones: only the worker gets what moves money.
type Live struct {
	// All of live mode is simulated on this computer, and every page says so. Then every address below
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

	// Sources of exchange rates, at least two: kraken, coinbase and chainlink, separated by commas.
	RateSources []string `env:"CHECKOUT_RATE_SOURCES" envDefault:"kraken,coinbase,chainlink"`
	// How old a price of kraken and coinbase may be.
	RateMaxAge time.Duration `env:"CHECKOUT_RATE_MAX_AGE" envDefault:"1m"`
	// How far the sources may be apart.
	RateMaxDeviation string `env:"CHECKOUT_RATE_MAX_DEVIATION" envDefault:"1%"`
	// What the treasury keeps of a rate to USDC and USDT.
	RateSpreadStable string `env:"CHECKOUT_RATE_SPREAD_STABLE" envDefault:"0.5%"`
	// What the treasury keeps of a rate to ETH and BTC.
	RateSpread string `env:"CHECKOUT_RATE_SPREAD" envDefault:"1%"`
	// Address of a simulated kraken.
	KrakenURL string `env:"CHECKOUT_RATE_KRAKEN_URL"`
	// Address of a simulated coinbase.
	CoinbaseURL string `env:"CHECKOUT_RATE_COINBASE_URL"`
	// Chainlink's feeds on another chain than the main network, such as `ETH/USD=0x…`, separated by commas.
	ChainlinkFeeds []string `env:"CHECKOUT_RATE_CHAINLINK_FEEDS"`

	// The largest payout in US dollars. A larger one waits for an operator. Needed by the worker.
	MaxPayout string `env:"CHECKOUT_LIVE_MAX_PAYOUT"`
	// All payouts of a day together, in US dollars. Needed by the worker.
	MaxDay string `env:"CHECKOUT_LIVE_MAX_DAY"`
	// All payouts of a merchant in a day together, in US dollars. Needed by the worker.
	MaxMerchantDay string `env:"CHECKOUT_LIVE_MERCHANT_MAX_DAY"`
	// How long a payout may wait before it fails.
	PayoutPatience time.Duration `env:"CHECKOUT_LIVE_PAYOUT_PATIENCE" envDefault:"24h"`
}

// On reports whether live mode is configured.
func (l Live) On() bool { return l.StripePublishableKey != "" || l.StripeSecretKey != "" }

// simulations returns every address that a simulation needs, by setting.
func (l Live) simulations() map[string][]string {
	return map[string][]string{
		"CHECKOUT_STRIPE_API_URL":    {l.StripeAPIURL},
		"CHECKOUT_STRIPE_JS_URL":     {l.StripeScriptURL},
		"CHECKOUT_ETHEREUM_RPC_URLS": l.EthereumRPCURLs,
		"CHECKOUT_RATE_KRAKEN_URL":   {l.KrakenURL},
		"CHECKOUT_RATE_COINBASE_URL": {l.CoinbaseURL},
	}
}

// check passes the faults of the settings to note, by name. Which settings a process needs is said by
// ForAPI and ForWorker.
func (l Live) check(note func(name string, err error)) {
	if l.Simulated {
		l.checkSimulated(note)
	} else if l.On() {
		l.checkReal(note)
	}
	for name, text := range map[string]string{
		"CHECKOUT_RATE_MAX_DEVIATION": l.RateMaxDeviation, "CHECKOUT_RATE_SPREAD_STABLE": l.RateSpreadStable,
		"CHECKOUT_RATE_SPREAD": l.RateSpread,
	} {
		_, err := Fraction(text)
		note(name, err)
	}
	for name, text := range l.limits() {
		if text != "" {
			_, err := dollars(text)
			note(name, err)
		}
	}
	if _, err := l.Feeds(); err != nil {
		note("CHECKOUT_RATE_CHAINLINK_FEEDS", err)
	}
	if l.EthereumKeystore != "" && l.EthereumSignerURL != "" {
		note("CHECKOUT_ETHEREUM_SIGNER_URL", errors.New("must not be set together with CHECKOUT_ETHEREUM_KEYSTORE"))
	}
	note("CHECKOUT_LIVE_PAYOUT_PATIENCE", atLeast(l.PayoutPatience, time.Minute))
}

// checkSimulated wants every address on loopback: one real endpoint among simulated ones would move
// real money by a test.
func (l Live) checkSimulated(note func(name string, err error)) {
	for name, addresses := range l.simulations() {
		for _, address := range addresses {
			if !onLoopback(address) {
				note(name, errors.New("must be an http:// address on 127.0.0.1, because CHECKOUT_LIVE_SIMULATED is set"))
			}
		}
	}
	if l.EthereumSignerURL != "" && !onLoopback(l.EthereumSignerURL) {
		note("CHECKOUT_ETHEREUM_SIGNER_URL", errors.New("must be on 127.0.0.1, because CHECKOUT_LIVE_SIMULATED is set"))
	}
	if l.EthereumChainID == 1 {
		note("CHECKOUT_ETHEREUM_CHAIN_ID",
			errors.New("must not be 1, the main network, because CHECKOUT_LIVE_SIMULATED is set"))
	}
	if strings.Contains(l.StripeSecretKey, "k_live_") {
		note("CHECKOUT_STRIPE_SECRET_KEY", errors.New("must not be a live key, because CHECKOUT_LIVE_SIMULATED is set"))
	}
}

func (l Live) checkReal(note func(name string, err error)) {
	const simulated = "is for a simulation: set CHECKOUT_LIVE_SIMULATED too, or remove it"
	for name, address := range map[string]string{
		"CHECKOUT_STRIPE_API_URL": l.StripeAPIURL, "CHECKOUT_RATE_KRAKEN_URL": l.KrakenURL,
		"CHECKOUT_RATE_COINBASE_URL": l.CoinbaseURL,
	} {
		if address != "" {
			note(name, errors.New(simulated))
		}
	}
	if !strings.HasPrefix(l.StripeScriptURL, "https://js.stripe.com/") {
		note("CHECKOUT_STRIPE_JS_URL", errors.New("must begin with https://js.stripe.com/"))
	}
	if l.StripeSecretKey != "" && !hasAnyPrefix(l.StripeSecretKey, "sk_live_", "rk_live_") {
		note("CHECKOUT_STRIPE_SECRET_KEY", errors.New("must be a live key: sk_live_… or rk_live_…"))
	}
	if l.StripePublishableKey != "" && !strings.HasPrefix(l.StripePublishableKey, "pk_live_") {
		note("CHECKOUT_STRIPE_PUBLISHABLE_KEY", errors.New("must be a live key: pk_live_…"))
	}
	for _, secret := range l.StripeWebhookSecrets {
		if !strings.HasPrefix(secret, "whsec_") {
			note("CHECKOUT_STRIPE_WEBHOOK_SECRETS", errors.New("must be whsec_…, separated by commas"))
		}
	}
}

// ForAPI returns an error that names every setting that the API process still needs.
func (l Live) ForAPI() error {
	return needed(map[string]bool{
		"CHECKOUT_STRIPE_PUBLISHABLE_KEY": l.StripePublishableKey != "",
		"CHECKOUT_STRIPE_WEBHOOK_SECRETS": len(l.StripeWebhookSecrets) > 0,
		"CHECKOUT_ETHEREUM_TREASURY":      l.EthereumTreasury != "",
		"CHECKOUT_ETHEREUM_RPC_URLS":      len(l.EthereumRPCURLs) > 0, // for chainlink's prices
	})
}

// ForWorker returns an error that names every setting that the worker still needs.
func (l Live) ForWorker() error {
	present := map[string]bool{
		"CHECKOUT_STRIPE_SECRET_KEY":                                 l.StripeSecretKey != "",
		"CHECKOUT_ETHEREUM_RPC_URLS":                                 len(l.EthereumRPCURLs) > 0,
		"CHECKOUT_ETHEREUM_TREASURY":                                 l.EthereumTreasury != "",
		"CHECKOUT_ETHEREUM_KEYSTORE or CHECKOUT_ETHEREUM_SIGNER_URL": l.EthereumKeystore+l.EthereumSignerURL != "",
	}
	for name, text := range l.limits() {
		present[name] = text != ""
	}
	if l.EthereumKeystore != "" {
		present["CHECKOUT_ETHEREUM_KEYSTORE_PASSWORD_FILE"] = l.EthereumPasswordFile != ""
	}
	return needed(present)
}

func needed(present map[string]bool) error {
	var faults []error
	for name, there := range present {
		if !there {
			faults = append(faults, fmt.Errorf("%s is not set: live mode needs it", name))
		}
	}
	slices.SortFunc(faults, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errors.Join(faults...)
}

func (l Live) limits() map[string]string {
	return map[string]string{
		"CHECKOUT_LIVE_MAX_PAYOUT": l.MaxPayout, "CHECKOUT_LIVE_MAX_DAY": l.MaxDay,
		"CHECKOUT_LIVE_MERCHANT_MAX_DAY": l.MaxMerchantDay,
	}
}

// Limits returns the limits of payouts.
func (l Live) Limits() (limits checkout.PayoutLimits, err error) {
	for into, text := range map[*checkout.Amount]string{
		&limits.Payout: l.MaxPayout, &limits.Day: l.MaxDay, &limits.MerchantDay: l.MaxMerchantDay,
	} {
		if *into, err = dollars(text); err != nil {
			return checkout.PayoutLimits{}, err
		}
	}
	return limits, nil
}

// Feeds returns the addresses of Chainlink's feeds by price, nil for those of the main network.
func (l Live) Feeds() (map[string]string, error) {
	var feeds map[string]string
	for _, entry := range l.ChainlinkFeeds {
		price, address, ok := strings.Cut(strings.TrimSpace(entry), "=")
		if !ok {
			return nil, errors.New("must be PRICE=ADDRESS, such as ETH/USD=0x…, separated by commas")
		}
		if feeds == nil {
			feeds = map[string]string{}
		}
		feeds[price] = address
	}
	return feeds, nil
}

// KeystorePassword reads the password of the keystore from its file.
func (l Live) KeystorePassword() (string, error) {
	content, err := os.ReadFile(l.EthereumPasswordFile)
	if err != nil { // the error would be about a file that holds a secret
		return "", errors.New("CHECKOUT_ETHEREUM_KEYSTORE_PASSWORD_FILE cannot be read")
	}
	return strings.TrimRight(string(content), "\r\n"), nil
}

// Fraction reads a percentage such as "0.5%" as a part of one.
func Fraction(text string) (decimal.Decimal, error) {
	number, ok := strings.CutSuffix(text, "%")
	percent, err := decimal.NewFromString(number)
	if !ok || err != nil || len(number) > 10 || percent.IsNegative() {
		return decimal.Decimal{}, errors.New(`must be a percentage such as "0.5%"`)
	}
	return percent.Shift(-2), nil
}

// dollars reads a limit in US dollars as cents.
func dollars(text string) (checkout.Amount, error) {
	amount, err := decimal.NewFromString(text)
	most := decimal.New(1, 12)
	if err != nil || len(text) > 20 || !amount.IsPositive() || amount.GreaterThan(most) ||
		!amount.Equal(amount.Truncate(2)) {
		return 0, errors.New(`must be US dollars with at most 2 decimals, such as "2500"`)
	}
	return checkout.Amount(amount.Shift(2).IntPart()), nil
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

// ReservedAddresses returns the addresses that are no merchant's: the treasury's own and those of the
// tokens' contracts. No live payout goes there.
func (l Live) ReservedAddresses() []string {
	return present(l.EthereumTreasury, l.EthereumUSDC, l.EthereumUSDT)
}

// present returns the texts that are not empty.
func present(all ...string) []string {
	return slices.DeleteFunc(all, func(text string) bool { return text == "" })
}

// liveSetting returns the environment variable of a field of Live, "" for no such field.
func liveSetting(field string) string {
	f, ok := reflect.TypeFor[Live]().FieldByName(field)
	if !ok {
		return ""
	}
	name, _, _ := strings.Cut(f.Tag.Get("env"), ",")
	return name
}
