package limit

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
)

const (
	// patience is about how long a request waits for its turn. A full burst of requests
	// of one key takes less time.
	patience = 5 * time.Second
	penalty  = 100 * time.Millisecond // how long a refused request keeps its place
)

// Shares gives each owner an equal share of the requests that this process works on at once. More
// requests of one owner wait for each other, but not for other owners' requests.
type Shares struct {
	each   int64
	mu     sync.Mutex
	owners map[string]*share // only owners with a request here
}

// share is the share of one owner.
type share struct {
	turns *semaphore.Weighted
	users int // requests that have a turn or wait for one
}

// NewShares returns shares that let each owner have each requests worked on at once, at least one.
func NewShares(each int) *Shares {
	return &Shares{each: int64(max(1, each)), owners: map[string]*share{}}
}

// Turn is a request's place in its owner's share. Only one goroutine may use it.
type Turn struct {
	shares *Shares
	owner  string
	left   bool
}

// Enter waits some seconds for owner's turn. The caller ends it with Leave. Enter returns ErrBusy
// when no turn came; the long wait keeps the client from asking again at once. It returns ctx's
// error when ctx ends.
func (s *Shares) Enter(ctx context.Context, owner string) (*Turn, error) {
	mine := s.use(owner)
	waiting, cancel := context.WithTimeout(ctx, jitter(patience))
	defer cancel()
	if mine.turns.Acquire(waiting, 1) != nil {
		s.forget(owner, mine)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, ErrBusy
	}
	return &Turn{shares: s, owner: owner}, nil
}

// TryEnter is Enter without the wait. It returns false when there is no turn now.
func (s *Shares) TryEnter(owner string) (*Turn, bool) {
	mine := s.use(owner)
	if !mine.turns.TryAcquire(1) {
		s.forget(owner, mine)
		return nil, false
	}
	return &Turn{shares: s, owner: owner}, true
}

// use returns owner's share for one more request.
func (s *Shares) use(owner string) *share {
	s.mu.Lock()
	defer s.mu.Unlock()
	mine := s.owners[owner]
	if mine == nil {
		mine = &share{turns: semaphore.NewWeighted(s.each)}
		s.owners[owner] = mine
	}
	mine.users++
	return mine
}

// Leave ends a turn. A repeated call changes nothing.
//
// refused is true when the owner asks too often. If other requests of the same owner wait, the turn
// then ends a moment later. A client that asks again at once on many connections therefore does not
// cause a query of PostgreSQL each time.
func (t *Turn) Leave(refused bool) {
	if t.left {
		return
	}
	t.left = true

	t.shares.mu.Lock()
	mine := t.shares.owners[t.owner]
	crowded := int64(mine.users) > t.shares.each
	t.shares.mu.Unlock()

	end := func() {
		mine.turns.Release(1)
		t.shares.forget(t.owner, mine)
	}
	if refused && crowded {
		time.AfterFunc(penalty, end)
		return
	}
	end()
}

// Pause is Without for the time d. It ends with ctx.
func (t *Turn) Pause(ctx context.Context, d time.Duration) error {
	return t.Without(ctx, func() {
		select {
		case <-ctx.Done():
		case <-time.After(d):
		}
	})
}

// Without gives the turn to other requests of the owner while f runs. Then it waits for the turn again, like Enter.
// After an error the turn is over.
func (t *Turn) Without(ctx context.Context, f func()) error {
	t.Leave(false)
	f()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	again, err := t.shares.Enter(ctx, t.owner)
	if err != nil {
		return err
	}
	*t = *again
	return nil
}

// forget ends one use of a share and deletes a share without uses.
func (s *Shares) forget(owner string, mine *share) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if mine.users--; mine.users == 0 {
		delete(s.owners, owner)
	}
}
