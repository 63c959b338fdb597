package crash

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/checkout/deploy/chaos/invariant"
	"example.com/checkout/deploy/devstack"
	"example.com/checkout/deploy/e2e"
	"example.com/checkout/storage/pgtemp"
)

// TestRestore_ToAMoment loses PostgreSQL, which the service and Temporal share, and restores it with
// pgBackRest to a moment in the middle of the load. The backup was made under load too. Everything goes on
// from that moment.
func TestRestore_ToAMoment(t *testing.T) {
	t.Parallel()
	archive := startArchived(t)
	stack := e2e.OwnStack(t, devstack.Options{RetrySchedule: e2e.SharedSchedule, DatabaseURL: archive.server.URL("checkout")})
	m, failing := e2e.NewMerchant(t, stack), e2e.NewMerchant(t, stack)

	load := startLoad(m)
	archive.backrest("backup", "--type=full")
	atMoment, unsent := m.Create(e2e.Terms), failing.RefusedDelivery()
	e2e.Await(t, "the load runs", 10*time.Second, func() bool { return load.since(time.Time{}) >= 20 })
	moment := e2e.Query[time.Time](t, stack, `SELECT clock_timestamp()`)
	e2e.Await(t, "the load goes on", 10*time.Second, func() bool { return load.since(moment) >= 20 })
	acknowledged := load.stop()
	m.MustPay(atMoment, e2e.CardSucceeds)
	failing.Receiver.Answer(http.StatusOK)
	// All requests so far were right. The restored database does not know some of them.
	e2e.RequireInvariants(t, stack, e2e.SharedSchedule)
	archive.rotate()

	stack.API.Kill()
	stack.Worker.Kill()
	stack.Temporal.Kill()
	archive.lose()
	archive.restore(moment)
	restored := time.Now()
	require.NoError(t, stack.Temporal.Start(t.Context()))
	require.NoError(t, stack.StartWorker(t.Context()))
	require.NoError(t, stack.StartAPI(t.Context()))

	kept := load.until(moment)
	require.NotEmpty(t, kept)
	for _, id := range acknowledged[len(kept)+1:] { // the first one may be committed before and answered after the moment
		m.Must(http.StatusNotFound, http.MethodGet, "/v1/checkout/"+id, "")
	}
	require.Equal(t, "pending", m.Session(atMoment).Field("status"), "as it was")
	require.Equal(t, "pending", e2e.Query[string](t, stack, `SELECT status FROM webhook_delivery WHERE id = $1`, unsent), "as it was")
	requireCompleted(m, "restore", append(kept, atMoment, m.Create(e2e.Terms)))

	var unknown int
	e2e.RequireInvariants(t, stack, e2e.SharedSchedule, func(facts *invariant.Facts) {
		unknown = len(facts.Requests)
		facts.Requests = slices.DeleteFunc(facts.Requests, func(r devstack.LoggedRequest) bool {
			return !r.Started && r.At.After(moment) && r.At.Before(restored)
		})
		unknown -= len(facts.Requests)
	})
	require.Positive(t, unknown)
	require.Zero(t, e2e.Query[int](t, stack, `SELECT count(*) FROM webhook_delivery WHERE status <> 'delivered'`))
	t.Logf("%d of %d sessions kept; the restored database does not know %d requests", len(kept), len(acknowledged), unknown)
}

// archived is a server whose WAL pgBackRest archives.
type archived struct {
	t      *testing.T
	server *pgtemp.Server
	config string // path of pgbackrest.conf
	dir    string // of the server
}

// startArchived starts a server with the database of the service, an empty repository beside it, and archiving.
func startArchived(t *testing.T) *archived {
	t.Helper()
	program, err := exec.LookPath("pgbackrest")
	if err != nil {
		t.Skip("pgBackRest is missing; on Debian: apt-get install --no-install-recommends pgbackrest")
	}
	dir := t.TempDir()
	a := &archived{t: t, config: filepath.Join(dir, "pgbackrest.conf"), dir: filepath.Join(dir, "postgres")}
	t.Cleanup(func() { _ = a.server.Stop() })
	a.start(0)
	require.NoError(t, a.server.CreateDatabase(t.Context(), "checkout", ""))
	execute(t, a.server, `ALTER SYSTEM SET archive_mode = on`)
	execute(t, a.server, fmt.Sprintf(`ALTER SYSTEM SET archive_command = '%s --config=%s --stanza=checkout archive-push %%p'`,
		program, a.config))
	require.NoError(t, a.server.Stop())
	a.start(a.server.Port())
	require.NoError(t, os.WriteFile(a.config, fmt.Appendf(nil, pgBackRestConfig,
		dir, filepath.Join(a.dir, "data"), a.server.Port()), 0o644)) // its user may be another
	a.backrest("stanza-create")
	a.backrest("check")
	return a
}

// pgBackRestConfig encrypts the repository, as one away from PostgreSQL must be.
const pgBackRestConfig = `[global]
repo1-path=%[1]s/repository
repo1-retention-full=2
repo1-cipher-type=aes-256-cbc
repo1-cipher-pass=a-test
log-path=%[1]s
lock-path=%[1]s
spool-path=%[1]s
start-fast=y
[checkout]
pg1-path=%[2]s
pg1-port=%[3]d
pg1-user=postgres
`

func (a *archived) start(port int) {
	a.t.Helper()
	programs, err := devstack.EnsurePostgres(a.t.Context(), os.Stderr)
	require.NoError(a.t, err)
	a.server, err = pgtemp.Start(a.t.Context(), pgtemp.Options{Dir: a.dir, Port: port, BinDir: programs})
	require.NoError(a.t, err)
}

// backrest runs a command of pgBackRest as the server's user.
func (a *archived) backrest(args ...string) {
	a.t.Helper()
	password, err := os.ReadFile(filepath.Join(a.dir, "password"))
	require.NoError(a.t, err)
	run := exec.CommandContext(a.t.Context(), "pgbackrest", append([]string{"--config=" + a.config, "--stanza=checkout"}, args...)...)
	run.Env = append(os.Environ(), "PGHOST=127.0.0.1", "PGPASSWORD="+string(password[:len(password)-1]))
	a.server.RunAsServer(run)
	said, err := run.CombinedOutput()
	require.NoError(a.t, err, "%s", said)
}

// rotate archives all WAL so far.
func (a *archived) rotate() {
	a.t.Helper()
	execute(a.t, a.server, `SELECT pg_switch_wal()`)
	a.backrest("check") // it waits for the archive
}

// lose kills the server and removes its directory. Only the repository is left.
func (a *archived) lose() {
	a.t.Helper()
	a.server.Kill()
	require.NoError(a.t, os.RemoveAll(filepath.Join(a.dir, "data")))
}

// restore restores the server as it was at a moment, and starts it.
func (a *archived) restore(moment time.Time) {
	a.t.Helper()
	a.backrest("restore", "--type=time", "--target="+moment.UTC().Format("2006-01-02 15:04:05.000000+00"), "--target-action=promote")
	a.start(a.server.Port())
	e2e.Await(a.t, "the server takes writes", 30*time.Second, func() bool {
		return execute(a.t, a.server, `SELECT WHERE NOT pg_is_in_recovery()`) == 1
	})
}

var _ = context.Background
