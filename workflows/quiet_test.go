package workflows_test

import (
	"io"
	"log/slog"
	"os"
	"testing"

	"go.temporal.io/sdk/log"
)

// TestMain keeps the log lines of workflows and activities out of the results.
func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.NewTextHandler(io.Discard, nil)))
	os.Exit(m.Run())
}

var quiet = log.NewStructuredLogger(slog.New(slog.NewTextHandler(io.Discard, nil)))
