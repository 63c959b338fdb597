package limit

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"time"

	"golang.org/x/sync/semaphore"

	"example.com/checkout/api/web"
)

// ErrBusy means that there is no free place now. Nothing was done. A later try may find a place.
var ErrBusy = errors.New("too many callers at once")

// HeavyProcessors is how many processors all gates of this process use together: half of them, at least
// one.
var HeavyProcessors = max(1, runtime.GOMAXPROCS(0)/2)

var processors = semaphore.NewWeighted(int64(HeavyProcessors))

// Gate bounds how much heavy work of one kind this process does at once. A few callers may wait for
// their turn. Gate refuses the next ones soon: a client that waits long has gone before its turn
// comes.
//
// All gates of a process together use half of its processors. After a turn its processor rests as
// long as the turn took, so that half of its time is left to other work. A longer rest does not make
// other requests faster: see deploy/proof/bench/answers.md.
type Gate struct {
	turns      *semaphore.Weighted
	places     chan struct{} // one for each caller that works or waits
	processors *semaphore.Weighted
}

// NewGate returns a gate for atOnce callers at once. waiting more callers may wait.
func NewGate(atOnce, waiting int) *Gate {
	return &Gate{semaphore.NewWeighted(int64(atOnce)), make(chan struct{}, atOnce+waiting), processors}
}

const (
	// busyAfter is about how long a caller waits for a place. If Gate refused at once,
	// a client that retries at once would load the process all the time.
	busyAfter = time.Second
	maxRest   = time.Second
)

// Do waits for a turn, does work and returns when the work has ended. The work runs on a thread
// that lets other threads go first; see yielding. Do returns ErrBusy when too many callers wait, or
// ctx's error. In both cases the work was not done. When work panics, Do panics with a *web.Panic.
func (g *Gate) Do(ctx context.Context, work func()) error {
	leave, err := g.enter(ctx)
	if err != nil {
		return err
	}
	defer leave()

	panicked := make(chan *web.Panic, 1)
	go func() {
		defer func() {
			var p *web.Panic
			if value := recover(); value != nil {
				p = web.NewPanic(value)
			}
			panicked <- p
		}()
		lowerPriority()
		work()
	}()
	if p := <-panicked; p != nil {
		panic(p) // web.Catch recovers it in the request's goroutine
	}
	return nil
}

// jitter returns a random duration from d/2 to 3d/2. Callers that come at the same time are then
// refused at different times, and do not come again at the same time.
func jitter(d time.Duration) time.Duration { return d/2 + rand.N(d) } // #nosec G404 -- no secret

// enter waits for a turn. The caller must call leave once, to end the turn.
func (g *Gate) enter(ctx context.Context) (leave func(), err error) {
	busy := time.NewTimer(jitter(busyAfter))
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
		time.AfterFunc(min(maxRest, time.Since(began)), func() {
			g.turns.Release(1)
			g.processors.Release(1)
		})
	}, nil
}
