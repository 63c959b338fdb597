package rate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// A source gives prices. It holds the last ones, behind the lock of Rates.
type source struct {
	name   string // in settings, logs and stored quotes
	pairs  []pair // the prices that it has
	maxAge func(p pair, now time.Time) time.Duration
	// read requests all prices and returns a reading of each. It returns when ctx ends.
	read func(ctx context.Context) map[pair]reading

	prices  map[pair]price
	faults  map[pair]error // why the last reading brought no price
	missing string         // the prices that the last reading did not bring
}

func newSource(
	name string, pairs []pair, maxAge func(pair, time.Time) time.Duration, read func(context.Context) map[pair]reading,
) *source {
	return &source{
		name: name, pairs: pairs, maxAge: maxAge, read: read, prices: map[pair]price{}, faults: map[pair]error{},
	}
}

// A reading is a price, or why there is none.
type reading struct {
	price price
	err   error
}

var (
	// errAway: the source could not be reached. Its last price stays until it is too old. After any other error the source
	// has lost its price: it answered, and the answer is wrong.
	errAway = errors.New("not reachable")
	// errNotOffered: the source does not have such a price.
	errNotOffered = errors.New("it has no such price")
	errNotAsked   = errors.New("it has not answered yet")
)

// readAll is a reading of each pair that failed with err.
func readAll(pairs []pair, err error) map[pair]reading {
	all := map[pair]reading{}
	for _, p := range pairs {
		all[p] = reading{err: err}
	}
	return all
}

// atOnce is how many requests one reading sends at the same time.
const atOnce = 4

// readEach reads one pair after another, some at the same time.
func readEach(pairs []pair, read func(pair) (price, error)) map[pair]reading {
	var mu sync.Mutex
	all := map[pair]reading{}
	var group errgroup.Group
	group.SetLimit(atOnce)
	for _, p := range pairs {
		group.Go(func() error {
			got, err := read(p)
			mu.Lock()
			defer mu.Unlock()
			all[p] = reading{got, err}
			return nil
		})
	}
	_ = group.Wait() // each reading has its own error
	return all
}

// put stores a reading and returns its error.
func (s *source) put(p pair, got reading) error {
	if got.err == nil && got.price.ask.IsZero() {
		got.err = errNotAnswered
	}
	switch {
	case got.err == nil:
		s.prices[p] = got.price
	case !errors.Is(got.err, errAway):
		delete(s.prices, p)
	}
	s.faults[p] = got.err
	return got.err
}

// fresh returns the price of p, if it is young enough at the time now.
func (s *source) fresh(p pair, now time.Time) (price, error) {
	if !slices.Contains(s.pairs, p) {
		return price{}, errNotOffered
	}
	got, ok := s.prices[p]
	fault := s.faults[p]
	limit := s.maxAge(p, now)
	age := now.Sub(got.at)
	switch {
	case ok && age <= limit:
		return got, nil
	case ok && fault != nil:
		return price{}, fmt.Errorf("%s is %s old, older than %s: %w", p, age.Round(time.Second), limit, fault)
	case ok:
		return price{}, fmt.Errorf("%s is %s old, older than %s", p, age.Round(time.Second), limit)
	case fault != nil:
		return price{}, fmt.Errorf("%s: %w", p, fault)
	}
	return price{}, errNotAsked
}
