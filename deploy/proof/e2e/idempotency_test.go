package e2e_test

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/checkout/deploy/proof/e2e"
	"example.com/checkout/deploy/standin/devstack"
	"example.com/checkout/workflows/checkout"
)

// TestIdempotencyKey_SurvivesKill9 kills the API while keyed creates are under
// way; repeating each until it is answered makes one session each, which can be
// paid.
func TestIdempotencyKey_SurvivesKill9(t *testing.T) {
	t.Parallel()
	e2e.OnlyLong(t)
	stack := e2e.Beside(t, devstack.Options{})
	m := e2e.NewMerchant(t, stack)
	const n = 20
	ids := make([]string, n)
	var group sync.WaitGroup
	for i := range n {
		group.Go(func() {
			key := strings.Repeat("k", i+1)
			time.Sleep(time.Duration(i) * 20 * time.Millisecond)
			for end := time.Now().Add(e2e.LeastPatience); time.Now().Before(end); time.Sleep(300 * time.Millisecond) {
				if got, err := m.CallWith(key, http.MethodPost, "/v1/checkout", e2e.Terms); err == nil && got.Status == http.StatusCreated {
					ids[i] = got.Field("id").(string)
					return
				}
			}
		})
	}
	time.Sleep(200 * time.Millisecond) // in the middle
	stack.API.Kill()
	require.NoError(t, stack.StartAPI(t.Context()))
	group.Wait()
	require.NotContains(t, ids, "", "each was answered in the end")
	require.Equal(t, n, e2e.Query[int](t, stack, `SELECT count(*) FROM checkout_session`))
	for _, id := range ids {
		m.MustPay(id, e2e.CardSucceeds)
		m.AwaitStatus(id, checkout.StatusCompleted, 20*time.Second)
	}
}
