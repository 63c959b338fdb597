package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"example.com/checkout/storage"
	"example.com/checkout/storage/pgtemp"
)

func newRandom() *rand.Rand { return rand.New(rand.NewPCG(1, 2)) }

func TestKilledAndStopped_EndThePartAndStartItUntilItRuns(t *testing.T) {
	t.Parallel()
	for how, fault := range map[string]injection{"kill": killed, "stop": stopped} {
		synctest.Test(t, func(t *testing.T) {
			var calls []string
			p := &part{name: "worker 1"}
			p.kill, p.stop = func() { calls = append(calls, "kill") }, func() { calls = append(calls, "stop") }
			p.start = func(context.Context) (err error) {
				if calls = append(calls, "start"); len(calls) < 3 {
					err = errors.New("PostgreSQL is away\nand more lines")
				}
				return err
			}
			var out bytes.Buffer
			require.True(t, fault(t.Context(), &chaos{rig: &rig{out: &out}}, p, newRandom()))
			require.Equal(t, []string{how, "start", "start"}, calls)
			require.Equal(t, "worker 1 does not start yet: PostgreSQL is away\n", out.String())
		})
	}
}

// state returns the letter of a process's state in Linux: S sleeps, T is stopped.
func state(pid int) string {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)) // a process that has ended has no state
	_, after, _ := strings.Cut(string(text), ") ")
	letter, _, _ := strings.Cut(after, " ")
	return letter
}

func TestPaused_StopsAProcessWithItsChildrenAndContinuesThem(t *testing.T) {
	t.Parallel()
	shell := exec.Command("sh", "-c", "sleep 600 & sleep 600 & wait")
	shell.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	require.NoError(t, shell.Start())
	t.Cleanup(func() {
		_ = syscall.Kill(-shell.Process.Pid, syscall.SIGKILL) // the group is this test's own
		_ = shell.Wait()                                      // it was killed
	})
	all := func(want string) func() bool {
		return func() bool {
			pids := family(shell.Process.Pid)
			for _, pid := range pids {
				if state(pid) != want {
					return false
				}
			}
			return len(pids) == 3
		}
	}
	require.Eventually(t, all("S"), time.Minute, 5*time.Millisecond)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan bool)
	go func() {
		p := &part{pid: func() int { return shell.Process.Pid }}
		ended <- paused(10*time.Minute)(ctx, nil, p, newRandom())
	}()
	require.Eventually(t, all("T"), time.Minute, 5*time.Millisecond)
	cancel()
	require.True(t, <-ended)
	require.Eventually(t, all("S"), time.Minute, 5*time.Millisecond)
}

func TestOnLink_EndsItsFault(t *testing.T) {
	t.Parallel()
	for _, fault := range []linkFault{linkCut, linkBlackHole, linkDelays} {
		synctest.Test(t, func(t *testing.T) {
			l := &link{}
			began := time.Now()
			c := &chaos{rig: &rig{links: []*link{l}}}
			ended := make(chan bool, 1)
			go func() { ended <- onLink(fault, 2*time.Second, 5*time.Second)(t.Context(), c, nil, newRandom()) }()
			time.Sleep(time.Second)
			require.Equal(t, fault, l.current())
			require.True(t, <-ended)
			require.Equal(t, linkPasses, l.current())
			require.InDelta(t, 3.5, time.Since(began).Seconds(), 1.6)
		})
	}
}

func newDatabase(t *testing.T, url string) {
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	defer conn.Close(context.WithoutCancel(t.Context()))
	_, err = conn.Exec(t.Context(), `
		INSERT INTO merchant (id, name, plan, fee_basis_points, payment_attempts, order_id_guard, created_at)
		VALUES ('mer_1', 'Shop', 'standard', 100, 3, false, now());
		INSERT INTO checkout_session (id, merchant_id, mode, amount, currency, payout_currency, status, metadata, max_attempts, created_at, expires_at, ended_at)
		SELECT 'cs_' || status, 'mer_1', 'test', 1000, 'USD', 'USDC', status, '{}', 3, now(), now() + interval '1 h',
			CASE WHEN status = 'expired' THEN now() END
		FROM unnest(ARRAY['pending', 'expired']) status`)
	require.NoError(t, err)
}

func TestLockRows_LocksPendingSessionsUntilItEnds(t *testing.T) {
	t.Parallel()
	url := pgtemp.ForTest(t, storage.Migrate)
	newDatabase(t, url)
	c := &chaos{rig: &rig{databaseURL: url}}
	free := func(want string) func() bool {
		return func() bool {
			got, err := query[string](t.Context(), c.rig, `
				SELECT coalesce(string_agg(id, ' ' ORDER BY id), '')
				FROM (SELECT id FROM checkout_session FOR UPDATE SKIP LOCKED) x`)
			return err == nil && got == want
		}
	}
	require.Eventually(t, free("cs_expired cs_pending"), time.Minute, 5*time.Millisecond)
	ctx, cancel := context.WithCancel(t.Context())
	locked := make(chan bool)
	go func() {
		done := false
		for !done && ctx.Err() == nil { // it skips the row while free looks at it
			done = within(15*time.Second, lockRows)(ctx, c, nil, newRandom())
		}
		locked <- done
	}()
	require.Eventually(t, free("cs_expired"), time.Minute, 5*time.Millisecond)
	cancel()
	require.True(t, <-locked)
	require.Eventually(t, free("cs_expired cs_pending"), time.Minute, 5*time.Millisecond)
}

// TestTerminateBackends_EndsConnections has a server of its own, because the fault ends everybody's connections.
func TestTerminateBackends_EndsConnections(t *testing.T) {
	t.Parallel()
	server, err := pgtemp.Start(t.Context(), pgtemp.Options{Throwaway: true})
	require.NoError(t, err)
	t.Cleanup(func() { _ = server.Stop() }) // a throwaway server
	c := &chaos{rig: &rig{databaseURL: server.URL("postgres")}}
	conn, err := pgx.Connect(t.Context(), c.rig.databaseURL)
	require.NoError(t, err)
	defer conn.Close(context.WithoutCancel(t.Context()))
	require.NoError(t, conn.Ping(t.Context()))
	terminate := within(5*time.Second, terminateBackends)
	require.True(t, terminate(t.Context(), c, nil, nil))
	require.ErrorContains(t, conn.Ping(t.Context()), "57P01", "terminated by an administrator")

	require.NoError(t, server.Stop())
	require.False(t, terminate(t.Context(), c, nil, nil), "nobody is there to be ended")
}
