package api

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"example.com/checkout/workflows/runs"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"

	"example.com/checkout/api/limit"
	"example.com/checkout/storage"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/webhook"
)

// TestShares_AnotherMerchantIsAnsweredWhileOneTakesEveryConnection lets more requests of one key
// wait in PostgreSQL than there are connections.
func TestShares_AnotherMerchantIsAnsweredWhileOneTakesEveryConnection(t *testing.T) {
	f := newFront(t, thirdOfTheConnections)
	other := f.newMerchant(true)
	for _, key := range []string{f.merchant.testKey, other.testKey} { // this process knows both
		require.Equal(t, 200, f.do("GET", "/v1/checkout", key, "").status)
	}
	tx, err := f.Connect(t).Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), `SELECT FROM token_bucket WHERE owner = $1 FOR UPDATE`, f.merchant.testKeyID)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	var flood sync.WaitGroup
	for range 40 {
		flood.Go(func() {
			r := newRequest(t, "GET", "/v1/checkout", "").WithContext(ctx)
			r.Header.Set("Authorization", "Bearer "+f.merchant.testKey)
			f.handler.ServeHTTP(httptest.NewRecorder(), r)
		})
	}
	waiting := func() int {
		return f.count(`pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()`)
	}
	require.Eventually(t, func() bool { return waiting() > 0 }, 20*time.Second, 10*time.Millisecond)
	for range 5 {
		require.Equal(t, 200, f.do("GET", "/v1/checkout", other.testKey, "").status)
		require.Positive(t, waiting(), "the first merchant's requests still wait")
	}
	cancel()
	require.NoError(t, tx.Rollback(t.Context()))
	flood.Wait()
}

func TestShares_WhoWaitsTooLongForItsTurnIsToldSo(t *testing.T) {
	f := newFront(t, thirdOfTheConnections)
	key := f.merchant.testKey
	require.Equal(t, 200, f.do("GET", "/v1/checkout", key, "").status)
	turn, err := f.config.Shares.Enter(t.Context(), f.merchant.ID+" read")
	require.NoError(t, err)
	got := f.do("GET", "/v1/checkout", key, "")
	require.Equal(t, "429 rate_limited", got.refused(), got.body)
	require.Equal(t, "1", got.header.Get("Retry-After"))
	require.Equal(t, 201, f.do("POST", "/v1/checkout", key, validSession).status, "writes have their own")
	turn.Leave(false)
	require.Equal(t, 200, f.do("GET", "/v1/checkout", key, "").status)
}

// countingTemporal counts the questions for its health.
type countingTemporal struct {
	client.Client
	asked atomic.Int32
}

func (c *countingTemporal) CheckHealth(context.Context, *client.CheckHealthRequest) (*client.CheckHealthResponse, error) {
	c.asked.Add(1)
	return &client.CheckHealthResponse{}, nil
}

func TestReadyz_AnybodyMayAskAndTheSystemsAreAskedOnce(t *testing.T) {
	temporal := &countingTemporal{}
	f := newFront(t, func(c *Config) { c.Runs = &runs.Client{Temporal: temporal} })
	began := time.Now()
	var wg sync.WaitGroup
	for range 100 {
		wg.Go(func() { require.Equal(t, 200, f.serve(newRequest(t, "GET", "/readyz", "")).Code) })
	}
	wg.Wait()
	require.LessOrEqual(t, int(temporal.asked.Load()), 2+int(time.Since(began)/time.Second), "once a second")
}

func TestVerifySignature_ABodyIsNoLongerThanAnEvent(t *testing.T) {
	f := newFront(t)
	header := webhook.Sign([]byte("whsec_x"), time.Now(), nil)
	for size, status := range map[int]int{32 << 10: 200, 32<<10 + 1: 400} {
		got := f.do("POST", "/v1/webhooks/verify", f.merchant.testKey, `{"header":`+strconv.Quote(header)+`,"body":"`+strings.Repeat("x", size)+`"}`)
		require.Equal(t, status, got.status, size)
		if status == 400 {
			require.Equal(t, []string{"body"}, got.params())
		}
	}
}

func TestVerifySignature_AMerchantAsksABoundedNumberOfTimes(t *testing.T) {
	f := newFront(t, func(c *Config) { c.Limits.Verify = slowRate(3) })
	header := webhook.Sign([]byte("whsec_x"), time.Now(), nil)
	body := `{"header":` + strconv.Quote(header) + `,"body":"x"}`
	for i := range 5 {
		got := f.do("POST", "/v1/webhooks/verify", f.merchant.key(modes[i%2]), body)
		require.Equal(t, i < 3, got.status == 200, "%d: %s", i, got.body)
	}
	require.Equal(t, http.StatusOK, f.do("POST", "/v1/webhooks/verify", f.newMerchant(true).testKey, body).status)
}

var modes = [2]checkout.Mode{checkout.ModeTest, checkout.ModeLive}

func slowRate(burst int) storage.Rate { return storage.Rate{PerSecond: 0.001, Burst: burst} }

// thirdOfTheConnections gives each merchant one of the test's four connections for reads and one
// for writes.
func thirdOfTheConnections(c *Config) { c.Shares = limit.NewShares(1) }
