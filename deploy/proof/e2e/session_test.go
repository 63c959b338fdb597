package e2e_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/stripe/stripe-go/v85/webhook"
	"golang.org/x/sync/errgroup"

	"example.com/checkout/deploy/proof/e2e"
	"example.com/checkout/deploy/standin/devstack"
)

func TestMain(m *testing.M) { e2e.Main(m) }

// TestMainJob is the whole story: create, pay, checkout.completed, payout.sent.
func TestMainJob(t *testing.T) {
	t.Parallel()
	m := e2e.NewMerchant(t, e2e.Shared)
	id := m.Create(`{"amount": 10.50, "currency": "EUR", "payout_currency": "USDC", "customer_email": "ann@example.com",
		"metadata": {"order_id": "order-1", "n": 1.50}, "redirect_url": "https://shop.example/thanks?a=1"}`)
	page := m.MustPay(id, e2e.CardSucceeds)
	require.Contains(t, page, "https://shop.example/thanks?a=1")

	got := m.Session(id)
	require.Equal(t, "completed", got.Field("status"))
	require.Equal(t, "succeeded", got.Field("transaction.status"))
	require.NotNil(t, got.Field("completed_at"))

	types := map[string]map[string]any{}
	for _, a := range m.Arrivals(2, 10*time.Second) {
		require.NoError(t, a.Signature)
		require.NoError(t, webhook.ValidatePayload(a.Body, a.Header.Get("X-Service-Signature"), m.Secret), "written by somebody else")
		require.Error(t, webhook.ValidatePayload(append([]byte(" "), a.Body...), a.Header.Get("X-Service-Signature"), m.Secret))
		require.Error(t, webhook.ValidatePayload(a.Body, a.Header.Get("X-Service-Signature"), "whsec_other"))
		require.NotEmpty(t, a.Header.Get("traceparent"))
		var envelope struct {
			Type string
			Data map[string]any
		}
		require.NoError(t, json.Unmarshal(a.Body, &envelope))
		types[envelope.Type] = envelope.Data
	}
	require.Equal(t, map[string]any{"order_id": "order-1", "n": 1.5}, types["checkout.completed"]["metadata"])
	require.Equal(t, id, types["payout.sent"]["session_id"])
	require.Equal(t, "11.209978", types["payout.sent"]["amount"], "10.39 EUR at 1.08 less 0.1 %")
	e2e.Await(t, "the payout is sent", 5*time.Second, func() bool { return m.Session(id).Field("payout.status") == "sent" })
}

// TestRaces_OneWinner lets pay, expire and the timer race on the real server,
// many times, and holds what everybody was told against what happened.
func TestRaces_OneWinner(t *testing.T) { // alone: it measures time
	const lifetime = 2 * time.Second
	stack := e2e.Beside(t, devstack.Options{SessionLifetime: lifetime.String()})
	m := e2e.NewMerchant(t, stack)
	var (
		mu      sync.Mutex
		winners = map[string]int{}
	)
	group := errgroup.Group{}
	group.SetLimit(10)
	rounds := 40
	if *e2e.Long {
		rounds = 100
	}
	for i := range rounds {
		group.Go(func() error {
			id, err := m.TryCreate(e2e.Terms)
			if err != nil {
				return err
			}
			var expired e2e.Answer
			racers := errgroup.Group{}
			payIn, expireIn := raceDelays(i, rounds, lifetime)
			racers.Go(func() error {
				time.Sleep(payIn)
				_, _, err := m.Pay(id, e2e.CardSucceeds)
				return err
			})
			racers.Go(func() (err error) {
				if expireIn == 0 {
					return nil
				}
				time.Sleep(expireIn)
				expired, err = m.Call(http.MethodPost, "/v1/checkout/"+id+"/expire", "")
				return err
			})
			if err := racers.Wait(); err != nil {
				return err
			}
			status, err := finalStatus(m, id)
			if err != nil {
				return err
			}
			switch {
			case expired.Status == http.StatusOK && status != "expired":
				return fmt.Errorf("%s: told expired, is %s", id, status)
			case expired.Status == http.StatusConflict && expired.Field("status") != "pending" && status != expired.Field("status"):
				return fmt.Errorf("%s: told %s, is %s", id, expired.Body, status)
			}
			mu.Lock()
			defer mu.Unlock()
			winners[status]++
			return nil
		})
	}
	require.NoError(t, group.Wait())
	t.Logf("winners: %v", winners)
	require.GreaterOrEqual(t, winners["completed"], rounds/10)
	require.GreaterOrEqual(t, winners["expired"], rounds/10)
	require.Equal(t, winners["completed"], e2e.Query[int](t, stack, `SELECT count(*) FROM sandbox_charge WHERE outcome = 'succeeded'`), "charges")
	require.Equal(t, winners["completed"], e2e.Query[int](t, stack, `SELECT count(*) FROM event WHERE type = 'checkout.completed'`), "events")
	require.Equal(t, 0, e2e.Query[int](t, stack, `
		SELECT count(*) FROM sandbox_charge c JOIN checkout_session s ON s.id = c.session_id WHERE s.status <> 'completed'`), "no charge without a completed session")
	e2e.Await(t, "every completed session is paid out", 30*time.Second, func() bool {
		return e2e.Query[int](t, stack, `SELECT count(*) FROM payout WHERE status = 'sent'`) == winners["completed"]
	})
}

// finalStatus waits until the session's row has a final status. The API's status can be expired by the clock alone.
func finalStatus(m *e2e.Merchant, id string) (status string, err error) {
	for end := time.Now().Add(e2e.LeastPatience); ; time.Sleep(50 * time.Millisecond) {
		status = e2e.Query[string](m.T, m.Stack, `SELECT status FROM checkout_session WHERE id = $1`, id)
		switch {
		case status != "pending":
			return status, nil
		case time.Now().After(end):
			return "", fmt.Errorf("%s is still pending", id)
		}
	}
}

// raceDelays spreads the starts of round i of n over 50 ms, so that each of pay, expire and the
// timer wins often; 0 for expire means that nobody asks for it.
func raceDelays(i, n int, lifetime time.Duration) (pay, expire time.Duration) {
	step := time.Duration(i) * 50 * time.Millisecond / time.Duration(n)
	switch i % 5 {
	case 0: // pay and expire at once
		return step, 25 * time.Millisecond
	case 1: // expire a little earlier, or not
		return 25 * time.Millisecond, step + 1
	case 2: // pay against the timer alone
		return lifetime - 80*time.Millisecond + 2*step, 0
	case 3: // all three
		return lifetime - 60*time.Millisecond + step, lifetime - 40*time.Millisecond + step
	default: // pay well before expire
		return 0, 500*time.Millisecond + step
	}
}
