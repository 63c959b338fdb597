// Package flood tests any number of calls and signals, which make no history long.
package flood

import (
	"testing"

	"example.com/checkout/deploy/proof/e2e"
)

func TestMain(m *testing.M) { e2e.Main(m) }
