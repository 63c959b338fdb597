// Package money tests live mode with simulated money: a real Ethereum node, the acquirer's double, and
// a customer in a real browser.
package money

import (
	"testing"

	"example.com/checkout/deploy/proof/e2e"
)

func TestMain(m *testing.M) { e2e.MainWithoutShared(m) }
