// Package e2e runs the service as it runs in production, processes, the real
// Temporal server and the real PostgreSQL included, and looks at it from outside.
package e2e

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/checkout/deploy/devstack"
)

// recordHistories writes the histories of the replay tests; see record_test.go.
var recordHistories = flag.String("record-histories", "", "directory to write the histories of the replay tests to")

// shared is the stack of the tests that break nothing.
var shared *devstack.Stack

func TestMain(m *testing.M) {
	devstack.RunCommand()
	// The tests mostly wait, for schedules above all: more of them at a time than this computer has cores.
	if err := flag.Set("test.parallel", strconv.Itoa(max(4, runtime.GOMAXPROCS(0)))); err != nil {
		panic(err)
	}
	flag.Parse() // -parallel says otherwise
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "checkout-e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }() // the system cleans up what is left
	shared, err = startStack(devstack.Options{
		Dir: filepath.Join(dir, "shared"), RetrySchedule: sharedSchedule, Env: []string{"OTEL_TRACES_EXPORTER=console", "OTEL_METRICS_EXPORTER=prometheus", "CHECKOUT_RECONCILE_INTERVAL=5s"},
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer shared.Stop()
	defer func() {
		if madeUpStack.stack != nil {
			madeUpStack.stack.Stop()
		}
	}()
	if status := m.Run(); status != 0 {
		return status
	}
	return checkShared()
}

// madeUp is the stack of the tests that make up rows, which the invariants would
// rightly find; it starts with the first of them.
func madeUp(t *testing.T) *devstack.Stack {
	t.Helper()
	madeUpStack.Do(func() {
		madeUpStack.stack, madeUpStack.err = startStack(devstack.Options{
			Dir: filepath.Join(filepath.Dir(filepath.Dir(shared.EnvironmentFile())), "made-up"), RetrySchedule: sharedSchedule, NoUI: true,
			Env: []string{"CHECKOUT_RECONCILE_INTERVAL=5s"},
		})
	})
	require.NoError(t, madeUpStack.err)
	return madeUpStack.stack
}

var madeUpStack struct {
	sync.Once
	stack *devstack.Stack
	err   error
}

func startStack(o devstack.Options) (*devstack.Stack, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 9*time.Minute) // the first build of Temporal takes minutes
	defer cancel()
	o.Out = os.Stderr
	// Tests ask more often than merchants and customers may, unless one says otherwise.
	o.Env = append([]string{
		"CHECKOUT_TEST_RATE_LIMIT=10000", "CHECKOUT_LIVE_RATE_LIMIT=10000", "CHECKOUT_BAD_KEY_RATE_LIMIT=10000",
		"CHECKOUT_PAGE_RATE_LIMIT=10000", "CHECKOUT_FORM_RATE_LIMIT=10000", "CHECKOUT_DASHBOARD_RATE_LIMIT=10000",
	}, o.Env...)
	return devstack.Start(ctx, o)
}

// ownStack starts a stack that the test may break.
func ownStack(t *testing.T, o devstack.Options) *devstack.Stack {
	t.Helper()
	o.Dir, o.NoUI = t.TempDir(), true
	s, err := startStack(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	return s
}
