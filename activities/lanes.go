package activities

import (
	"context"
	"maps"
	"sync"
	"time"
)

// Limits of waiting for a place.
const (
	linePatience  = 2 * time.Second  // in a worker's memory; with it an attempt ends before webhook.AttemptTimeout
	shortestTimer = time.Second      // the precision of Temporal's timers
	longestWait   = 30 * time.Minute // of a turn
	longestPause  = time.Minute      // that a receiver can ask for
	laneMemory    = 10 * time.Minute // how long the limit of an idle endpoint stays
)

// lanes limits the attempts under way at each endpoint. An attempt without a place waits in line
// for a moment, behind those that became due before it. When the line has no room, the attempt gets
// a turn: the time at which it comes back. Turns are as far apart as attempts end, so a backlog
// comes back at the pace of its receiver.
type lanes struct {
	first, most int // limits of a lane: at the beginning, and the largest
	slots       int // attempts of the worker, under way and in line

	mu     sync.Mutex
	byName map[string]*lane
	taken  map[string]int // slots by merchant
	sum    int            // of taken
	swept  time.Time      // when sweep last ran
	fresh  lateness
}

// visit is an attempt that asks for a place.
type visit struct {
	lane, merchant string
	kind           endpointKind
	due            time.Time // when it became due; zero on the first visit
}

// admission is the answer to a visit: a place, or a turn.
type admission struct {
	wait  time.Duration // until its turn; 0: the attempt has a place
	due   time.Time     // for the next visit
	ahead int           // about how many attempts come before it
}

// turnAfter returns the turn of a visit that has a place in this worker and not among all of them.
func turnAfter(v visit, wait time.Duration) admission {
	if v.due.IsZero() {
		v.due = time.Now()
	}
	return admission{wait: max(wait, shortestTimer), due: v.due}
}

func newLanes(first, most, slots int) *lanes {
	return &lanes{first: first, most: most, slots: slots, byName: map[string]*lane{}, taken: map[string]int{}}
}

// enter waits a moment for a place. The caller must call leave when the attempt got one.
func (ls *lanes) enter(ctx context.Context, v visit) admission {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	now := time.Now()
	ls.sweep(now)
	l := ls.lane(v)
	back := !v.due.IsZero()
	if !back {
		v.due = now
	}
	if !ls.mayTake(v.merchant) || !l.hasRoom(back, now) {
		return l.giveTurn(v.due, now)
	}

	ls.take(v.merchant, 1)
	w := l.join(v.due)
	ls.admit(l)
	ls.mu.Unlock()
	w.wait(ctx)
	ls.mu.Lock()
	if !l.quit(w) {
		return admission{}
	}
	ls.take(v.merchant, -1)
	return l.giveTurn(v.due, time.Now())
}

// wait returns when the attempt may go, or when linePatience is over.
func (w waiter) wait(ctx context.Context) {
	select {
	case <-w.went: // most attempts need no timer
		return
	default:
	}
	ctx, stop := context.WithTimeout(ctx, linePatience)
	defer stop()
	select {
	case <-w.went:
	case <-ctx.Done():
	}
}

// outcome is what a lane learns from an attempt.
type outcome struct {
	effect
	began time.Time
	pause time.Duration // that the receiver asked for
}

// leave gives the place back.
func (ls *lanes) leave(v visit, o outcome) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	now := time.Now()
	l := ls.byName[v.lane]
	l.learn(o, &ls.fresh, now)
	l.closeFor(min(o.pause, longestPause), now)
	l.left = now
	l.inFlight--
	ls.take(v.merchant, -1)
	ls.admit(l)
	if l.forgettable(now) {
		delete(ls.byName, v.lane)
	}
}

// beganFresh notes how late a new delivery with a place began. A backlog does not yield to its own deliveries.
func (ls *lanes) beganFresh(v visit, late time.Duration) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if now := time.Now(); !ls.byName[v.lane].behind(now) {
		ls.fresh.note(v.lane, late, now)
	}
}

// begin waits until the attempt may begin in PostgreSQL, or until ctx ends. It returns a function that lets the next
// attempt begin. The caller has a place in the lane.
func (ls *lanes) begin(ctx context.Context, v visit) (begun func()) {
	ls.mu.Lock()
	l := ls.byName[v.lane]
	bounded := l.bounds != laneBounds{}
	ls.mu.Unlock()
	if !bounded {
		return func() {}
	}
	select {
	case l.beginning <- struct{}{}:
		return func() { <-l.beginning }
	case <-ctx.Done():
		return func() {}
	}
}

// bound sets the merchant's limits of a lane. The caller has a place in it.
func (ls *lanes) bound(v visit, b laneBounds) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	l := ls.byName[v.lane]
	if l.bounds != b {
		l.bounds = b
		l.closeFor(b.each(), time.Now())
	}
}

func (ls *lanes) lane(v visit) *lane {
	l := ls.byName[v.lane]
	if l == nil {
		l = &lane{
			name: v.lane, kind: v.kind, limit: newLaneLimit(ls.first, ls.most), beginning: make(chan struct{}, 1),
		}
		ls.byName[v.lane] = l
	}
	return l
}

// admit lets the attempts in line go that may, and again when the lane opens.
func (ls *lanes) admit(l *lane) {
	closed := l.admit(time.Now())
	if closed == 0 {
		return
	}
	if l.opening != nil {
		l.opening.Stop()
	}
	l.opening = time.AfterFunc(closed, func() {
		ls.mu.Lock()
		defer ls.mu.Unlock()
		ls.admit(l)
	})
}

// mayTake reports whether the merchant may take one more slot: while it has fewer than are free.
// So one merchant gets half of the slots at most, two get a third each, and there are always some for
// the next one. It is the dynamic threshold of shared switch buffers (Choudhury and Hahne, 1998).
func (ls *lanes) mayTake(merchant string) bool { return ls.taken[merchant] < ls.slots-ls.sum }

func (ls *lanes) take(merchant string, n int) {
	ls.sum += n
	ls.taken[merchant] += n
	if ls.taken[merchant] == 0 {
		delete(ls.taken, merchant)
	}
}

// sweep forgets lanes from time to time.
func (ls *lanes) sweep(now time.Time) {
	if now.Sub(ls.swept) < laneMemory {
		return
	}
	ls.swept = now
	maps.DeleteFunc(ls.byName, func(_ string, l *lane) bool { return l.forgettable(now) })
}
