package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"

	"example.com/checkout/deploy/proof/chaos/invariant"
	"example.com/checkout/workflows/runs"
)

// faultKind is one way to break the rig. The comment at each kind has its numbers in the fault
// matrix.
type faultKind struct {
	name   string
	weight int    // frequency, relative to the others
	part   string // the kind of part that the fault breaks and locks; "" for none
	inject injection
}

// An injection breaks something, waits, and repairs it. It returns false when it found nothing to break.
type injection func(ctx context.Context, c *chaos, p *part, random *rand.Rand) bool

func (k faultKind) often() int { return k.weight }

// faultKinds are all kinds, by name.
var faultKinds = []faultKind{
	{"api-kill", 3, "api", killed},                          // A1, A2
	{"api-term", 2, "api", stopped},                         // A3
	{"api-pause", 2, "api", paused(5 * time.Second)},        // A4
	{"worker-kill", 4, "worker", killed},                    // B1, B2, B3
	{"worker-term", 2, "worker", stopped},                   // B4
	{"worker-pause", 2, "worker", paused(12 * time.Second)}, // B5
	{"temporal-kill", 1, "temporal", killed},                // C1, C5
	{"temporal-term", 1, "temporal", stopped},
	{"temporal-pause", 1, "temporal", paused(8 * time.Second)}, // C3
	{"postgres-kill", 1, "postgres", killed},
	{"postgres-immediate", 2, "postgres", stopped},                              // D1
	{"postgres-pause", 1, "postgres", paused(5 * time.Second)},                  // D3
	{"backends-terminated", 3, "", within(5*time.Second, terminateBackends)},    // D4
	{"connections-exhausted", 1, "", exhaustConnections},                        // D5
	{"row-lock", 3, "", within(15*time.Second, lockRows)},                       // D7
	{"client-disconnect", 2, "", disconnectClients},                             // A5
	{"net-cut", 2, "", onLink(linkCut, 500*time.Millisecond, 5*time.Second)},    // G
	{"net-outage", 1, "", onLink(linkCut, 11*time.Second, 14*time.Second)},      // D2: longer than a decision may take
	{"net-blackhole", 2, "", onLink(linkBlackHole, time.Second, 6*time.Second)}, // G
	{"net-delay", 2, "", onLink(linkDelays, 2*time.Second, 5*time.Second)},      // G
	{"net-reset", 3, "", resetLink},                                             // D9
	{"run-terminated", 3, "", actOnRun(terminateRun)},                           // C8
	{"run-canceled", 2, "", actOnRun(cancelRun)},
	{"run-reset", 3, "", actOnRun(resetRun)},                      // C9
	{"twice-terminate", 2, "", raceDecisions(terminateRun)},       // C8, D7
	{"twice-reset", 2, "", raceDecisions(terminateRun, resetRun)}, // C9, D7
}

// kindsNamed returns the kinds with these names, separated by commas; "" means all kinds. Only a run
// with live mode has the kinds of liveFaultKinds, and the enemy's moves.
func kindsNamed(names string, live bool) ([]faultKind, error) {
	all := faultKinds
	if live {
		all = slices.Concat(faultKinds, liveFaultKinds, enemyKinds)
	}
	if names == "" {
		return all, nil
	}
	var chosen []faultKind
	for name := range strings.SplitSeq(names, ",") {
		found := false
		for _, k := range all {
			if k.name == name || strings.HasPrefix(k.name, name+"-") {
				chosen, found = append(chosen, k), true
			}
		}
		if !found {
			return nil, fmt.Errorf("there is no kind %q", name)
		}
	}
	return chosen, nil
}

func between(random *rand.Rand, from, to time.Duration) time.Duration {
	return from + time.Duration(random.Int64N(int64(to-from)))
}

// pause waits for d, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// until asks again and again until it is so, for some time at most, and reports whether it was so.
func until(ctx context.Context, longest, every time.Duration, is func() bool) bool {
	for began := time.Now(); ctx.Err() == nil && time.Since(began) < longest; pause(ctx, every) {
		if is() {
			return true
		}
	}
	return false
}

// within gives up after a time.
func within(longest time.Duration, inject injection) injection {
	return func(ctx context.Context, c *chaos, p *part, random *rand.Rand) bool {
		ctx, cancel := context.WithTimeout(ctx, longest)
		defer cancel()
		return inject(ctx, c, p, random)
	}
}

var (
	killed  = endPart(func(p *part) { p.kill() })
	stopped = endPart(func(p *part) { p.stop() })
)

func endPart(end func(*part)) injection {
	return func(ctx context.Context, c *chaos, p *part, random *rand.Rand) bool {
		end(p)
		pause(ctx, between(random, 0, 2*time.Second))
		c.rig.startAgain(ctx, p)
		return true
	}
}

// paused stops a process for one second to longest and then continues it. The process then works
// with old knowledge.
func paused(longest time.Duration) injection {
	return func(ctx context.Context, _ *chaos, p *part, random *rand.Rand) bool {
		resume := p.suspend()
		pause(ctx, between(random, time.Second, longest))
		resume()
		return true
	}
}

func terminateBackends(ctx context.Context, c *chaos, _ *part, _ *rand.Rand) bool {
	_, err := query[int](ctx, c.rig, `
		SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
		WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'`)
	return err == nil
}

func exhaustConnections(ctx context.Context, c *chaos, _ *part, random *rand.Rand) bool {
	var held []*pgx.Conn
	for range 300 {
		limited, cancel := context.WithTimeout(ctx, 2*time.Second)
		conn, err := pgx.Connect(limited, c.rig.databaseURL)
		cancel()
		if err != nil {
			break
		}
		held = append(held, conn)
	}
	pause(ctx, between(random, time.Second, 4*time.Second))
	for _, conn := range held {
		_ = conn.Close(context.WithoutCancel(ctx)) // nothing was written
	}
	return len(held) > 0
}

// lockRows locks the rows of pending sessions for longer than the service waits for a lock.
func lockRows(ctx context.Context, c *chaos, _ *part, random *rand.Rand) bool {
	conn, err := pgx.Connect(ctx, c.rig.databaseURL)
	if err != nil {
		return false
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }() // the locks end with it
	tx, err := conn.Begin(ctx)
	if err != nil {
		return false
	}
	tag, err := tx.Exec(
		ctx,
		`SELECT FROM checkout_session WHERE status = 'pending' ORDER BY id DESC LIMIT 20 FOR UPDATE SKIP LOCKED`,
	)
	pause(ctx, between(random, 2*time.Second, 7*time.Second))
	return err == nil && tag.RowsAffected() > 0
}

// disconnectClients makes clients disconnect during a request. Each client repeats the request with
// the same key, so that only one session is created.
func disconnectClients(ctx context.Context, c *chaos, _ *part, random *rand.Rand) bool {
	var all sync.WaitGroup
	for range 8 {
		m, t, patience := pick(random, c.merchants), c.newTerms(), between(random, time.Millisecond, 60*time.Millisecond)
		all.Go(func() {
			for range 3 {
				limited, cancel := context.WithTimeout(ctx, patience)
				c.create(limited, m, t, 1)
				cancel()
			}
			c.create(ctx, m, t, 20)
		})
	}
	all.Wait()
	return true
}

func onLink(f linkFault, from, to time.Duration) injection {
	return func(ctx context.Context, c *chaos, _ *part, random *rand.Rand) bool {
		l := pick(random, c.rig.links)
		l.set(f)
		pause(ctx, between(random, from, to))
		l.set(linkPasses)
		return true
	}
}

func resetLink(_ context.Context, c *chaos, _ *part, random *rand.Rand) bool {
	pick(random, c.rig.links).reset()
	return true
}

// actOnRun makes an operator act on a run of a session or a delivery, open or closed.
func actOnRun(do func(ctx context.Context, c *chaos, workflowID string) error) injection {
	return within(5*time.Second, func(ctx context.Context, c *chaos, _ *part, random *rand.Rand) bool {
		table := pick(random, []string{"checkout_session", "webhook_delivery"})
		status := pick(random, []string{"status = 'pending'", "status <> 'pending'"})
		id, err := query[string](ctx, c.rig, `
			SELECT id FROM (SELECT id FROM `+table+` WHERE `+status+` ORDER BY id DESC LIMIT 40) x
			ORDER BY random() LIMIT 1`)
		if err != nil {
			return false
		}
		err = do(ctx, c, id)
		return err == nil || errors.Is(err, context.DeadlineExceeded)
	})
}

func terminateRun(ctx context.Context, c *chaos, id string) error {
	c.recordOperator(invariant.OpTerminate, id)
	return c.rig.temporal.TerminateWorkflow(ctx, id, "", "chaos")
}

func cancelRun(ctx context.Context, c *chaos, id string) error {
	c.recordOperator(invariant.OpCancel, id)
	return c.rig.temporal.CancelWorkflow(ctx, id, "")
}

// resetRun resets a run to its first workflow task. For half of the sessions whose time is over, it
// drops the received messages, as the UI offers. The new run then finds no payment, and
// its time over.
func resetRun(ctx context.Context, c *chaos, id string) error {
	forgets, err := query[bool](ctx, c.rig, `
		SELECT EXISTS (SELECT FROM checkout_session
			WHERE id = $1 AND status <> 'pending' AND expires_at < clock_timestamp())`, id)
	if err != nil {
		return err
	}
	described, err := c.rig.temporal.DescribeWorkflowExecution(ctx, id, "")
	if err != nil {
		return err
	}
	reset := &workflowservice.ResetWorkflowExecutionRequest{
		Namespace: c.rig.stack.Temporal.Namespace(), RequestId: fmt.Sprint(id, time.Now().UnixNano()), Reason: "chaos",
		WorkflowExecution: described.WorkflowExecutionInfo.Execution,
	}
	if forgets && id[len(id)-1]%2 == 0 {
		reset.ResetReapplyExcludeTypes = []enumspb.ResetReapplyExcludeType{
			enumspb.RESET_REAPPLY_EXCLUDE_TYPE_SIGNAL, enumspb.RESET_REAPPLY_EXCLUDE_TYPE_UPDATE,
		}
	}
	events := c.rig.temporal.GetWorkflowHistory(ctx, id, reset.WorkflowExecution.RunId, false,
		enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for reset.WorkflowTaskFinishEventId == 0 {
		if !events.HasNext() {
			return errors.New("no workflow task has completed")
		}
		e, err := events.Next()
		if err != nil {
			return err
		}
		if e.EventType == enumspb.EVENT_TYPE_WORKFLOW_TASK_COMPLETED {
			reset.WorkflowTaskFinishEventId = e.EventId
		}
	}
	c.recordOperator(invariant.OpReset, id)
	_, err = c.rig.temporal.ResetWorkflowExecution(ctx, reset)
	return err
}

// asksTheBank is a card whose payment stays in flight until the customer confirms at the bank.
// During this time, the session's row can be locked.
const asksTheBank = "4000000000003220"

// raceDecisions makes several runs of one session decide its payment at once. It locks the row, so
// that a run waits for it. Then operators end that run, and the next run waits as well.
func raceDecisions(operators ...func(ctx context.Context, c *chaos, id string) error) injection {
	return within(40*time.Second, func(ctx context.Context, c *chaos, _ *part, random *rand.Rand) bool {
		m := pick(random, c.merchants)
		id, _ := c.create(ctx, m, c.newTerms(), 3, 2)
		conn, err := pgx.Connect(ctx, c.rig.databaseURL)
		if id == "" || err != nil {
			return false
		}
		var customer sync.WaitGroup
		defer customer.Wait()
		defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }() // the lock ends with it
		customer.Go(func() { c.pay(ctx, m, id, asksTheBank) })
		if !lockInFlight(ctx, conn, id) || !c.awaitWaiting(ctx, conn, 1) {
			return false
		}
		for i, operator := range operators {
			if operator(ctx, c, id) != nil || !c.awaitWaiting(ctx, conn, i+2) {
				return false
			}
		}
		return true
	})
}

// lockInFlight locks a session's row once its payment is in flight. It returns false if no payment
// is in flight for a while.
func lockInFlight(ctx context.Context, conn *pgx.Conn, id string) bool {
	tx, err := conn.Begin(ctx)
	return err == nil && until(ctx, 10*time.Second, 5*time.Millisecond, func() bool {
		tag, err := tx.Exec(ctx, `SELECT FROM checkout_session WHERE id = $1 AND payment_in_flight FOR UPDATE`, id)
		return err == nil && tag.RowsAffected() == 1
	})
}

// awaitWaiting waits until the wanted number of runs waits for the locks of a connection. It
// returns false if fewer wait after a while. When several are wanted, it calls Reconcile, which
// starts missing runs.
func (c *chaos) awaitWaiting(ctx context.Context, conn *pgx.Conn, wanted int) bool {
	service := runs.Client{Temporal: c.rig.temporal}
	return until(ctx, 8*time.Second, 200*time.Millisecond, func() bool {
		waiting, err := query[int](ctx, c.rig, `
			WITH RECURSIVE waiting AS (
				SELECT $1::int AS pid UNION SELECT a.pid FROM pg_stat_activity a
					JOIN waiting w ON w.pid = ANY(pg_blocking_pids(a.pid)))
			SELECT count(*) - 1 FROM waiting`, conn.PgConn().PID())
		enough := err == nil && waiting >= wanted
		if !enough && wanted > 1 {
			_ = service.ReconcileNow(ctx) // after an error, its schedule runs it later
		}
		return enough
	})
}
