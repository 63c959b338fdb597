package limit

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
)

// Times of a share.
const (
	// patience is about how long a request waits for its turn: longer than as many as
	// a key may make at once take.
	patience = 5 * time.Second
	penalty  = 100 * time.Millisecond // how long a request that was refused keeps its place
)

// DefaultShare is a third of the connections to PostgreSQL that a process has by
// default: reads and writes of one merchant leave the others a third.
const DefaultShare = 6

// Shares give each owner an equal share of what this process can work on at
// once. The requests of one owner that are more wait for each other and for
// nobody else's.
type Shares struct {
	each   int64
	mu     sync.Mutex
	owners map[string]*share // of those who have a request here
}

// share is what one owner has here.
type share struct {
	turns *semaphore.Weighted
	users int // requests that have a turn or wait for one
}

// NewShares lets each owner have as many requests worked on at once.
func NewShares(each int) *Shares {
	return &Shares{each: int64(max(1, each)), owners: map[string]*share{}}
}

// Turn is a place that a request has. It is of one goroutine.
type Turn struct {
	shares *Shares
	owner  string
	left   bool
}

// Enter waits some seconds for owner's turn, which ends with Leave. It returns
// ErrBusy when none came: the time that a client then has waited is what keeps
// it from asking again at once.
func (s *Shares) Enter(ctx context.Context, owner string) (*Turn, error) {
	mine := s.use(owner)
	waiting, cancel := context.WithTimeout(ctx, about(patience))
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

// TryEnter is Enter for what is not worth waiting.
func (s *Shares) TryEnter(owner string) (*Turn, bool) {
	mine := s.use(owner)
	if !mine.turns.TryAcquire(1) {
		s.forget(owner, mine)
		return nil, false
	}
	return &Turn{shares: s, owner: owner}, true
}

// use returns owner's share, for a request that has a turn or will wait for one.
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

// Leave ends a turn; repeating it changes nothing. One of a request that was refused because its owner asks
// too often ends a moment later, when others of the same owner wait: asking
// again at once, on many connections, then does not cost a look at PostgreSQL
// each time.
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

// forget forgets an owner of whom nothing is here any more.
func (s *Shares) forget(owner string, mine *share) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if mine.users--; mine.users == 0 {
		delete(s.owners, owner)
	}
}
