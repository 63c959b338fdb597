package storage_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"example.com/checkout/storage"
	"example.com/checkout/storage/pgtemp"
	"example.com/checkout/storage/storagetest/must"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
)

// key makes an API key and returns its hash.
func (f fixture) key(t *testing.T) []byte {
	secret := merchant.NewAPIKey(checkout.ModeTest)
	key := merchant.APIKey{Ref: f.merchant.Owner(checkout.ModeTest).Ref(checkout.NewID(checkout.PrefixAPIKey)), Label: "ci"}
	require.NoError(t, f.Merchants.CreateAPIKey(t.Context(), key, secret))
	hash, ok := merchant.HashAPIKey(secret)
	require.True(t, ok)
	return hash
}

// later moves every bucket's last use back by d.
func (f fixture) later(t *testing.T, d time.Duration) {
	f.Exec(t, `UPDATE token_bucket SET at = at - $1::interval`, d)
}

// The tests of the API count down. This one lets time pass.
func TestAllowAddress_RefillsInTime(t *testing.T) {
	f := newFixture(t)
	pgtemp.StopTime(t, f.URL, "token_bucket", "at")
	take := func() storage.Allowance {
		return must.Get(f.Requests.AllowAddress(t.Context(), "192.0.2.1", storage.Rate{PerSecond: 0.01, Burst: 3}))(t)
	}
	for range 20 {
		take()
	}
	require.InDelta(t, 100, take().Wait.Seconds(), 1, "refused ones cost nothing")
	f.later(t, 150*time.Second)
	require.True(t, take().OK)
	a := take()
	require.False(t, a.OK)
	require.InDelta(t, 50, a.Wait.Seconds(), 1)
	f.later(t, 240*time.Hour)
	require.Equal(t, 2, take().Remaining, "never more than the burst")

	f.later(t, -time.Hour) // the clock was set back
	require.True(t, take().OK)
	require.True(t, take().OK)
	require.False(t, take().OK, "time that runs backwards takes nothing and gives nothing")
}

func TestAllowAddress_ChangedRatesHoldAtOnce(t *testing.T) {
	f := newFixture(t)
	pgtemp.StopTime(t, f.URL, "token_bucket", "at")
	take := func(burst int) storage.Allowance {
		return must.Get(f.Requests.AllowAddress(t.Context(), "192.0.2.1", storage.Rate{PerSecond: 0.01, Burst: burst}))(t)
	}
	require.Equal(t, 99, take(100).Remaining)
	require.Equal(t, 4, take(5).Remaining, "a smaller bucket holds less")
	a := take(100)
	require.Equal(t, 3, a.Remaining, "a larger one fills up in time")
	require.Equal(t, 100, a.Limit)
}

func TestAuthenticate_ParallelRequestsNeverGetMoreThanTheBurst(t *testing.T) {
	f := newFixture(t)
	hash, rate := f.key(t), storage.Rate{PerSecond: 0.001, Burst: 60}
	var allowed atomic.Int32
	var callers errgroup.Group
	for range 50 {
		callers.Go(func() error {
			for range 5 {
				_, a, err := f.Merchants.Authenticate(t.Context(), hash, storage.RequestWrite, storage.Rates{Test: rate})
				if err != nil {
					return err
				}
				if a.OK {
					allowed.Add(1)
				}
			}
			return nil
		})
	}
	require.NoError(t, callers.Wait())
	require.EqualValues(t, 60, allowed.Load())
	require.WithinDuration(t, time.Now(), *must.Get(f.Merchants.APIKeys(t.Context(), f.merchant.ID))(t)[0].UsedAt, time.Minute, "the bucket knows when a key was used")
}

// An address may send a single request. Keeping a row for each address as long as the log would fill the table.
func TestDeleteOldBuckets_OfAddressesGoAfterAnHourThoseOfKeysWithTheLog(t *testing.T) {
	f := newFixture(t)
	hash := f.key(t)
	rate := storage.Rate{PerSecond: 1, Burst: 10}
	for _, kind := range []storage.RequestKind{storage.RequestRead, storage.RequestWrite} {
		_, _, err := f.Merchants.Authenticate(t.Context(), hash, kind, storage.Rates{Test: rate, Live: rate})
		require.NoError(t, err)
	}
	for i := range 5 {
		must.Get(f.Requests.AllowAddress(t.Context(), fmt.Sprintf("192.0.2.%d", i), rate))(t)
	}
	must.Get(f.Requests.AllowAddress(t.Context(), "192.0.2.9", storage.Rate{PerSecond: 0.001, Burst: 10}))(t)
	left := func(keyAge time.Duration) any {
		var after storage.Bucket
		for range 10 { // pages of two
			after = must.Get(f.Installation.DeleteOldBuckets(t.Context(), keyAge, after, 2))(t)
			if after.Owner == "" {
				return f.query(t, `SELECT count(*) FROM token_bucket`)
			}
		}
		require.Fail(t, "the pages have no end")
		return nil
	}
	const logAge = 24 * time.Hour
	require.EqualValues(t, 8, left(logAge))
	f.Exec(t, `UPDATE token_bucket SET tokens = 0`)
	f.later(t, 62*time.Minute)
	require.EqualValues(t, 3, left(logAge), "those of the key, and one that is not full yet")
	f.later(t, logAge)
	require.EqualValues(t, 0, left(logAge))
}

// TestBuckets_WaitForNoDisk also checks that the next statement of the same connection waits for the disk.
func TestBuckets_WaitForNoDisk(t *testing.T) {
	f := newFixture(t)
	f.seesCommits(t, "token_bucket", "merchant")
	hash := f.key(t)
	rate := storage.Rate{PerSecond: 1, Burst: 5}
	for range 2 { // the first call makes the bucket, the second changes it
		must.Get(f.Requests.Allow(t.Context(), storage.Bucket{Owner: "a", Kind: "k", Rate: rate}))(t)
		_, _, err := f.Merchants.Authenticate(t.Context(), hash, storage.RequestRead, storage.Rates{Test: rate, Live: rate})
		require.NoError(t, err)
	}
	f.other(t, checkout.ModeTest)
	require.Equal(t, "merchant on 1, token_bucket off 4", f.query(t, `
		SELECT string_agg(written || ' ' || value || ' ' || n, ', ' ORDER BY written)
		FROM (SELECT written, value, count(*) AS n FROM seen GROUP BY written, value) s`))
}

func TestAllow_TakesFromSeveralBucketsAndTellsTheLongestWait(t *testing.T) {
	f := newFixture(t)
	wide := storage.Bucket{Owner: "192.0.2.1", Kind: "page", Rate: storage.Rate{PerSecond: 0.001, Burst: 9}}
	narrow := storage.Bucket{Owner: "cs_1", Kind: "status", Rate: storage.Rate{PerSecond: 0.001, Burst: 2}}
	for i := range 4 {
		got := must.Get(f.Requests.Allow(t.Context(), wide, narrow))(t)
		require.Equal(t, i < 2, got.OK, i)
		require.Equal(t, i >= 2, got.Wait > 0 && got.Limit == 2 && !got.OK, i)
	}
	got := must.Get(f.Requests.Allow(t.Context(), wide))(t)
	require.Equal(t, []any{true, 4}, []any{got.OK, got.Remaining})
	narrow.Owner = "cs_2"
	require.True(t, must.Get(f.Requests.Allow(t.Context(), wide, narrow))(t).OK, "another session has its own")
}
