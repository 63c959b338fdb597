// Package stripe is the card network of live mode, over Stripe's API. No method of it takes a card number: Stripe's own
// form in the customer's browser turns the card into a confirmation token (ctoken_…).
//
// A charge is a PaymentIntent whose confirmation method is "manual". Only a secret key can confirm it, so neither a
// browser nor a bank's page can complete a charge. What an intent's state says is the truth: after any error the state
// is asked.
package stripe

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/stripe/stripe-go/v85"

	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/money"
)

// requestTimeout is how long one request to Stripe may take. The SDK's own limit of 80 s is longer
// than an activity may run.
const requestTimeout = 15 * time.Second

// Options configures a Network.
type Options struct {
	// SecretKey is Stripe's secret or restricted key. In live mode it begins with sk_live_ or
	// rk_live_, in test mode with sk_test_ or rk_test_.
	SecretKey string
	Mode      checkout.Mode
	// APIURL is the address of another API than Stripe's. It is allowed on loopback only, and only
	// together with Simulated. "" means Stripe.
	APIURL string
	// Simulated means that APIURL is the double of deploy/standin/acquirer. The key is then a test key in either mode, so
	// that no real one reaches the double.
	Simulated bool
}

// Network is Stripe, seen from one account. It implements checkout.CardNetwork. Its methods may be
// called from several goroutines.
type Network struct {
	api  *stripe.Client
	mode checkout.Mode
}

var _ checkout.CardNetwork = (*Network)(nil)

// New returns the network. Its errors name the wrong option and never quote the key.
func New(o Options) (*Network, error) {
	if err := checkKey(o); err != nil {
		return nil, err
	}
	if err := checkAddress(o); err != nil {
		return nil, err
	}
	config := &stripe.BackendConfig{
		HTTPClient: &http.Client{
			Timeout:   requestTimeout,
			Transport: http.DefaultTransport.(*http.Transport).Clone(),
			// Stripe does not redirect. Following would send the key to somebody else.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		// The SDK's messages quote answers, which hold client secrets.
		LeveledLogger:     &stripe.LeveledLogger{Level: stripe.LevelNull},
		MaxNetworkRetries: stripe.Int64(0), // Temporal repeats
		EnableTelemetry:   stripe.Bool(false),
	}
	if o.APIURL != "" {
		config.URL = stripe.String(strings.TrimSuffix(o.APIURL, "/"))
	}
	api := stripe.NewClient(o.SecretKey, stripe.WithBackends(stripe.NewBackendsWithConfig(config)))
	return &Network{api: api, mode: o.Mode}, nil
}

// checkKey refuses a key of the other mode: a test key in live mode would take orders for nothing,
// and a live key in test mode would charge real cards.
func checkKey(o Options) error {
	kind, rest, _ := strings.Cut(o.SecretKey, "_")
	mode, secret, _ := strings.Cut(rest, "_")
	switch {
	case kind != "sk" && kind != "rk", mode != "test" && mode != "live", secret == "":
		return errors.New("the Stripe key is not a secret or restricted key: it begins with sk_ or rk_")
	case o.Mode != checkout.ModeTest && o.Mode != checkout.ModeLive:
		return fmt.Errorf("mode %q is neither test nor live", o.Mode)
	case o.Simulated && mode != string(checkout.ModeTest):
		return errors.New("the Stripe key is a live key, and this is a simulation")
	case !o.Simulated && mode != string(o.Mode):
		return fmt.Errorf("the Stripe key is a %s key, and this is %s mode", mode, o.Mode)
	}
	return nil
}

// checkAddress allows another address than Stripe's for a simulation on this computer only.
func checkAddress(o Options) error {
	switch {
	case o.APIURL == "" && o.Simulated:
		return errors.New("a simulation needs the address of the double: Stripe itself is no simulation")
	case o.APIURL == "":
		return nil
	case !o.Simulated:
		return errors.New("another address than Stripe's is allowed in a simulation only")
	}
	address, err := url.Parse(o.APIURL)
	if err != nil || address.Scheme != "http" && address.Scheme != "https" || address.User != nil ||
		address.RawQuery != "" || address.Fragment != "" {
		return errors.New("the address of the Stripe double is not a plain http:// address")
	}
	if ip := net.ParseIP(address.Hostname()); !ip.IsLoopback() {
		return errors.New("the address of the Stripe double is not on loopback: write 127.0.0.1 and a port")
	}
	return nil
}

// places holds the currencies that are charged, with the decimals of the amount that Stripe takes.
// Stripe counts some currencies in whole units; 10.50 of such a currency would become 1,050.
var places = map[money.Currency]int32{
	money.USD: 2, money.EUR: 2, money.GBP: 2, money.CAD: 2, money.AUD: 2,
}

// checkMoney refuses an amount that Stripe would count in another way than we do.
func checkMoney(amount money.Amount, currency money.Currency) error {
	decimals, known := places[currency]
	switch {
	case !known:
		return fmt.Errorf("currency %q is not charged with Stripe", currency)
	case decimals != currency.Places():
		return fmt.Errorf("currency %s has %d decimals at Stripe and %d here", currency, decimals, currency.Places())
	case amount <= 0:
		return fmt.Errorf("amount %d is not above zero", amount)
	}
	return nil
}
