package config

import (
	"strings"

	"example.com/checkout/workflows/address"
	"example.com/checkout/workflows/checkout"
)

// Stores holds the settings for tools that only read the service's data. They have the same names
// as in Config. The only secrets are those of the connections.
type Stores struct {
	DatabaseURL  string `env:"DATABASE_URL,required,notEmpty"`
	Pooler       Pooler
	Temporal     Temporal
	Schedules    Schedules
	DashboardURL string `env:"CHECKOUT_DASHBOARD_URL" envDefault:"http://127.0.0.1:8083"`
	TestChains   string `env:"CHECKOUT_TEST_CHAINS" envDefault:"sandbox"`

	live, test Networks // only the settings of refused payout addresses
}

// PayoutAddressRules returns the same as Config.PayoutAddressRules.
func (s Stores) PayoutAddressRules() address.Rules {
	return payoutAddressRules(s.TestChains == chainsNetworks, s.live, s.test)
}

// LoadStores reads environment as Load does, with errors in the same form.
func LoadStores(environment []string) (Stores, error) {
	var s Stores
	err := load(environment, &s, func(settings map[string]string, report func(string, error)) {
		s.live = addressSettings(checkout.ModeLive, settings)
		s.test = addressSettings(checkout.ModeTest, testNetworks(settings))
		s.check(report)
	})
	return s, err
}

func (s *Stores) check(report func(name string, err error)) {
	report("DATABASE_URL", CheckDatabaseURL(s.DatabaseURL))
	s.Pooler.check(report)
	s.Temporal.check(report)
	s.DashboardURL = strings.TrimSuffix(s.DashboardURL, "/")
	report("CHECKOUT_DASHBOARD_URL", checkPageURL(s.DashboardURL))
	s.Schedules.check(report)
	report("CHECKOUT_TEST_CHAINS", oneOf(s.TestChains, sandbox, chainsNetworks))
	s.live.readSanctions(report)
	s.test.readSanctions(report)
}

// addressSettings reads what the settings of a mode say of payout addresses. The others may be wrong: they are those
// of another process.
func addressSettings(mode checkout.Mode, settings map[string]string) Networks {
	n := Networks{Mode: mode}
	_ = parse(&n, settings)
	return n
}

// Ready holds the settings of `checkout health`: where an API and a worker say whether they are ready. It needs no
// secret, so that a job without any can ask.
type Ready struct {
	APIAddress    string `env:"CHECKOUT_API_ADDRESS" envDefault:"127.0.0.1:8080"`
	HealthAddress string `env:"CHECKOUT_HEALTH_ADDRESS" envDefault:"127.0.0.1:8084"`
}

// LoadReady reads environment as Load does, with errors in the same form.
func LoadReady(environment []string) (Ready, error) {
	var r Ready
	err := load(environment, &r, func(_ map[string]string, report func(string, error)) {
		report("CHECKOUT_API_ADDRESS", checkAddress(r.APIAddress))
		report("CHECKOUT_HEALTH_ADDRESS", checkAddress(r.HealthAddress))
	})
	return r, err
}
