package apart

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"example.com/checkout/deploy/proof/chaos/invariant"
	"example.com/checkout/deploy/proof/e2e"
	"example.com/checkout/deploy/standin/devstack"
	"example.com/checkout/deploy/standin/need"
	"example.com/checkout/storage/pgtemp"
	"example.com/checkout/storage/storagetest/must"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/runs"
)

// restoreSchedule leaves a refused delivery pending for a minute.
const restoreSchedule = "1s,2s,3s,4s,60s"

// TestRestore_ToAMoment loses PostgreSQL, which the service and Temporal share, and restores it with pgBackRest to a
// moment in the middle of the load. The backup was made under load too. Everything goes on from that moment.
func TestRestore_ToAMoment(t *testing.T) {
	t.Parallel()
	e2e.OnlyLong(t)
	archive := startArchived(t)
	stack := e2e.OwnStack(t, devstack.Options{RetrySchedule: restoreSchedule, DatabaseURL: archive.server.URL("checkout")})
	m, failing := e2e.NewMerchant(t, stack), e2e.NewMerchant(t, stack)

	load := e2e.StartLoad(m)
	archive.backrest("backup", "--type=full")
	// pgBackRest restores a backup only to a later second than the one in which the backup ended.
	next := time.Now().Add(time.Second)
	e2e.Await(t, "the load runs", 10*time.Second, func() bool { return time.Now().After(next) && load.Since(time.Time{}) >= 20 })
	pending, unsent, asked := m.Create(e2e.Terms), failing.RefusedDelivery(), m.Create(e2e.Terms)
	m.MustPay(asked, e2e.Card3DS)
	moment := e2e.Query[time.Time](t, stack, `SELECT clock_timestamp()`)
	late := m.Create(e2e.Terms)
	e2e.Await(t, "the load goes on", 10*time.Second, func() bool { return load.Since(moment) >= 20 })
	acknowledged, _ := load.Stop()
	m.MustPay(pending, e2e.CardSucceeds)
	failing.Receiver.Answer(http.StatusOK)
	// All requests so far were right. The restored database does not know some of them.
	e2e.RequireInvariants(t, stack, restoreSchedule)

	execute(t, archive.server, `SELECT pg_switch_wal()`)
	archive.backrest("check") // waits for the archive
	stack.API.Kill()
	stack.Worker.Kill()
	stack.Temporal.Kill()
	archive.lose()
	archive.restore(moment)
	require.Equal(t, []string{"pending", "pending"}, e2e.Query[[]string](t, stack, `SELECT ARRAY[
		(SELECT status FROM checkout_session WHERE id = $1), (SELECT status FROM webhook_delivery WHERE id = $2)]`,
		pending, unsent), "as it was")
	restored := time.Now()
	require.NoError(t, stack.Temporal.Start(t.Context()))
	require.NoError(t, stack.StartWorker(t.Context()))
	require.NoError(t, stack.StartAPI(t.Context()))

	m.Must(http.StatusNotFound, http.MethodGet, "/v1/checkout/"+late, "")
	m.Must(http.StatusOK, http.MethodPost, "/v1/test/checkout/"+asked+"/advance", "")
	kept := acknowledged[:len(acknowledged)-load.Since(moment)]
	requireCompleted(m, "restore", append(kept, pending, m.Create(e2e.Terms)))
	unknown := 0
	e2e.RequireInvariantsBut(t, stack, restoreSchedule, nil, func(facts *invariant.Facts) {
		unknown = forgetRequests(facts, moment, restored)
	})
	require.Positive(t, unknown)
	requireDone(t, stack)
	t.Logf("%d of %d sessions kept; the restored database does not know %d requests",
		len(kept), len(acknowledged), unknown)
}

// forgetRequests takes away the requests that receivers got in the time that the database has lost, and counts them.
func forgetRequests(facts *invariant.Facts, moment, restored time.Time) int {
	before := len(facts.Requests)
	facts.Requests = slices.DeleteFunc(facts.Requests, func(r devstack.LoggedRequest) bool {
		return !r.Started && r.At.After(moment) && r.At.Before(restored)
	})
	return before - len(facts.Requests)
}

// requireDone requires that nothing was charged twice, every payout was sent and every event has arrived.
func requireDone(t *testing.T, stack *devstack.Stack) {
	require.Equal(t, 1, e2e.Query[int](t, stack, `SELECT max(calls)::int FROM sandbox_charge`))
	require.Zero(t, e2e.Query[int](t, stack, `SELECT count(*) FROM payout WHERE status <> 'sent'`))
	require.Zero(t, e2e.Query[int](t, stack, `SELECT count(*) FROM webhook_delivery WHERE status <> 'delivered'`))
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
	program := need.Program(t, "apt-get install --no-install-recommends pgbackrest", "pgbackrest")
	dir := t.TempDir()
	a := &archived{t: t, config: filepath.Join(dir, "pgbackrest.conf"), dir: filepath.Join(dir, "postgres")}
	t.Cleanup(func() { _ = a.server.Stop() })
	a.start(0)
	require.NoError(t, a.server.CreateDatabase(t.Context(), "checkout", ""))
	execute(t, a.server, `ALTER SYSTEM SET archive_mode = on`)
	push := fmt.Sprintf("%s --config=%s --stanza=checkout archive-push %%p", program, a.config)
	execute(t, a.server, `ALTER SYSTEM SET archive_command = '`+push+`'`)
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
	programs := must.Get(devstack.EnsurePostgres(a.t.Context(), os.Stderr))(a.t)
	a.server = must.Get(pgtemp.Start(a.t.Context(), pgtemp.Options{Dir: a.dir, Port: port, BinDir: programs}))(a.t)
}

// backrest runs a command of pgBackRest as the server's user.
func (a *archived) backrest(args ...string) {
	password := must.Get(os.ReadFile(filepath.Join(a.dir, "password")))(a.t)
	args = append([]string{"--config=" + a.config, "--stanza=checkout"}, args...)
	run := exec.CommandContext(a.t.Context(), "pgbackrest", args...)
	run.Env = append(os.Environ(), "PGHOST=127.0.0.1", "PGPASSWORD="+string(password[:len(password)-1]))
	a.server.RunAsServer(run)
	said, err := run.CombinedOutput()
	require.NoError(a.t, err, "%s", said)
}

// lose kills the server and removes its directory. Only the repository is left.
func (a *archived) lose() {
	a.server.Kill()
	require.NoError(a.t, os.RemoveAll(filepath.Join(a.dir, "data")))
}

// restore restores the server as it was at a moment, and starts it.
func (a *archived) restore(moment time.Time) {
	target := moment.UTC().Format("2006-01-02 15:04:05.000000+00")
	a.backrest("restore", "--type=time", "--target="+target, "--target-action=promote")
	a.start(a.server.Port())
	e2e.Await(a.t, "the server takes writes", 30*time.Second, func() bool {
		return execute(a.t, a.server, `SELECT WHERE NOT pg_is_in_recovery()`) == 1
	})
}

// TestRestore_OfDifferentMoments restores the service's database or Temporal's alone, from dumps, or gives
// the service an empty Temporal. Nothing is charged or paid twice, and no event is lost.
func TestRestore_OfDifferentMoments(t *testing.T) {
	t.Parallel()
	e2e.OnlyLong(t)
	for _, c := range []struct {
		name                    string
		oldService              bool // restored to the moment
		oldTemporal, noTemporal bool
	}{
		{name: "Temporal is empty", noTemporal: true},
		{name: "Temporal is empty and the service is old", noTemporal: true, oldService: true},
		{name: "Temporal is old", oldTemporal: true},
		{name: "the service is old", oldService: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			stack := e2e.OwnStack(t, devstack.Options{
				RetrySchedule: restoreSchedule, Env: []string{"CHECKOUT_RECONCILE_INTERVAL=5s"},
			})
			w := newWork(t, stack)
			stack.Worker.Kill() // so that all dumps are of one moment
			moment, dumps := time.Now(), ""
			if c.oldService || c.oldTemporal {
				dumps = t.TempDir()
				require.NoError(t, stack.Dump(t.Context(), dumps, devstack.Databases...))
				require.NoError(t, stack.StartWorker(t.Context()))
				w.end()
				e2e.RequireInvariants(t, stack, restoreSchedule)
			}

			stack.API.Kill()
			stack.Worker.Kill()
			stack.Temporal.Kill()
			w.release()
			if c.oldService {
				require.NoError(t, stack.RestoreDump(t.Context(), dumps, devstack.Databases[0]))
			}
			switch {
			case c.noTemporal:
				require.NoError(t, stack.LoseTemporal(t.Context()))
			case c.oldTemporal:
				require.NoError(t, stack.RestoreDump(t.Context(), dumps, devstack.Databases[1:]...))
				fallthrough
			default:
				require.NoError(t, stack.Temporal.Start(t.Context()))
			}
			restored, first := time.Now(), checkout.NewID(checkout.PrefixSession)
			require.NoError(t, stack.StartWorker(t.Context()))
			require.NoError(t, stack.StartAPI(t.Context()))
			temporal := e2e.TemporalClient(t, stack)
			e2e.Await(t, "a session of which nobody asks anything has a run", time.Minute, func() bool {
				return len(e2e.Events(t, temporal, w.pending, "")) > 0
			})

			w.end()
			if c.oldTemporal { // these runs do not know that their sessions have ended
				client := &runs.Client{Temporal: temporal}
				must.Get(client.Advance(t.Context(), w.pending))(t)
				must.Get(client.Complete(t.Context(), w.asked, filepath.Base(w.bank)))(t)
			}
			// 7 and 16 compare rows with runs: what ended before the restore has lost one of them.
			known := func(violation string) bool {
				number, id, _ := strings.Cut(violation, " ")
				return (number == "7" || number == "16") && age(id) < age(first)
			}
			e2e.RequireInvariantsBut(t, stack, restoreSchedule, known, func(facts *invariant.Facts) {
				if c.oldService {
					forgetRequests(facts, moment, restored)
				}
			})
			requireDone(t, stack)
			again := e2e.Query[int](t, stack, `SELECT count(*) FROM webhook_delivery WHERE run > 1`)
			t.Logf("%d events were sent again by a second run", again)
		})
	}
}

// age returns the part of an id that grows with the time.
func age(id string) string { return id[strings.Index(id, "_")+1:] }

// work is one session of each kind that may be under way.
type work struct {
	*e2e.Merchant
	pending, unpaid, asked string
	bank                   string        // the address where the customer of asked confirms
	failing                *e2e.Merchant // its receiver refuses a delivery
	release                func()        // the payout of unpaid waits for it
}

func newWork(t *testing.T, stack *devstack.Stack) *work {
	w := &work{Merchant: e2e.NewMerchant(t, stack), failing: e2e.NewMerchant(t, stack)}
	w.pending, w.asked, w.unpaid = w.Create(e2e.Terms), w.Create(e2e.Terms), w.Create(e2e.Terms)
	w.MustPay(w.asked, e2e.Card3DS)
	w.bank = e2e.Query[string](t, stack, `SELECT action_url FROM transaction WHERE session_id = $1`, w.asked)

	conn := must.Get(pgx.Connect(t.Context(), stack.DatabaseURL()))(t)
	must.Get(conn.Exec(t.Context(), `BEGIN; LOCK TABLE sandbox_transfer IN SHARE ROW EXCLUSIVE MODE`))(t)
	w.release = func() { _ = conn.Close(context.WithoutCancel(t.Context())) } // also when it is closed
	w.Complete(w.unpaid)
	w.failing.RefusedDelivery()
	return w
}

// end brings everything to its end that is still under way, and one new session.
func (w *work) end() {
	w.release()
	w.failing.Receiver.Answer(http.StatusOK)
	w.Confirm(w.bank)
	w.AwaitStatus(w.asked, checkout.StatusCompleted, 20*time.Second)
	requireCompleted(w.Merchant, "now", []string{w.pending, w.unpaid, w.Create(e2e.Terms)})
}

// TestFailover_LosesNothingAcknowledged kills PostgreSQL's primary under load, for the service and for
// Temporal, and promotes its synchronous standby. All processes find the new primary by themselves.
func TestFailover_LosesNothingAcknowledged(t *testing.T) {
	t.Parallel()
	e2e.OnlyLong(t)
	primary, standby := startPair(t)
	servers := must.Get(url.Parse(primary.URL("checkout")))(t)
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
	programs := must.Get(devstack.EnsurePostgres(t.Context(), os.Stderr))(t)
	start := func(dir string) *pgtemp.Server {
		server := must.Get(pgtemp.Start(t.Context(), pgtemp.Options{Dir: dir, BinDir: programs}))(t)
		t.Cleanup(func() { _ = server.Stop() }) // the primary was killed
		return server
	}
	dir := t.TempDir()
	first, second := filepath.Join(dir, "first"), filepath.Join(dir, "second")
	primary = start(first)
	require.NoError(t, primary.CreateDatabase(t.Context(), "checkout", ""))
	require.NoError(t, os.Mkdir(second, 0o700))
	password := must.Get(os.ReadFile(filepath.Join(first, "password")))(t)
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
	conn := must.Get(pgx.Connect(t.Context(), server.URL("postgres")))(t)
	defer func() { _ = conn.Close(context.Background()) }() // closed with the test
	done := must.Get(conn.Exec(t.Context(), sql))(t)
	return done.RowsAffected()
}
