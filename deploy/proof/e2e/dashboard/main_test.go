// Package dashboard tests the dashboard in a real browser.
package dashboard

import (
	"testing"

	"example.com/checkout/deploy/proof/e2e"
)

func TestMain(m *testing.M) { e2e.Main(m) }
