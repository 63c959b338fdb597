// Package crash tests processes that are killed, stopped or restored.
package crash

import (
	"testing"

	"example.com/checkout/deploy/proof/e2e"
)

func TestMain(m *testing.M) { e2e.MainWithoutShared(m) }
