package storage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
)

// Rate is how many requests a second a token bucket lets through for long, and
// how many at once.
type Rate struct {
	PerSecond float64
	Burst     int
}

// Allowance is what a token bucket says of one request.
type Allowance struct {
	OK        bool
	Limit     int           // requests at once
	Remaining int           // that may follow at once
	Reset     time.Duration // until the bucket is full
	Wait      time.Duration // until the next request is let through; 0 when it is now
}

// unhurried lets the transaction of a statement that selects from it commit without
// waiting for the disk. When PostgreSQL crashes, buckets are as they were up to a
// second before, which harms nobody; and a flood of requests that are refused does
// not fill the disk's queue, in which everybody's payments wait.
const unhurried = `set_config('synchronous_commit', 'off', true)`

// takeOne takes a token from a bucket that exists, refilled since the last
// request; excluded is the bucket as it would be new, with its first token
// taken. It is one statement, so it is right across processes.
const takeOne = `
	ON CONFLICT (owner, kind) DO UPDATE SET
		rate = excluded.rate, burst = excluded.burst, at = greatest(b.at, excluded.at),
		allowed = b.tokens + excluded.rate * greatest(0, extract(epoch FROM excluded.at - b.at)) >= 1,
		tokens = CASE
			WHEN b.tokens + excluded.rate * greatest(0, extract(epoch FROM excluded.at - b.at)) >= 1
			THEN least(excluded.burst, b.tokens + excluded.rate * greatest(0, extract(epoch FROM excluded.at - b.at))) - 1
			ELSE b.tokens + excluded.rate * greatest(0, extract(epoch FROM excluded.at - b.at)) END
	RETURNING b.allowed, b.tokens, b.rate, b.burst`

// allowance is what a bucket with tokens left has told.
func allowance(ok bool, tokens, rate float64, burst int) Allowance {
	until := func(n float64) time.Duration { return time.Duration(max(0, n-tokens) / rate * float64(time.Second)) }
	return Allowance{OK: ok, Limit: burst, Remaining: int(math.Floor(max(0, tokens))), Reset: until(float64(burst)), Wait: until(1)}
}

// Bucket is one token bucket. Kinds keep apart what has the same owner.
type Bucket struct {
	Owner string
	Kind  string
	Rate
}

// Allow takes a token from each of several buckets, of different kinds, in one
// statement. The request is let through when all of them let it; a bucket that
// does loses its token even when another does not. The answer is that of the
// bucket for which the caller has to wait longest. Everybody names the buckets
// in the same order of kinds, so that no two requests wait for each other.
func (s *Store) Allow(ctx context.Context, buckets ...Bucket) (Allowance, error) {
	var (
		owners, kinds []string
		rates         []float64
		bursts        []int
	)
	for _, b := range buckets {
		owners, kinds, rates, bursts = append(owners, b.Owner), append(kinds, b.Kind), append(rates, b.PerSecond), append(bursts, b.Burst)
	}
	rows, err := s.pool.Query(ctx, `
		INSERT INTO token_bucket AS b (owner, kind, rate, burst, tokens, allowed, at)
		SELECT owner, kind, rate, burst, burst - 1, true, clock_timestamp()
		FROM unnest($1::text[], $2::text[], $3::float8[], $4::int[]) AS asked (owner, kind, rate, burst), `+unhurried+takeOne, owners, kinds, rates, bursts)
	if err != nil {
		return Allowance{}, fmt.Errorf("token bucket: %w", err)
	}
	all, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (Allowance, error) {
		var (
			ok           bool
			tokens, rate float64
			burst        int
		)
		err := row.Scan(&ok, &tokens, &rate, &burst)
		return allowance(ok, tokens, rate, burst), err
	})
	if err != nil {
		return Allowance{}, fmt.Errorf("token bucket: %w", err)
	}
	return slices.MinFunc(all, func(a, b Allowance) int {
		if a.OK != b.OK { // the one that refuses
			return map[bool]int{false: -1, true: 1}[a.OK]
		}
		return cmp.Compare(b.Wait, a.Wait)
	}), nil
}

// GiveBack returns a token to a bucket, for a request that turned out not to count.
func (s *Store) GiveBack(ctx context.Context, b Bucket) error {
	_, err := s.pool.Exec(ctx, `UPDATE token_bucket SET tokens = least(burst, tokens + 1) WHERE owner = $1 AND kind = $2`, b.Owner, b.Kind)
	if err != nil {
		return fmt.Errorf("token bucket: %w", err)
	}
	return nil
}

// AllowAddress takes a token for a request without a valid key that came from
// address.
func (s *Store) AllowAddress(ctx context.Context, address string, r Rate) (Allowance, error) {
	return s.Allow(ctx, Bucket{Owner: address, Kind: "address", Rate: r})
}

// bucketAge is how long a full bucket is kept that nobody uses: it says no more
// than a new one would. Those of keys say when the key was used last.
const bucketAge = time.Hour

// DeleteOldBuckets looks at up to limit token buckets after the bucket after, and
// removes those that are full again and that nobody has used for long: an hour, and
// of keys, whose last use is shown, keyAge. It returns the last bucket it looked at, the zero Bucket when
// there are no more.
func (s *Store) DeleteOldBuckets(ctx context.Context, keyAge time.Duration, after Bucket, limit int) (last Bucket, err error) {
	// In the order of the primary key: an index by age would make every request's update write to it.
	err = s.pool.QueryRow(ctx, `
		WITH page AS MATERIALIZED (
			SELECT owner, kind FROM token_bucket WHERE (owner, kind) > ($1, $2) ORDER BY owner, kind LIMIT $3
		), gone AS (
			DELETE FROM token_bucket b USING page WHERE b.owner = page.owner AND b.kind = page.kind
				AND b.at < clock_timestamp() - CASE WHEN b.kind = ANY ($4) THEN $5::interval ELSE $6::interval END
				AND b.tokens + b.rate * extract(epoch FROM clock_timestamp() - b.at) >= b.burst
		)
		SELECT owner, kind FROM page ORDER BY owner DESC, kind DESC LIMIT 1`,
		after.Owner, after.Kind, limit, []RequestKind{RequestRead, RequestWrite}, keyAge, bucketAge).Scan(&last.Owner, &last.Kind)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return Bucket{}, fmt.Errorf("delete old token buckets: %w", err)
	}
	return last, nil
}
