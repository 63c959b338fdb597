package app_test

import (
	"os"
	"testing"

	"example.com/checkout/storage/pgtemp"
)

func TestMain(m *testing.M) {
	pgtemp.RunInParallel()
	os.Exit(m.Run())
}
