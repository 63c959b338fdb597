package e2e_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"

	"example.com/checkout/deploy/proof/e2e"
	"example.com/checkout/deploy/standin/devstack"
	"example.com/checkout/workflows/checkout"
)

// TestHistories_OfAClockThatIsAhead is TestHistories for sessions whose timer fires
// while PostgreSQL's clock says that there is time left: nobody loses a session by it.
func TestHistories_OfAClockThatIsAhead(t *testing.T) {
	t.Parallel()
	if *e2e.RecordHistories == "" {
		e2e.OnlyLong(t)
	}
	stack := e2e.Beside(t, devstack.Options{SessionLifetime: "15s"})
	// PostgreSQL's clock is set back for the service's connections: they find a function of that name before
	// PostgreSQL's own.
	e2e.Exec(t, stack, `
		CREATE FUNCTION public.clock_timestamp() RETURNS timestamptz LANGUAGE sql AS $$ SELECT pg_catalog.clock_timestamp() - interval '10s' $$;
		DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET search_path = public, pg_catalog', current_database()); END $$;
		SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()`)
	c, m := e2e.TemporalClient(t, stack), e2e.NewMerchant(t, stack)
	timers := func(id string) (started int) {
		for _, e := range e2e.Events(t, c, id, "") {
			if e.EventType == enumspb.EVENT_TYPE_TIMER_STARTED {
				started++
			}
		}
		return started
	}
	paid, left := m.Create(e2e.Terms), m.Create(e2e.Terms)
	for _, id := range []string{paid, left} {
		e2e.Await(t, "the timer has fired, and another waits", time.Minute, func() bool { return timers(id) > 1 })
	}
	m.MustPay(paid, e2e.CardSucceeds)
	m.AwaitStatus(paid, checkout.StatusCompleted, time.Minute)
	e2e.AwaitRun(t, c, left, "the other session has expired", time.Minute, enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED)
	require.True(t, e2e.Query[bool](t, stack, `SELECT status = 'expired' AND ended_at >= expires_at FROM checkout_session WHERE id = $1`, left))
	e2e.Record(t, c, "checkout_session_early", left, "")
}
