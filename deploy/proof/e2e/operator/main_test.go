// Package operator tests operators: Temporal's UI, the commands, the schedules.
package operator

import (
	"testing"

	"example.com/checkout/deploy/proof/e2e"
)

func TestMain(m *testing.M) { e2e.Main(m) }
