package chains

import (
	"errors"
	"testing"

	"example.com/checkout/deploy/standin/need"
)

// ForTest returns an anvil that ends with the test. It skips the test when anvil is not installed
// and cannot be installed.
func ForTest(t testing.TB, o Options) *Anvil {
	t.Helper()
	anvil, err := StartAnvil(t.Context(), o)
	SkipWithout(t, err)
	t.Cleanup(anvil.Kill)
	return anvil
}

// BitcoinForTest returns a Bitcoin node that ends with the test. It skips the test when Debian's mirror gave none.
func BitcoinForTest(t testing.TB, o BitcoinOptions) *Bitcoin {
	t.Helper()
	node, err := StartBitcoin(t.Context(), o)
	SkipWithout(t, err)
	t.Cleanup(node.Close)
	return node
}

// SkipWithout skips the test when a program is missing, and fails it for every other error.
func SkipWithout(t testing.TB, err error) {
	t.Helper()
	if errors.Is(err, ErrNoKnots) {
		t.Log(err)
		need.Missing(t, "bitcoin-knots", "a way to http://deb.debian.org, and apt-get of Debian")
	}
	if errors.Is(err, ErrNotInstalled) {
		t.Log(err)
		need.Missing(t, "anvil or solc", "apt-get install npm")
	}
	if err != nil {
		t.Fatal(err)
	}
}
