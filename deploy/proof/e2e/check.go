package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/serviceerror"

	"example.com/checkout/deploy/program/config"
	"example.com/checkout/deploy/proof/chaos/invariant"
	"example.com/checkout/deploy/standin/devstack"
	"example.com/checkout/storage/storagetest/must"
	"example.com/checkout/workflows/contract"
)

// SharedSchedule is the retry schedule of most stacks of the tests.
var SharedSchedule = config.ShortSchedule()

// settleTime is longer than the work that the last test may leave: a whole schedule, and an attempt
// whose worker was killed.
const settleTime = 4 * time.Minute

// overdue is when a delivery's attempt counts as lost: its worker died, or was slower than
// webhook.AttemptTimeout. It then waits for the retry policy's own back-off, with the delays of production.
const overdue = 30 * time.Second

// checkShared checks the invariants on the shared stack after all tests, and returns the exit status.
func checkShared() int {
	ctx, cancel := context.WithTimeout(context.Background(), 2*settleTime)
	defer cancel()
	began := time.Now()
	results, err := CheckStack(ctx, Shared, SharedSchedule)
	if err != nil {
		fmt.Fprintln(os.Stderr, "invariants:", err)
		return 1
	}

	status := 0
	for _, r := range results {
		fmt.Fprintf(os.Stderr, "invariant %2d: %4d checked, %d violations %s\n", r.Number, r.Checked, len(r.Violations), r.NotChecked)
		for _, v := range r.Violations {
			fmt.Fprintf(os.Stderr, "invariant %d is violated: %s %s\n", r.Number, v.ID, v.Text)
			status = 1
		}
	}
	fmt.Fprintf(os.Stderr, "invariants checked in %s\n", time.Since(began).Round(time.Millisecond))
	return status
}

// CheckStack waits until a stack has come to rest and checks every invariant. logs are further receivers' logs.
func CheckStack(ctx context.Context, stack *devstack.Stack, schedule string, logs ...string) ([]invariant.Result, error) {
	facts, err := Facts(ctx, stack, schedule, logs...)
	if err != nil {
		return nil, err
	}
	return invariant.Check(facts), nil
}

// Facts waits until a stack has come to rest and returns what CheckStack checks.
func Facts(ctx context.Context, stack *devstack.Stack, schedule string, logs ...string) (*invariant.Facts, error) {
	if err := settle(ctx, stack); err != nil {
		return nil, err
	}
	delays, err := config.ParseSchedule(schedule)
	if err != nil {
		return nil, err
	}
	c, err := stack.Temporal.Dial(ctx)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	return invariant.Gather(ctx, invariant.Sources{
		DatabaseURL: stack.DatabaseURL(), Temporal: c, Namespace: stack.Temporal.Namespace(), Schedule: delays,
		ReceiverLogs: append([]string{stack.ReceiverLogFile()}, logs...), DeliveryRetention: 24 * time.Hour,
	})
}

// settle waits until a stack has come to rest. It hastens deliveries whose attempt was lost.
func settle(ctx context.Context, stack *devstack.Stack) error {
	pool, err := poolOf(stack.DatabaseURL())
	if err != nil {
		return err
	}
	for end := time.Now().Add(settleTime); ; time.Sleep(100 * time.Millisecond) {
		var words string
		err := pool.QueryRow(ctx, invariant.Unsettled).Scan(&words)
		if err != nil || words == "" {
			return err
		}
		lost, err := hasten(ctx, stack)
		if err != nil {
			return err
		}
		if time.Now().After(end) {
			return fmt.Errorf("not at rest after %s: %s; overdue: %v", settleTime, words, lost)
		}
		if len(lost) > 0 {
			time.Sleep(5 * time.Second) // the attempts begin
		}
	}
}

// hasten makes the next attempt of deliveries whose attempt was lost, and returns their ids.
func hasten(ctx context.Context, stack *devstack.Stack) ([]string, error) {
	pool, err := poolOf(stack.DatabaseURL())
	if err != nil {
		return nil, err
	}
	rows, _ := pool.Query(ctx, `
		SELECT id FROM webhook_delivery
		WHERE status = 'pending' AND NOT held AND next_attempt_at < now() - $1::interval
			AND (sending_until IS NULL OR sending_until < now())`, overdue) // CollectRows returns the error
	lost, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil || len(lost) == 0 {
		return nil, err
	}
	c, err := stack.Temporal.Dial(ctx)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	for _, id := range lost {
		err := c.SignalWorkflow(ctx, id, "", contract.SignalRetryNow, nil)
		if _, missing := errors.AsType[*serviceerror.NotFound](err); err != nil && !missing { // Reconcile starts it
			return nil, fmt.Errorf("hasten %s: %w", id, err)
		}
	}
	return lost, nil
}

// RequireInvariants checks the invariants on a test's own stack. It repeats the check for a while, because a run ends a
// little after its row, and after a kill this can take long. A true violation stays.
func RequireInvariants(t *testing.T, stack *devstack.Stack, schedule string) {
	RequireInvariantsBut(t, stack, schedule, nil, func(*invariant.Facts) {})
}

// RequireInvariantsBut is RequireInvariants that adjusts the facts first. Unless known is nil, it passes over the
// violations for which it returns true.
func RequireInvariantsBut(
	t *testing.T, stack *devstack.Stack, schedule string, known func(violation string) bool, adjust func(*invariant.Facts),
) {
	for end := time.Now().Add(settleTime); ; time.Sleep(time.Second) {
		facts := must.Get(Facts(t.Context(), stack, schedule))(t)
		adjust(facts)
		results := invariant.Check(facts)
		found := ViolationsOf(results)
		if known != nil {
			found = slices.DeleteFunc(found, known)
		}
		if len(found) == 0 {
			return
		}
		require.True(t, time.Now().Before(end), "%v: %+v", found, results)
	}
}

// ViolationsOf returns the violations in short form: "8 whd_…".
func ViolationsOf(results []invariant.Result) []string {
	found := []string{}
	for _, r := range results {
		for _, v := range r.Violations {
			found = append(found, fmt.Sprint(r.Number, " ", v.ID))
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}
