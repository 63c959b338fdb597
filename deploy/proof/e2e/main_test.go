package e2e_test

import (
	"testing"

	"example.com/checkout/deploy/proof/e2e"
)

func TestMain(m *testing.M) { e2e.Main(m) }
