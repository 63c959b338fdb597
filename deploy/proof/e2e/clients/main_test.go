// Package clients generates clients from the served OpenAPI document, with generators that merchants
// use, and takes each through the API of a running stack.
package clients

import (
	"testing"

	"example.com/checkout/deploy/proof/e2e"
)

func TestMain(m *testing.M) { e2e.Main(m) }
