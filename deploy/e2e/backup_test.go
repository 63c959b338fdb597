package e2e

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/checkout/deploy/devstack"
	"example.com/checkout/workflows/checkout"
)

// TestBackup_OfBothTogetherGoesOn takes a backup of the running PostgreSQL, which
// the service and Temporal share, loses everything and starts from it: pending
// sessions can be paid, a payment in flight is decided, deliveries go on. What
// was sent after the backup is sent again.
func TestBackup_OfBothTogetherGoesOn(t *testing.T) {
	t.Parallel()
	stack := ownStack(t, devstack.Options{RetrySchedule: "4s,4s,4s,4s,60s"})
	ctx := t.Context()
	m, failing := newMerchant(t, stack), newMerchant(t, stack)
	failing.receiver.Answer(http.StatusInternalServerError)
	pending, asked := m.create(terms), m.create(terms)
	m.mustPay(asked, card3DS)
	unsent := failing.create(terms)
	failing.mustPay(unsent, cardDeclined)
	failing.arrivals(1, 10*time.Second)

	backup := filepath.Join(t.TempDir(), "backup")
	basebackup(t, stack, backup)

	late := m.create(terms) // after the backup: lost with everything else
	m.mustPay(pending, cardSucceeds)
	m.arrivals(2, 10*time.Second)

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
	failing.receiver.Answer(http.StatusOK)

	require.Equal(t, http.StatusNotFound, m.must(http.StatusNotFound, http.MethodGet, "/v1/checkout/"+late, "").Status)
	require.Equal(t, "pending", m.session(pending).field("status"), "as it was")
	m.mustPay(pending, cardSucceeds)
	m.awaitStatus(pending, checkout.StatusCompleted, 30*time.Second)
	m.must(http.StatusOK, http.MethodPost, "/v1/test/checkout/"+asked+"/advance", "")
	await(t, "every delivery ends", 60*time.Second, func() bool {
		return query[int](t, stack, `SELECT count(*) FROM webhook_delivery WHERE status = 'delivered'`) == 3 &&
			query[int](t, stack, `SELECT count(*) FROM webhook_delivery WHERE status <> 'delivered'`) == 0
	})
}

// basebackup copies the running cluster to dir.
func basebackup(t *testing.T, stack *devstack.Stack, dir string) {
	t.Helper()
	programs, err := devstack.EnsurePostgres(t.Context(), os.Stderr)
	require.NoError(t, err)
	run := exec.CommandContext(t.Context(), filepath.Join(programs, "pg_basebackup"),
		"--dbname="+stack.Postgres.URL("postgres"), "--pgdata="+dir, "--wal-method=stream", "--checkpoint=fast", "--no-sync")
	said, err := run.CombinedOutput()
	require.NoError(t, err, "%s", said)
}
