package config

import (
	"fmt"
	"time"

	"example.com/checkout/workflows/checkout"
)

// Schedules holds the settings of Temporal's schedules. `checkout setup` makes these schedules.
type Schedules struct {
	// How often missing runs are started again.
	ReconcileEvery time.Duration `env:"CHECKOUT_RECONCILE_INTERVAL" envDefault:"1m"`
	// How long finished deliveries and their events stay in the log; at least 24h.
	DeliveryRetention time.Duration `env:"CHECKOUT_DELIVERY_RETENTION" envDefault:"720h"`
	// How long ended sessions stay, with their payments and payouts; at least 720h and as long as the log.
	// Without it they stay forever. Those with a real card network or chain always do.
	SessionRetention time.Duration `env:"CHECKOUT_SESSION_RETENTION"`
	// How long entries of the audit log stay; at least 8760h. Without it they stay for ever.
	AuditRetention time.Duration `env:"CHECKOUT_AUDIT_RETENTION"`
	// How long the sandbox's cards, charges and transfers stay; at least 720h. `0` keeps them for ever.
	SandboxRetention time.Duration `env:"CHECKOUT_SANDBOX_RETENTION" envDefault:"720h"`
	// How long the log of API requests stays that the dashboard shows; at least 1h.
	RequestRetention time.Duration `env:"CHECKOUT_REQUEST_RETENTION" envDefault:"168h"`
}

const (
	// minRetention is longer than a delivery can take, so that a merchant can always see how the
	// delivery ended. Idempotent answers name objects for as long, see storage.KeepAnswers.
	minRetention = 24 * time.Hour
	// minSessionRetention is the longest time for which something else needs a session: the dashboard
	// adds up 30 days, Temporal keeps closed runs for a week, an old secret explains signatures for a
	// week, and the sandbox's payouts may be retried.
	minSessionRetention = 30 * 24 * time.Hour
	// minAuditRetention is requirement 10.5.1 of PCI DSS 4.0.1.
	minAuditRetention = 365 * 24 * time.Hour
)

func (s Schedules) check(report func(name string, err error)) {
	report("CHECKOUT_RECONCILE_INTERVAL", atLeast(s.ReconcileEvery, time.Second))
	report("CHECKOUT_DELIVERY_RETENTION", atLeast(s.DeliveryRetention, minRetention))
	report("CHECKOUT_SESSION_RETENTION", keptFor(s.SessionRetention, minSessionRetention,
		"the dashboard shows 30 days, and Temporal keeps the runs of sessions for 7"))
	if s.SessionRetention != 0 && s.SessionRetention < s.DeliveryRetention {
		report("CHECKOUT_SESSION_RETENTION", fmt.Errorf(
			"must be at least CHECKOUT_DELIVERY_RETENTION, %s: the log names sessions", s.DeliveryRetention))
	}
	report("CHECKOUT_AUDIT_RETENTION", keptFor(s.AuditRetention, minAuditRetention,
		"rules for card payments require a year of changes"))
	report("CHECKOUT_SANDBOX_RETENTION", keptFor(s.SandboxRetention, minSessionRetention,
		"test payments may still be in use"))
	report("CHECKOUT_REQUEST_RETENTION", atLeast(s.RequestRetention, time.Hour))
}

// keptFor returns an error if rows would be deleted before least is over, with the reason.
// 0 keeps them for ever.
func keptFor(age, least time.Duration, why string) error {
	if age != 0 && age < least {
		return fmt.Errorf("must be at least %s, or 0 to keep all: %s", least, why)
	}
	return nil
}

// Setup holds the settings of `checkout setup`. It needs no key: its only secrets are those of the
// connections.
type Setup struct {
	DatabaseURL string `env:"DATABASE_URL,required,notEmpty"`
	Pooler      Pooler
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
	RestartRuns    bool          `env:"-"` // those that this version cannot go on with
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
	err := load(environment, &s, func(_ map[string]string, report func(string, error)) { s.check(report) })
	return s, err
}

func (s *Setup) check(report func(name string, err error)) {
	report("DATABASE_URL", CheckDatabaseURL(s.DatabaseURL))
	s.Pooler.check(report)
	s.Temporal.check(report)
	s.Schedules.check(report)
	if s.VisibilityURL != "" {
		report("CHECKOUT_TEMPORAL_VISIBILITY_URL", CheckDatabaseURL(s.VisibilityURL))
	}
	report("CHECKOUT_TEST_CARDS", oneOf(s.TestCards, sandbox, cardsStripe))
	report("CHECKOUT_TEST_CHAINS", oneOf(s.TestChains, sandbox, chainsNetworks))
}
