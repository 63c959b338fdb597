package api

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"example.com/checkout/api/limit"
	"example.com/checkout/storage"
	"example.com/checkout/storage/pgtemp"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
	"example.com/checkout/workflows/webhook"
)

// slowly sets limits with these bursts. A token comes back after a quarter of an hour, when go test has given up.
func slowly(reads, writes, live, badKeys int) func(*Config) {
	rate := slowRate
	return func(c *Config) {
		c.Limits = Limits{
			Reads:   storage.Rates{Test: rate(reads), Live: rate(live)},
			Writes:  storage.Rates{Test: rate(writes), Live: rate(live)},
			BadKeys: rate(badKeys),
		}
	}
}

func TestLimits_TenTimesTheBurstGetsTheBurst(t *testing.T) {
	f := newFront(t, slowly(4, 2, 6, 100))
	pgtemp.StopTime(t, f.URL, "token_bucket", "at")
	for _, c := range []struct {
		method, key string
		burst       int
	}{
		{"GET", f.key, 4},
		{"POST", f.key, 2},
		{"GET", f.merchant.liveKey, 6},
		{"POST", f.merchant.liveKey, 6},
	} {
		let := 0
		for i := range 10 * c.burst {
			got := f.do(c.method, "/v1/checkout", c.key, map[string]string{"POST": validSession}[c.method])
			require.Equal(t, strconv.Itoa(c.burst), got.header.Get("RateLimit-Limit"))
			require.Equal(t, strconv.Itoa(max(0, c.burst-1-i)), got.header.Get("RateLimit-Remaining"))
			reset, err := strconv.Atoi(got.header.Get("RateLimit-Reset"))
			require.NoError(t, err)
			require.InDelta(t, 1000*min(i+1, c.burst), reset, 1, "a thousand seconds for each")
			if got.status < 300 {
				let++
				require.Empty(t, got.header.Get("Retry-After"))
				continue
			}
			require.Equal(t, "429 rate_limited", got.refused(), got.body)
			wait, err := strconv.Atoi(got.header.Get("Retry-After"))
			require.NoError(t, err)
			require.InDelta(t, 1000, wait, 1)
		}
		require.Equal(t, c.burst, let, c)
	}
	require.Equal(t, 8, f.count("checkout_session"))
}

func TestLimits_ARefusedRequestHasNoEffect(t *testing.T) {
	f := newFront(t, slowly(5, 1, 5, 5))
	require.Equal(t, 201, f.do("POST", "/v1/checkout", f.key, validSession).status)
	body := strings.NewReader("{}")
	r := newRequest(t, "POST", "/v1/checkout", "")
	r.Header.Set("Authorization", "Bearer "+f.key)
	r.Header.Set(idempotent, "k")
	r.Body = io.NopCloser(body)
	require.Equal(t, 429, f.send(r).status)
	require.Equal(t, 2, body.Len(), "it comes before the body is read")
	require.Zero(t, f.count("idempotent_request"), "and is not kept")
	require.Equal(t, 1, f.count("checkout_session"))
}

func TestLimits_BadKeysArePerAddress(t *testing.T) {
	f := newFront(t, slowly(1000, 1000, 1000, 7))
	from := func(address, key string) answer {
		r := newRequest(t, "GET", "/v1/checkout", "")
		r.RemoteAddr = address
		if key != "" {
			r.Header.Set("Authorization", "Bearer "+key)
		}
		return f.send(r)
	}
	for i := range 70 {
		key := map[int]string{0: "", 1: someKey, 2: merchant.NewAPIKey(checkout.ModeLive)}[i%3]
		got := from("192.0.2.1:"+strconv.Itoa(1000+i), key)
		require.Empty(t, got.header.Get("RateLimit-Limit"), "an address is told nothing")
		if i < 7 {
			require.Equal(t, 401, got.status)
			continue
		}
		require.Equal(t, "429 rate_limited", got.refused())
		require.NotEmpty(t, got.header.Get("Retry-After"))
		require.Equal(t, 200, from("192.0.2.1:1", f.key).status, "a good key is not hurt")
	}
	require.Equal(t, 401, from("192.0.2.2:1", someKey).status)
	for i := range 8 { // the addresses of one IPv6 network count together
		require.Equal(t, i < 7, from(fmt.Sprintf("[2001:db8:1:2::%x]:1", i+1), someKey).status == 401)
	}
	require.Equal(t, 401, from("@", someKey).status, "a unix socket")
	require.NoError(t, f.store.Merchants.RevokeAPIKey(t.Context(), f.ref(f.merchant.testKeyID)))
	require.Equal(t, 429, from("192.0.2.1:1", f.key).status, "a revoked key is a bad one")
	f.exec(`UPDATE token_bucket SET at = at - interval '1001 seconds' WHERE kind = 'address'`)
	require.Equal(t, 401, from("192.0.2.1:1", someKey).status)
	require.Equal(t, 429, from("192.0.2.1:1", someKey).status)
}

// TestShares_AnotherMerchantIsAnsweredWhileOneTakesEveryConnection lets more requests of one key
// wait in PostgreSQL than there are connections.
func TestShares_AnotherMerchantIsAnsweredWhileOneTakesEveryConnection(t *testing.T) {
	f := newFront(t, thirdOfTheConnections)
	other := f.newMerchant(true)
	for _, key := range []string{f.key, other.testKey} { // this process knows both
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
			r.Header.Set("Authorization", "Bearer "+f.key)
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
	require.Equal(t, 200, f.do("GET", "/v1/checkout", f.key, "").status)
	turn, err := f.config.Shares.Enter(t.Context(), f.merchant.ID+" read")
	require.NoError(t, err)
	got := f.do("GET", "/v1/checkout", f.key, "")
	require.Equal(t, "429 rate_limited", got.refused(), got.body)
	require.Equal(t, "1", got.header.Get("Retry-After"))
	require.Equal(t, 201, f.do("POST", "/v1/checkout", f.key, validSession).status, "writes have their own")
	turn.Leave(false)
	require.Equal(t, 200, f.do("GET", "/v1/checkout", f.key, "").status)
}

func TestReadyz_AnybodyMayAskAndTheSystemsAreAskedOnce(t *testing.T) {
	f := newFront(t)
	var asked atomic.Int32
	f.config.Health.SetChecks(f.store.Ping, func(context.Context) error { asked.Add(1); return nil })
	began := time.Now()
	var wg sync.WaitGroup
	for range 100 {
		wg.Go(func() { assert.Equal(t, 200, f.serve(newRequest(t, "GET", "/readyz", "")).Code) })
	}
	wg.Wait()
	require.LessOrEqual(t, int(asked.Load()), 2+int(time.Since(began)/time.Second), "once a second")
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
