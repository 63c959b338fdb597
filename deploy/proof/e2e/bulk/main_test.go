// Package bulk tests bulk replays of deliveries.
package bulk

import (
	"testing"

	"example.com/checkout/deploy/proof/e2e"
)

func TestMain(m *testing.M) { e2e.MainWithoutShared(m) }
