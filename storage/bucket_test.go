package storage_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/checkout/storage"
	"example.com/checkout/workflows/checkout"
)

// later lets time pass for every bucket.
func (f fixture) later(t *testing.T, d time.Duration) {
	t.Helper()
	f.exec(t, `UPDATE token_bucket SET at = at - $1::interval`, d)
}

func TestAllowAddress_CountsDownAndRefills(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	rate := storage.Rate{PerSecond: 0.01, Burst: 3}
	take := func() storage.Allowance {
		a, err := f.AllowAddress(t.Context(), "192.0.2.1", rate)
		require.NoError(t, err)
		require.Equal(t, 3, a.Limit)
		return a
	}
	for i := range 3 {
		a := take()
		require.True(t, a.OK)
		require.Equal(t, 2-i, a.Remaining)
		require.InDelta(t, 100*float64(i+1), a.Reset.Seconds(), 1)
	}
	for range 20 {
		a := take()
		require.False(t, a.OK)
		require.Zero(t, a.Remaining)
		require.InDelta(t, 100, a.Wait.Seconds(), 1, "refused ones cost nothing")
	}
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
	t.Parallel()
	f := newFixture(t)
	take := func(burst int) storage.Allowance {
		a, err := f.AllowAddress(t.Context(), "192.0.2.1", storage.Rate{PerSecond: 0.01, Burst: burst})
		require.NoError(t, err)
		return a
	}
	require.Equal(t, 99, take(100).Remaining)
	require.Equal(t, 4, take(5).Remaining, "a smaller bucket holds less")
	a := take(100)
	require.Equal(t, 3, a.Remaining, "a larger one fills up in time")
	require.Equal(t, 100, a.Limit)
}

func TestTokenBucket_ParallelTakersNeverGetMoreThanTheBurst(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	key := checkout.NewAPIKey(checkout.ModeTest)
	id := checkout.NewID(checkout.PrefixAPIKey)
	require.NoError(t, f.CreateAPIKey(t.Context(), checkout.APIKey{ID: id, MerchantID: f.merchant.ID, Mode: checkout.ModeTest, Label: "ci"}, key))
	hash, ok := checkout.HashAPIKey(key)
	require.True(t, ok)
	rate := storage.Rate{PerSecond: 0.001, Burst: 60}
	for name, take := range map[string]func() (storage.Allowance, error){
		"address": func() (storage.Allowance, error) { return f.AllowAddress(t.Context(), "192.0.2.1", rate) },
		"key": func() (storage.Allowance, error) {
			_, a, err := f.Authenticate(t.Context(), hash, storage.RequestWrite, storage.Rates{Test: rate, Live: storage.Rate{PerSecond: 1, Burst: 1}})
			return a, err
		},
	} {
		var (
			let, failed atomic.Int32
			wg          sync.WaitGroup
		)
		for range 50 {
			wg.Go(func() {
				for range 5 {
					switch a, err := take(); {
					case err != nil:
						failed.Add(1)
					case a.OK:
						let.Add(1)
					}
				}
			})
		}
		wg.Wait()
		require.Zero(t, failed.Load(), name)
		require.EqualValues(t, 60, let.Load(), name)
	}
	keys, err := f.APIKeys(t.Context(), f.merchant.ID)
	require.NoError(t, err)
	require.WithinDuration(t, time.Now(), *keys[0].UsedAt, time.Minute, "the bucket knows when a key was used")
}

func TestAuthenticate_HasABucketForEachKeyAndKind(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	require.NoError(t, f.CreateMerchant(t.Context(), f.merchant, checkout.ModeLive, nil))
	hashes := map[checkout.Mode][]byte{}
	for _, mode := range []checkout.Mode{checkout.ModeTest, checkout.ModeLive} {
		key := checkout.NewAPIKey(mode)
		require.NoError(t, f.CreateAPIKey(t.Context(), checkout.APIKey{ID: checkout.NewID("key"), MerchantID: f.merchant.ID, Mode: mode, Label: "ci"}, key))
		hashes[mode], _ = checkout.HashAPIKey(key)
	}
	rates := storage.Rates{Test: storage.Rate{PerSecond: 0.001, Burst: 2}, Live: storage.Rate{PerSecond: 0.001, Burst: 4}}
	for mode, burst := range map[checkout.Mode]int{checkout.ModeTest: 2, checkout.ModeLive: 4} {
		for _, kind := range []storage.RequestKind{storage.RequestRead, storage.RequestWrite} {
			for i := range burst + 2 {
				_, a, err := f.Authenticate(t.Context(), hashes[mode], kind, rates)
				require.NoError(t, err)
				require.Equal(t, burst, a.Limit)
				require.Equal(t, i < burst, a.OK, "%s %s %d", mode, kind, i)
			}
		}
	}
	require.EqualValues(t, 4, f.query(t, `SELECT count(*) FROM token_bucket`))
	_, _, err := f.Authenticate(t.Context(), make([]byte, 32), storage.RequestRead, rates)
	require.ErrorIs(t, err, checkout.ErrAPIKey)
	require.EqualValues(t, 4, f.query(t, `SELECT count(*) FROM token_bucket`), "who is nobody has none")
	_, err = f.AllowAddress(t.Context(), "192.0.2.1", storage.Rate{PerSecond: 1, Burst: 1})
	require.NoError(t, err)
	f.later(t, 59*time.Minute)
	require.NoError(t, f.DeleteOldBuckets(t.Context(), 2*time.Hour))
	require.EqualValues(t, 5, f.query(t, `SELECT count(*) FROM token_bucket`))
	f.later(t, time.Minute)
	require.NoError(t, f.DeleteOldBuckets(t.Context(), 2*time.Hour))
	require.EqualValues(t, 4, f.query(t, `SELECT count(*) FROM token_bucket`))
	require.NoError(t, f.DeleteOldBuckets(t.Context(), 30*time.Minute))
	require.EqualValues(t, 0, f.query(t, `SELECT count(*) FROM token_bucket`))
}
