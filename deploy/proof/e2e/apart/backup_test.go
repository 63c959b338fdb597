package apart

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/checkout/deploy/proof/e2e"
	"example.com/checkout/deploy/standin/devstack"
	"example.com/checkout/workflows/checkout"
)

// TestBackup_OfBothTogetherGoesOn takes a backup of the running PostgreSQL, which
// the service and Temporal share, loses everything and starts from it: pending
// sessions can be paid, a payment in flight is decided, deliveries go on. What
// was sent after the backup is sent again.
func TestBackup_OfBothTogetherGoesOn(t *testing.T) {
	t.Parallel()
	e2e.OnlyLong(t)
	stack := e2e.OwnStack(t, devstack.Options{RetrySchedule: "4s,4s,4s,4s,60s"})
	ctx := t.Context()
	m, failing := e2e.NewMerchant(t, stack), e2e.NewMerchant(t, stack)
	failing.Receiver.Answer(http.StatusInternalServerError)
	pending, asked := m.Create(e2e.Terms), m.Create(e2e.Terms)
	m.MustPay(asked, e2e.Card3DS)
	unsent := failing.Create(e2e.Terms)
	failing.MustPay(unsent, e2e.CardDeclined)
	failing.Arrivals(1, 10*time.Second)

	backup := filepath.Join(t.TempDir(), "backup")
	basebackup(t, stack.Postgres.URL("postgres"), backup)

	late := m.Create(e2e.Terms) // after the backup: lost with everything else
	m.MustPay(pending, e2e.CardSucceeds)
	m.Arrivals(2, 10*time.Second)

	for _, kill := range []func(){stack.API.Kill, stack.Worker.Kill, stack.Temporal.Kill, stack.Postgres.Kill} {
		kill()
	}
	data := filepath.Join(filepath.Dir(stack.EnvironmentFile()), "postgres", "data")
	require.NoError(t, os.RemoveAll(data))
	require.NoError(t, os.Rename(backup, data))
	require.NoError(t, stack.StartPostgres(ctx))
	require.NoError(t, stack.Temporal.Start(ctx))
	require.NoError(t, stack.StartWorker(ctx))
	require.NoError(t, stack.StartAPI(ctx))
	failing.Receiver.Answer(http.StatusOK)

	require.Equal(t, http.StatusNotFound, m.Must(http.StatusNotFound, http.MethodGet, "/v1/checkout/"+late, "").Status)
	require.Equal(t, "pending", m.Session(pending).Field("status"), "as it was")
	m.MustPay(pending, e2e.CardSucceeds)
	m.AwaitStatus(pending, checkout.StatusCompleted, 30*time.Second)
	m.Must(http.StatusOK, http.MethodPost, "/v1/test/checkout/"+asked+"/advance", "")
	e2e.Await(t, "every delivery ends", 60*time.Second, func() bool {
		return e2e.Query[int](t, stack, `SELECT count(*) FROM webhook_delivery WHERE status = 'delivered'`) == 3 &&
			e2e.Query[int](t, stack, `SELECT count(*) FROM webhook_delivery WHERE status <> 'delivered'`) == 0
	})
}

// basebackup copies the running cluster to dir. more are further options of pg_basebackup.
func basebackup(t *testing.T, databaseURL, dir string, more ...string) {
	t.Helper()
	postgresProgram(t, "pg_basebackup", append([]string{
		"--dbname=" + databaseURL, "--pgdata=" + dir, "--wal-method=stream", "--checkpoint=fast", "--no-sync",
	}, more...)...)
}

// postgresProgram runs a program of PostgreSQL.
func postgresProgram(t *testing.T, name string, args ...string) {
	t.Helper()
	programs, err := devstack.EnsurePostgres(t.Context(), os.Stderr)
	require.NoError(t, err)
	said, err := exec.CommandContext(t.Context(), filepath.Join(programs, name), args...).CombinedOutput()
	require.NoError(t, err, "%s", said)
}
