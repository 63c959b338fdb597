package api

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/checkout/storage"
	"example.com/checkout/storage/pgtemp"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
)

// slowly sets limits with these bursts. A token comes back after a quarter of an hour, when go test has given up.
func slowly(reads, writes, live, badKeys int) func(*Config) {
	rate := func(burst int) storage.Rate { return storage.Rate{PerSecond: 0.001, Burst: burst} }
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
		{"GET", f.merchant.testKey, 4},
		{"POST", f.merchant.testKey, 2},
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
	require.Equal(t, 201, f.do("POST", "/v1/checkout", f.merchant.testKey, validSession).status)
	body := strings.NewReader("{}")
	r := newRequest(t, "POST", "/v1/checkout", "")
	r.Header.Set("Authorization", "Bearer "+f.merchant.testKey)
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
		require.Equal(t, 200, from("192.0.2.1:1", f.merchant.testKey).status, "a good key is not hurt")
	}
	require.Equal(t, 401, from("192.0.2.2:1", someKey).status)
	for i := range 8 { // the addresses of one IPv6 network count together
		require.Equal(t, i < 7, from(fmt.Sprintf("[2001:db8:1:2::%x]:1", i+1), someKey).status == 401)
	}
	require.Equal(t, 401, from("@", someKey).status, "a unix socket")
	require.NoError(t, f.store.Merchants.RevokeAPIKey(t.Context(), f.ref(f.merchant.testKeyID)))
	require.Equal(t, 429, from("192.0.2.1:1", f.merchant.testKey).status, "a revoked key is a bad one")
	f.exec(`UPDATE token_bucket SET at = at - interval '1001 seconds' WHERE kind = 'address'`)
	require.Equal(t, 401, from("192.0.2.1:1", someKey).status)
	require.Equal(t, 429, from("192.0.2.1:1", someKey).status)
}
