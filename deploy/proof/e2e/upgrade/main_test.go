// Package upgrade tests upgrades under load.
package upgrade

import (
	"testing"

	"example.com/checkout/deploy/proof/e2e"
)

func TestMain(m *testing.M) { e2e.MainWithoutShared(m) }
