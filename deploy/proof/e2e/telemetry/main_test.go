// Package telemetry tests traces, metrics and logs, and what must not be in them.
package telemetry

import (
	"testing"

	"example.com/checkout/deploy/proof/e2e"
)

func TestMain(m *testing.M) { e2e.Main(m) }
