package dashboard

import (
	"os"
	"testing"

	"example.com/checkout/api/passhash"
	"example.com/checkout/storage/pgtemp"
)

// strongHashes makes hashes as costly as they are outside of tests.
var strongHashes func()

func TestMain(m *testing.M) {
	pgtemp.RunInParallel()
	strongHashes = passhash.Weaken()
	os.Exit(m.Run())
}
