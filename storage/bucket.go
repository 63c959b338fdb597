package storage

import (
	"context"
	"fmt"
	"math"
	"time"
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

// AllowAddress takes a token for a request without a valid key that came from
// address.
func (s *Store) AllowAddress(ctx context.Context, address string, r Rate) (Allowance, error) {
	var (
		ok           bool
		tokens, rate float64
		burst        int
	)
	err := s.pool.QueryRow(ctx, `
		INSERT INTO token_bucket AS b (owner, kind, rate, burst, tokens, allowed, at)
		VALUES ($1, 'address', $2, $3, $3 - 1, true, clock_timestamp()) `+takeOne, address, r.PerSecond, r.Burst).Scan(&ok, &tokens, &rate, &burst)
	if err != nil {
		return Allowance{}, fmt.Errorf("token bucket: %w", err)
	}
	return allowance(ok, tokens, rate, burst), nil
}
