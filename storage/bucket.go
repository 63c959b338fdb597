package storage

import (
	"cmp"
	"context"
	"math"
	"slices"
	"time"

	"example.com/checkout/storage/pg"
)

// Rate limits requests: a token bucket lets PerSecond through over time, and Burst at once.
type Rate struct {
	PerSecond float64
	Burst     int
}

// Allowance is the answer of a token bucket to one request.
type Allowance struct {
	OK        bool
	Limit     int           // size of a full bucket, in requests
	Remaining int           // requests that may follow at once
	Reset     time.Duration // until the bucket is full
	Wait      time.Duration // until the next request may pass; 0 when it may pass now
}

// takeToken takes a token from an existing bucket, after adding the tokens that came back since the
// last request. The row excluded is a new bucket without its first token. One statement does this,
// so several processes can share the bucket.
const takeToken = `
	ON CONFLICT (owner, kind) DO UPDATE SET
		rate = excluded.rate, burst = excluded.burst, at = greatest(b.at, excluded.at), allowed = ` + refilled + ` >= 1,
		tokens = CASE WHEN ` + refilled + ` >= 1 THEN least(excluded.burst, ` + refilled + `) - 1 ELSE ` + refilled + ` END
	RETURNING b.allowed, b.tokens, b.rate, b.burst`

// refilled are the tokens of the bucket b at the time of the row excluded.
const refilled = `(b.tokens + excluded.rate * greatest(0, extract(epoch FROM excluded.at - b.at)))`

// takenBucket is a bucket after takeToken.
type takenBucket struct {
	Allowed      bool
	Tokens, Rate float64
	Burst        int
}

func (b takenBucket) allowance() Allowance {
	until := func(n float64) time.Duration {
		return time.Duration(max(0, n-b.Tokens) / b.Rate * float64(time.Second))
	}
	return Allowance{OK: b.Allowed, Limit: b.Burst, Remaining: int(math.Floor(max(0, b.Tokens))),
		Reset: until(float64(b.Burst)), Wait: until(1)}
}

// Bucket is one token bucket. An owner has a bucket for each kind.
type Bucket struct {
	Owner string
	Kind  string
	Rate
}

// Allow takes a token from each of several buckets in one statement. The request may pass when every bucket has a
// token. A bucket that has a token loses it even when another bucket refuses. Allow returns the answer of the bucket
// with the longest wait. All callers must name the kinds in the same order; otherwise two requests could deadlock.
func (s *Requests) Allow(ctx context.Context, buckets ...Bucket) (Allowance, error) {
	var (
		owners, kinds []string
		rates         []float64
		bursts        []int
	)
	for _, b := range buckets {
		owners, kinds, rates, bursts = append(owners, b.Owner), append(kinds, b.Kind),
			append(rates, b.PerSecond), append(bursts, b.Burst)
	}

	taken, err := pg.Collect[takenBucket](ctx, s.pool, `
		INSERT INTO token_bucket AS b (owner, kind, rate, burst, tokens, allowed, at)
		SELECT owner, kind, rate, burst, burst - 1, true, clock_timestamp()
		FROM unnest($1::text[], $2::text[], $3::float8[], $4::int[])
			AS asked (owner, kind, rate, burst), `+pg.Unhurried+takeToken,
		owners, kinds, rates, bursts)
	if err != nil {
		return Allowance{}, pg.Wrap("token bucket", err)
	}
	return slices.MinFunc(taken, func(a, b takenBucket) int {
		if a.Allowed != b.Allowed { // a bucket that refuses decides
			return map[bool]int{false: -1, true: 1}[a.Allowed]
		}
		return cmp.Compare(b.allowance().Wait, a.allowance().Wait)
	}).allowance(), nil
}

// GiveBack returns a token to a bucket. Callers use it for a request that does not count after all.
func (s *Requests) GiveBack(ctx context.Context, b Bucket) error {
	return pg.Exec(ctx, s.pool, "token bucket", `
		UPDATE token_bucket SET tokens = least(burst, tokens + 1)
		WHERE owner = $1 AND kind = $2`, b.Owner, b.Kind)
}

// AllowAddress takes a token from the bucket of an IP address. It limits requests without a valid key.
func (s *Requests) AllowAddress(ctx context.Context, address string, r Rate) (Allowance, error) {
	return s.Allow(ctx, Bucket{Owner: address, Kind: "address", Rate: r})
}

// bucketAge is how long an unused, full bucket stays. A full bucket allows no more than a new one.
// The buckets of keys stay longer, because they show when a key was last used.
const bucketAge = time.Hour

// DeleteOldBuckets looks at up to limit token buckets that follow the bucket after. It deletes each
// one that is full again and unused for an hour, or for keyAge when the owner is a key. It returns
// the last bucket it looked at, and the zero Bucket when no bucket is left.
func (s *Installation) DeleteOldBuckets(
	ctx context.Context, keyAge time.Duration, after Bucket, limit int,
) (last Bucket, err error) {
	// The primary key gives the order. An index by age would cost a write with every request.
	err = s.pool.QueryRow(ctx, `
		WITH page AS MATERIALIZED (
			SELECT owner, kind FROM token_bucket WHERE (owner, kind) > ($1, $2)
			ORDER BY owner, kind LIMIT $3
		), gone AS (
			DELETE FROM token_bucket b USING page WHERE b.owner = page.owner AND b.kind = page.kind
				AND b.at < clock_timestamp() - CASE WHEN b.kind = ANY ($4) THEN $5::interval ELSE $6::interval END
				AND b.tokens + b.rate * extract(epoch FROM clock_timestamp() - b.at) >= b.burst
		)
		SELECT owner, kind FROM page ORDER BY owner DESC, kind DESC LIMIT 1`,
		after.Owner, after.Kind, limit, []RequestKind{RequestRead, RequestWrite},
		keyAge, bucketAge).Scan(&last.Owner, &last.Kind)
	return last, pg.Wrap("delete old token buckets", pg.Optional(err))
}
