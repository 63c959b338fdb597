package config

import (
	"example.com/checkout/workflows/address"
	"example.com/checkout/workflows/checkout"
)

// Stores holds the settings for tools that only read the service's data. They have the same names
// as in Config. The only secrets are those of the connections.
type Stores struct {
	DatabaseURL      string `env:"DATABASE_URL,required,notEmpty"`
	Pooler           Pooler
	Temporal         Temporal
	Schedules        Schedules
	DashboardURL     string `env:"CHECKOUT_DASHBOARD_URL" envDefault:"http://127.0.0.1:8083"`
	TestChains       string `env:"CHECKOUT_TEST_CHAINS" envDefault:"sandbox"`
	EthereumTreasury string `env:"CHECKOUT_ETHEREUM_TREASURY"`
	EthereumUSDC     string `env:"CHECKOUT_ETHEREUM_USDC" envDefault:"0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48"`
	EthereumUSDT     string `env:"CHECKOUT_ETHEREUM_USDT" envDefault:"0xdAC17F958D2ee523a2206206994597C13D831ec7"`

	TestTreasury string `env:"CHECKOUT_TEST_ETHEREUM_TREASURY"`
	TestUSDC     string `env:"CHECKOUT_TEST_ETHEREUM_USDC" envDefault:"0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48"`
	TestUSDT     string `env:"CHECKOUT_TEST_ETHEREUM_USDT" envDefault:"0xdAC17F958D2ee523a2206206994597C13D831ec7"`

	SanctionsFile       string `env:"CHECKOUT_SANCTIONS_FILE"`
	TestSanctionsFile   string `env:"CHECKOUT_TEST_SANCTIONS_FILE"`
	SanctionsOracle     string `env:"CHECKOUT_SANCTIONS_ORACLE"`
	TestSanctionsOracle string `env:"CHECKOUT_TEST_SANCTIONS_ORACLE"`

	sanctioned map[checkout.Mode]checkout.AddressList
}

// PayoutAddressRules returns the same as Config.PayoutAddressRules.
func (s Stores) PayoutAddressRules() address.Rules {
	return address.Rules{
		TestNetworks: s.TestChains == chainsNetworks,
		Reserved: map[checkout.Mode][]string{
			checkout.ModeLive: present(s.EthereumTreasury, s.EthereumUSDC, s.EthereumUSDT, s.SanctionsOracle),
			checkout.ModeTest: present(s.TestTreasury, s.TestUSDC, s.TestUSDT, s.TestSanctionsOracle),
		},
		Sanctioned: s.sanctioned,
	}
}

// LoadStores reads environment as Load does, with errors in the same form.
func LoadStores(environment []string) (Stores, error) {
	var s Stores
	err := load(environment, &s, func(_ map[string]string, note func(string, error)) { s.check(note) })
	return s, err
}

func (s *Stores) check(note func(name string, err error)) {
	note("DATABASE_URL", CheckDatabaseURL(s.DatabaseURL))
	s.Pooler.check(note)
	s.Temporal.check(note)
	note("CHECKOUT_DASHBOARD_URL", checkPageURL(s.DashboardURL))
	s.Schedules.check(note)
	note("CHECKOUT_TEST_CHAINS", oneOf(s.TestChains, sandbox, chainsNetworks))
	live, err := readSanctions(s.SanctionsFile)
	note("CHECKOUT_SANCTIONS_FILE", err)
	test, err := readSanctions(s.TestSanctionsFile)
	note("CHECKOUT_TEST_SANCTIONS_FILE", err)
	s.sanctioned = sanctioned(live, test)
}
