package apart

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"example.com/checkout/deploy/proof/e2e"
	"example.com/checkout/deploy/standin/devstack"
	"example.com/checkout/storage/pgtemp"
)

// TestFailover_LosesNothingAcknowledged kills PostgreSQL's primary under load, for the service and for
// Temporal, and promotes its synchronous standby. All processes find the new primary by themselves.
func TestFailover_LosesNothingAcknowledged(t *testing.T) {
	t.Parallel()
	e2e.OnlyLong(t)
	primary, standby := startPair(t)
	servers, err := url.Parse(primary.URL("checkout"))
	require.NoError(t, err)
	servers.Host = fmt.Sprintf("127.0.0.1:%d,127.0.0.1:%d", primary.Port(), standby.Port())
	servers.RawQuery += "&target_session_attrs=read-write"
	stack := e2e.OwnStack(t, devstack.Options{RetrySchedule: e2e.SharedSchedule, DatabaseURL: servers.String()})
	m := e2e.NewMerchant(t, stack)

	load := e2e.StartLoad(m)
	e2e.Await(t, "the load runs", 10*time.Second, func() bool { return load.Since(time.Time{}) >= 20 })
	killed := time.Now()
	primary.Kill()
	time.Sleep(time.Second) // as long as a manager of the cluster needs to see it
	execute(t, standby, `SELECT pg_promote()`)
	e2e.Await(t, "sessions are created again", 30*time.Second, func() bool { return load.Since(killed) >= 20 })
	acknowledged, faults := load.Stop()
	t.Logf("%d sessions acknowledged, %d requests failed; for %s no session was created",
		len(acknowledged), len(faults), load.Gap().Round(time.Millisecond))

	requireCompleted(m, "failover", acknowledged)
	e2e.RequireInvariants(t, stack, e2e.SharedSchedule)
}

// startPair starts a primary with the database of the service, and its synchronous standby.
func startPair(t *testing.T) (primary, standby *pgtemp.Server) {
	t.Helper()
	programs, err := devstack.EnsurePostgres(t.Context(), os.Stderr)
	require.NoError(t, err)
	start := func(dir string) *pgtemp.Server {
		server, err := pgtemp.Start(t.Context(), pgtemp.Options{Dir: dir, BinDir: programs})
		require.NoError(t, err)
		t.Cleanup(func() { _ = server.Stop() }) // the primary was killed
		return server
	}
	dir := t.TempDir()
	first, second := filepath.Join(dir, "first"), filepath.Join(dir, "second")
	primary = start(first)
	require.NoError(t, primary.CreateDatabase(t.Context(), "checkout", ""))
	require.NoError(t, os.Mkdir(second, 0o700))
	password, err := os.ReadFile(filepath.Join(first, "password"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(second, "password"), password, 0o600))
	backup := exec.CommandContext(t.Context(), filepath.Join(programs, "pg_basebackup"), "--dbname="+primary.URL("postgres"),
		"--pgdata="+filepath.Join(second, "data"), "--wal-method=stream", "--checkpoint=fast", "--no-sync", "--write-recovery-conf")
	said, err := backup.CombinedOutput()
	require.NoError(t, err, "%s", said)
	standby = start(second)
	// The copy does not have this setting: after the promotion nobody would confirm a commit.
	execute(t, primary, `ALTER SYSTEM SET synchronous_standby_names = '*'`)
	execute(t, primary, `SELECT pg_reload_conf()`)
	e2e.Await(t, "the standby confirms commits", 10*time.Second, func() bool {
		return execute(t, primary, `SELECT FROM pg_stat_replication WHERE sync_state = 'sync'`) == 1
	})
	return primary, standby
}

// execute returns the number of rows.
func execute(t *testing.T, server *pgtemp.Server, sql string) int64 {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), server.URL("postgres"))
	require.NoError(t, err)
	defer func() { _ = conn.Close(context.Background()) }() // closed with the test
	done, err := conn.Exec(t.Context(), sql)
	require.NoError(t, err)
	return done.RowsAffected()
}
