// Package history tests the histories of the replay tests.
package history

import (
	"flag"
	"testing"

	"example.com/checkout/deploy/proof/e2e"
)

// TestMain starts the shared stack only for the recording: the other test has another stack.
func TestMain(m *testing.M) {
	if flag.Parse(); *e2e.RecordHistories == "" {
		e2e.MainWithoutShared(m)
	}
	e2e.Main(m)
}
