// Package apart has the tests that need another stack: they break it, or its Temporal or PostgreSQL is not the usual one.
package apart

import (
	"testing"

	"example.com/checkout/deploy/proof/e2e"
)

func TestMain(m *testing.M) { e2e.MainWithoutShared(m) }
