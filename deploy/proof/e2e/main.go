// Package e2e runs the service as in production, with its processes, the real Temporal server and the real PostgreSQL,
// and tests it from outside. It has the kit for the tests of every subject: a stack, a merchant, access to the database
// and Temporal, and the check of the invariants. The tests of this package share one stack. Those that break a stack,
// need another one or a browser are in the packages below; package chrome drives the browser.
package e2e

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/checkout/deploy/standin/build"
	"example.com/checkout/deploy/standin/chains"
	"example.com/checkout/deploy/standin/devstack"
	"example.com/checkout/deploy/standin/need"
	"example.com/checkout/storage/pgtemp"
	"example.com/checkout/storage/storagetest/must"
)

// RecordHistories writes the histories of the replay tests; see package history.
var RecordHistories = flag.String("record-histories", "", "directory to write the histories of the replay tests to")

// Long also runs the tests that break a stack on purpose or take minutes.
var Long = flag.Bool("long", false, "run the tests that break a stack on purpose or take minutes too")

// OnlyLong skips the test unless -long was given.
func OnlyLong(t *testing.T) {
	t.Helper() // the skip names the test's line
	if !*Long {
		t.Skip("breaks a stack on purpose or takes minutes: -long runs it")
	}
}

// pgBouncer puts PgBouncer between the processes of every stack and PostgreSQL.
var pgBouncer = flag.Bool("pgbouncer", false, "run the processes behind PgBouncer")

// Shared is the stack for tests that break nothing; nil in a package whose TestMain calls MainWithoutShared.
var Shared *devstack.Stack

// Main is the TestMain of a package whose tests use Shared. It starts that stack, runs the tests,
// and then checks the invariants on the stack.
func Main(m *testing.M) { run(m, true) }

// MainWithoutShared is the TestMain of a package whose tests start their own stacks.
func MainWithoutShared(m *testing.M) { run(m, false) }

func run(m *testing.M, withShared bool) {
	devstack.RunCommand()
	pgtemp.RunInParallel()
	flag.Parse() // a flag -parallel overrides this
	os.Exit(runTests(m, withShared))
}

func runTests(m *testing.M, withShared bool) int {
	defer need.Report(os.Stderr)
	if !withShared {
		return m.Run()
	}
	dir, err := os.MkdirTemp("", "checkout-e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }() // the system cleans up what is left

	Shared, err = startStack(devstack.Options{
		Dir: filepath.Join(dir, "shared"), RetrySchedule: SharedSchedule,
		Namespace: "prod.a1b2c", // a setting; on Temporal Cloud it is never "checkout"
		Env:       []string{"OTEL_TRACES_EXPORTER=console", "OTEL_METRICS_EXPORTER=prometheus", "CHECKOUT_RECONCILE_INTERVAL=5s"},
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer Shared.Stop()
	if status := m.Run(); status != 0 {
		return status
	}
	return checkShared()
}

func startStack(o devstack.Options) (*devstack.Stack, error) {
	// The first build of Temporal takes minutes. The limit is shorter than go test's own, whose error says less.
	notBuilt := errors.New(`not started within 9 minutes: build Temporal first, with "go run ./deploy/cmd/devstack -build"`)
	ctx, cancel := context.WithTimeoutCause(context.Background(), 9*time.Minute, notBuilt)
	defer cancel()
	o.Out = os.Stderr
	o.PgBouncer = o.PgBouncer || *pgBouncer
	// Tests send more requests than merchants and customers may. A test can set other limits.
	o.Env = append([]string{
		"CHECKOUT_TEST_RATE_LIMIT=10000", "CHECKOUT_LIVE_RATE_LIMIT=10000", "CHECKOUT_BAD_KEY_RATE_LIMIT=10000",
		"CHECKOUT_PAGE_RATE_LIMIT=10000", "CHECKOUT_FORM_RATE_LIMIT=10000", "CHECKOUT_DASHBOARD_RATE_LIMIT=10000",
	}, o.Env...)
	return devstack.Start(ctx, o)
}

// Beside starts a second service on Shared's PostgreSQL and Temporal, with a database and a namespace
// of its own. The test may break its processes, and make up rows, which the invariants would rightly report.
func Beside(t *testing.T, o devstack.Options) *devstack.Stack {
	if !*pgBouncer { // which serves one database
		name := "beside_" + strings.ToLower(rand.Text()[:10])
		o.DatabaseURL, o.Temporal = Shared.Postgres.URL(name), Shared.Temporal
		o.Namespace = cmp.Or(o.Namespace, name)
		require.NoError(t, Shared.Postgres.CreateDatabase(t.Context(), name, ""))
	}
	return OwnStack(t, o)
}

// OwnStack starts a stack that the test may break, in an empty directory unless o names one.
func OwnStack(t *testing.T, o devstack.Options) *devstack.Stack {
	if o.NoUI = true; o.Dir == "" {
		o.Dir = t.TempDir()
	}
	s, err := startStack(o)
	chains.SkipWithout(t, err) // of simulated live mode
	t.Cleanup(s.Stop)
	return s
}

// Log returns the log of a process of the stack.
func Log(t *testing.T, stack *devstack.Stack, process string) string {
	text := must.Get(os.ReadFile(stack.Log(process)))(t)
	return string(text)
}

// Path returns a path below the root of the source tree: tests run in the directory of their package.
func Path(elements ...string) string { return filepath.Join(root(), filepath.Join(elements...)) }

var root = sync.OnceValue(func() string {
	at, err := build.Source(".", "go.mod")
	if err != nil {
		panic(err)
	}
	return at
})
