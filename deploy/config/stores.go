package config

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"example.com/checkout/storage"
	"github.com/caarlos0/env/v11"
)

// Stores holds the settings for tools that only read the service's data. They have the same names
// as in Config. The only secret is the database's password.
type Stores struct {
	DatabaseURL       string        `env:"DATABASE_URL,required,notEmpty"`
	TemporalAddress   string        `env:"TEMPORAL_ADDRESS" envDefault:"127.0.0.1:7233"`
	TemporalNamespace string        `env:"TEMPORAL_NAMESPACE" envDefault:"checkout"`
	DashboardURL      string        `env:"CHECKOUT_DASHBOARD_URL" envDefault:"http://127.0.0.1:8083"`
	DeliveryRetention time.Duration `env:"CHECKOUT_DELIVERY_RETENTION" envDefault:"720h"`
	TestChains        string        `env:"CHECKOUT_TEST_CHAINS" envDefault:"sandbox"`
	EthereumTreasury  string        `env:"CHECKOUT_ETHEREUM_TREASURY"`
	EthereumUSDC      string        `env:"CHECKOUT_ETHEREUM_USDC" envDefault:"0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48"`
	EthereumUSDT      string        `env:"CHECKOUT_ETHEREUM_USDT" envDefault:"0xdAC17F958D2ee523a2206206994597C13D831ec7"`
}

// PayoutAddressRules returns the same as Config.PayoutAddressRules.
func (s Stores) PayoutAddressRules() storage.PayoutAddressRules {
	return storage.PayoutAddressRules{
		TestNetworks: s.TestChains == chainsNetworks,
		Reserved:     present(s.EthereumTreasury, s.EthereumUSDC, s.EthereumUSDT),
	}
}

// LoadStores reads environment as Load does, with errors in the same form.
func LoadStores(environment []string) (Stores, error) {
	var s Stores
	faults := describe(env.ParseWithOptions(&s, env.Options{Environment: env.ToMap(environment)}))
	if faults == nil {
		faults = map[string]error{}
	}
	for name, err := range map[string]error{
		"DATABASE_URL": CheckDatabaseURL(s.DatabaseURL), "TEMPORAL_ADDRESS": checkAddress(s.TemporalAddress),
		"CHECKOUT_DASHBOARD_URL":      checkPageURL(s.DashboardURL),
		"CHECKOUT_DELIVERY_RETENTION": atLeast(s.DeliveryRetention, minRetention),
		"CHECKOUT_TEST_CHAINS":        oneOf(s.TestChains, sandbox, chainsNetworks),
	} {
		if err != nil && faults[name] == nil {
			faults[name] = err
		}
	}
	var all []error
	for _, name := range slices.Sorted(maps.Keys(faults)) {
		all = append(all, fmt.Errorf("%s %w", name, faults[name]))
	}
	return s, errors.Join(all...)
}
