package apart

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"sync"
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

	load := startLoad(m)
	e2e.Await(t, "the load runs", 10*time.Second, func() bool { return load.since(time.Time{}) >= 20 })
	killed := time.Now()
	primary.Kill()
	time.Sleep(time.Second) // as long as a manager of the cluster needs to see it
	execute(t, standby, `SELECT pg_promote()`)
	e2e.Await(t, "sessions are created again", 30*time.Second, func() bool { return load.since(killed) >= 20 })
	acknowledged := load.stop()
	t.Logf("%d sessions acknowledged, %d requests failed; for %s no session was created",
		len(acknowledged), load.failed, load.gap().Round(time.Millisecond))

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
	basebackup(t, primary.URL("postgres"), filepath.Join(second, "data"), "--write-recovery-conf")
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

// load creates and pays sessions all the time, whatever fails.
type load struct {
	cancel context.CancelFunc
	group  sync.WaitGroup

	mu           sync.Mutex
	acknowledged []string    // ids of sessions
	at           []time.Time // when they were
	failed       int         // requests to create
}

func startLoad(m *e2e.Merchant) *load {
	ctx, cancel := context.WithCancel(m.T.Context())
	l := &load{cancel: cancel}
	for range 3 {
		l.group.Go(func() {
			for ctx.Err() == nil {
				if id := l.create(m); id != "" {
					_, _, _ = m.Pay(id, e2e.CardSucceeds) // the answer may be lost
				}
				time.Sleep(100 * time.Millisecond)
			}
		})
	}
	return l
}

// create returns "" when the session was not acknowledged.
func (l *load) create(m *e2e.Merchant) (id string) {
	got, err := m.Call(http.MethodPost, "/v1/checkout", e2e.Terms)
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil || got.Status != http.StatusCreated {
		l.failed++
		return ""
	}
	id = got.Field("id").(string)
	l.acknowledged, l.at = append(l.acknowledged, id), append(l.at, time.Now())
	return id
}

// since counts the sessions that were acknowledged after a time.
func (l *load) since(after time.Time) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	first, _ := slices.BinarySearchFunc(l.at, after, time.Time.Compare)
	return len(l.at) - first
}

// until returns the sessions that were acknowledged before a time.
func (l *load) until(before time.Time) []string {
	return l.acknowledged[:len(l.acknowledged)-l.since(before)]
}

// gap is the longest time without an acknowledged session.
func (l *load) gap() (longest time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range l.at[1:] {
		longest = max(longest, l.at[i+1].Sub(l.at[i]))
	}
	return longest
}

func (l *load) stop() (acknowledged []string) {
	l.cancel()
	l.group.Wait()
	return l.acknowledged
}
