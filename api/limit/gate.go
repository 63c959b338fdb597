package limit

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sync/semaphore"
)

// ErrBusy: there is no place now. Nothing was done, and later there may be one.
var ErrBusy = errors.New("too many at once")

// Gate bounds how much of something heavy is done at once in this process. A few
// may wait for their turn; whoever comes after them is refused soon, because who
// waits long has gone before the turn comes. After each turn the gate rests as long
// as the turn took: half of the time belongs to everything else.
type Gate struct {
	turns  *semaphore.Weighted
	places chan struct{} // of those who work and those who wait
}

// NewGate lets through atOnce, and lets waiting more wait.
func NewGate(atOnce, waiting int) *Gate {
	return &Gate{semaphore.NewWeighted(int64(atOnce)), make(chan struct{}, atOnce+waiting)}
}

// busyAfter is how long a gate looks for a place for somebody: refused at once,
// those who ask again at once would ask all the time.
const busyAfter = time.Second

const maxRest = time.Second

// Enter waits for a turn, which ends with leave, to be called once. It returns ErrBusy when too many
// wait already, and ctx's error.
func (g *Gate) Enter(ctx context.Context) (leave func(), err error) {
	busy := time.NewTimer(busyAfter)
	defer busy.Stop()
	select {
	case g.places <- struct{}{}:
	case <-busy.C:
		return nil, ErrBusy
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if err := g.turns.Acquire(ctx, 1); err != nil {
		<-g.places
		return nil, err
	}
	began := time.Now()
	return func() {
		<-g.places
		time.AfterFunc(min(maxRest, time.Since(began)), func() { g.turns.Release(1) })
	}, nil
}
