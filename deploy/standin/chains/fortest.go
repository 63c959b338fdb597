package chains

import (
	"errors"
	"testing"
)

// ForTest returns an anvil that ends with the test. It skips the test when anvil is not installed
// and cannot be installed.
func ForTest(t testing.TB, o Options) *Anvil {
	t.Helper()
	anvil, err := StartAnvil(t.Context(), o)
	skipWithout(t, err)
	t.Cleanup(anvil.Kill)
	return anvil
}

// skipWithout skips the test when err is ErrNotInstalled and fails it for every other error. .ci/run
// installs the programs in a step of its own, which fails where a test would be skipped.
func skipWithout(t testing.TB, err error) {
	t.Helper()
	if errors.Is(err, ErrNotInstalled) {
		t.Skipf("this test needs npm and its registry once: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
}
