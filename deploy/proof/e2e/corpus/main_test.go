// Package corpus tests the corpus of input: what is refused, and what is barely accepted.
package corpus

import (
	"testing"

	"example.com/checkout/deploy/proof/e2e"
)

func TestMain(m *testing.M) { e2e.Main(m) }
