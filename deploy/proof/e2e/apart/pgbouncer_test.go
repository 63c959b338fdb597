package apart

import (
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/checkout/deploy/program/config"
	"example.com/checkout/deploy/proof/e2e"
	"example.com/checkout/deploy/standin/devstack"
	"example.com/checkout/deploy/standin/need"
	"example.com/checkout/storage"
	"example.com/checkout/storage/pg"
	"example.com/checkout/storage/storagetest/must"
	"example.com/checkout/workflows/merchant"
)

// TestPgBouncer_CarriesEverything: API and worker are behind a real PgBouncer in transaction mode.
// Sessions are created and paid at the same time, deliveries arrive, the dashboard's log has them.
func TestPgBouncer_CarriesEverything(t *testing.T) {
	t.Parallel()
	need.Program(t, "apt-get install --no-install-recommends pgbouncer libc-ares2", "pgbouncer")
	stack := e2e.OwnStack(t, devstack.Options{PgBouncer: true, RetrySchedule: e2e.SharedSchedule})
	m := e2e.NewMerchant(t, stack)
	log := openLog(t, m)
	require.Contains(t, log(), "Nothing was sent yet.")

	const atOnce, sessions = 6, 18
	var group sync.WaitGroup
	for range atOnce {
		group.Go(func() {
			for range sessions / atOnce {
				id, err := m.TryCreate(e2e.Terms)
				if err != nil {
					t.Error(err)
					return
				}
				if _, err := m.TryPay(id, e2e.CardSucceeds); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	e2e.Await(t, "every session is paid", time.Minute, func() bool { // the page may answer while a payment is under way
		return e2e.Query[int](t, stack, `SELECT count(*) FROM checkout_session WHERE status = 'completed'`) == sessions
	})
	m.Arrivals(2*sessions, time.Minute) // checkout.completed and payout.sent
	require.Contains(t, log(), "payout.sent</a>")
	e2e.RequireInvariants(t, stack, e2e.SharedSchedule)
	written := e2e.Log(t, stack, "api")
	require.NotContains(t, written, `"level":"ERROR"`)

	// Without the setting, a process says so and stops.
	environment := must.Get(config.LoadStores(stack.Environment()))(t)
	err := must.Err(storage.OpenKeyless(t.Context(), storage.Options{URL: environment.DatabaseURL}))
	require.ErrorIs(t, err, pg.ErrPooler)
	require.True(t, pg.Misconfigured(err))
}

// openLog returns a function that reads the dashboard's log of deliveries.
func openLog(t *testing.T, m *e2e.Merchant) (read func() string) {
	member := e2e.AddMember(t, e2e.OpenStore(t, m.Stack), m.ID, merchant.RoleDeveloper, "ann@"+m.ID+".example")
	page, cookie := m.Stack.DashboardURL()+"/m/"+m.ID+"/test/deliveries", "member="+m.SignIn(member.Email)
	return func() string {
		got := e2e.Ask(t, http.MethodGet, page, "", "Cookie", cookie)
		require.Equal(t, http.StatusOK, got.Status)
		return string(got.Body)
	}
}
