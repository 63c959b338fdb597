// Package page tests the hosted page in a real browser.
package page

import (
	"testing"

	"example.com/checkout/deploy/proof/e2e"
)

func TestMain(m *testing.M) { e2e.Main(m) }
