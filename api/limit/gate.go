package limit

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"time"

	"golang.org/x/sync/semaphore"
)

// ErrBusy: there is no place now. Nothing was done, and later there may be one.
var ErrBusy = errors.New("too many at once")

// processors are those of this process that heavy work of all kinds shares: half
// of them, and one at least.
var processors = semaphore.NewWeighted(int64(max(1, runtime.GOMAXPROCS(0)/2)))

// Gate bounds how much work of one heavy kind is done at once in this process. A few
// may wait for their turn; whoever comes after them is refused soon, because who
// waits long has gone before the turn comes. The gates of a process share half of
// its processors. Each processor rests after a turn, three times as long as the turn
// took: most of the time belongs to everything else.
type Gate struct {
	turns      *semaphore.Weighted
	places     chan struct{} // of those who work and those who wait
	processors *semaphore.Weighted
}

// NewGate lets atOnce work at once, and lets waiting more wait.
func NewGate(atOnce, waiting int) *Gate {
	return &Gate{semaphore.NewWeighted(int64(atOnce)), make(chan struct{}, atOnce+waiting), processors}
}

// Times of a gate.
const (
	// busyAfter is about how long a gate looks for a place for somebody: refused at
	// once, those who ask again at once would ask all the time.
	busyAfter = time.Second
	restTurns = 3 // how many turns long a rest is
	maxRest   = time.Second
)

// Do does work when its turn comes, on a thread that lets other threads go first
// (see yielding), and returns when the work has ended. It returns ErrBusy when too
// many wait already, and ctx's error; then the work was not done.
func (g *Gate) Do(ctx context.Context, work func()) error {
	leave, err := g.enter(ctx)
	if err != nil {
		return err
	}
	defer leave()

	panicked := make(chan any, 1)
	go func() {
		defer func() {
			p := recover()
			if p != nil {
				p = fmt.Sprintf("%v\n%s", p, debug.Stack())
			}
			panicked <- p
		}()
		yielding()
		work()
	}()
	if p := <-panicked; p != nil {
		panic(p) // in the goroutine of the request, where it is recovered
	}
	return nil
}

// about returns d, half more or half less. Those who came at the same time are so
// refused one after the other, and do not come again at the same time.
func about(d time.Duration) time.Duration { return d/2 + rand.N(d) }

// enter waits for a turn, which ends with leave, to be called once.
func (g *Gate) enter(ctx context.Context) (leave func(), err error) {
	busy := time.NewTimer(about(busyAfter))
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
	if err := g.processors.Acquire(ctx, 1); err != nil {
		g.turns.Release(1)
		<-g.places
		return nil, err
	}

	began := time.Now()
	return func() {
		<-g.places
		time.AfterFunc(min(maxRest, restTurns*time.Since(began)), func() {
			g.turns.Release(1)
			g.processors.Release(1)
		})
	}, nil
}
