package config

import (
	"time"

	"example.com/checkout/workflows/checkout"
)

// Schedules holds the settings of Temporal's schedules. `checkout setup` makes these schedules.
type Schedules struct {
	// How often missing runs are started again.
	ReconcileEvery time.Duration `env:"CHECKOUT_RECONCILE_INTERVAL" envDefault:"1m"`
	// How long finished deliveries and their events stay in the log; at least 24h.
	DeliveryRetention time.Duration `env:"CHECKOUT_DELIVERY_RETENTION" envDefault:"720h"`
}

// minRetention is longer than a delivery can take, so that a merchant can always see how the
// delivery ended.
const minRetention = 24 * time.Hour

func (s Schedules) check(note func(name string, err error)) {
	note("CHECKOUT_RECONCILE_INTERVAL", atLeast(s.ReconcileEvery, time.Second))
	note("CHECKOUT_DELIVERY_RETENTION", atLeast(s.DeliveryRetention, minRetention))
}

// Setup holds the settings of `checkout setup`. It needs no key: its only secrets are those of the
// connections.
type Setup struct {
	DatabaseURL string `env:"DATABASE_URL,required,notEmpty"`
	Temporal    Temporal
	Schedules   Schedules
	// Real networks have schedules of their own. A treasury means that live mode is configured.
	EthereumTreasury string `env:"CHECKOUT_ETHEREUM_TREASURY"`
	TestCards        string `env:"CHECKOUT_TEST_CARDS" envDefault:"sandbox"`
	TestChains       string `env:"CHECKOUT_TEST_CHAINS" envDefault:"sandbox"`

	// Temporal's visibility database on PostgreSQL, as a postgres:// URL. Only --lean-visibility needs it.
	VisibilityURL string `env:"CHECKOUT_TEMPORAL_VISIBILITY_URL"`

	// Flags.
	Cell           checkout.Cell `env:"-"` // "" leaves what is there
	LeanVisibility bool          `env:"-"`
}

// Cards returns the modes whose cards a real card network charges.
func (s Setup) Cards() []checkout.Mode { return s.modes(s.TestCards) }

// Chains returns the modes whose payouts are sent on real chains.
func (s Setup) Chains() []checkout.Mode { return s.modes(s.TestChains) }

func (s Setup) modes(test string) (real []checkout.Mode) {
	if s.EthereumTreasury != "" {
		real = append(real, checkout.ModeLive)
	}
	if test != sandbox {
		real = append(real, checkout.ModeTest)
	}
	return real
}

// LoadSetup reads environment as Load does, with errors in the same form.
func LoadSetup(environment []string) (Setup, error) {
	var s Setup
	err := load(environment, &s, s.check)
	return s, err
}

func (s *Setup) check(note func(name string, err error)) {
	note("DATABASE_URL", CheckDatabaseURL(s.DatabaseURL))
	s.Temporal.check(note)
	s.Schedules.check(note)
	if s.VisibilityURL != "" {
		note("CHECKOUT_TEMPORAL_VISIBILITY_URL", CheckDatabaseURL(s.VisibilityURL))
	}
	note("CHECKOUT_TEST_CARDS", oneOf(s.TestCards, sandbox, cardsStripe))
	note("CHECKOUT_TEST_CHAINS", oneOf(s.TestChains, sandbox, chainsNetworks))
}
