package activities

import (
	"maps"
	"sync"
	"time"
)

// How many attempts to one endpoint run at once in one worker process, and how
// many wait in line for a moment. An endpoint whose last attempt ran into the
// time-out gets one at a time until it answers: those that hang must not take
// the slots of those that answer.
const (
	laneWidth     = 4
	laneWidthSick = 1
	laneLine      = 4
	linePatience  = 2 * time.Second
	longestWait   = 30 * time.Minute
)

// lanes bound the attempts in flight per endpoint. An attempt that finds its
// lane full for long is told when its turn will probably come, each one a
// little later, so that a backlog comes back at the pace of its receiver and
// not all at once.
type lanes struct {
	mu     sync.Mutex
	byName map[string]*lane
	swept  time.Time // when those of which nobody is left to come were forgotten last
}

type lane struct {
	inFlight int
	waiting  []chan struct{} // in line, oldest first; closed: its turn has come
	sick     bool            // the last attempt ran into the time-out
	pace     time.Duration   // how long the last attempt took
	left     time.Time       // when the last attempt ended
	lastTurn time.Time       // promised so far
}

func newLanes() *lanes { return &lanes{byName: map[string]*lane{}} }

func (l *lane) width() int {
	if l.sick {
		return laneWidthSick
	}
	return laneWidth
}

// enter waits a moment for a place in the lane of name and returns 0, or when
// to come back. Whoever gets 0 must call leave.
func (ls *lanes) enter(name string) time.Duration {
	ls.mu.Lock()
	ls.sweep(time.Now())
	l := ls.byName[name]
	if l == nil {
		l = &lane{}
		ls.byName[name] = l
	}
	if l.inFlight < l.width() && len(l.waiting) == 0 {
		l.inFlight++
		ls.mu.Unlock()
		return 0
	}
	if l.sick || len(l.waiting) >= laneLine {
		defer ls.mu.Unlock()
		return l.promise(time.Now())
	}
	turn := make(chan struct{})
	l.waiting = append(l.waiting, turn)
	ls.mu.Unlock()
	patience := time.NewTimer(linePatience)
	defer patience.Stop()
	select {
	case <-turn:
		return 0
	case <-patience.C:
	}
	ls.mu.Lock()
	defer ls.mu.Unlock()
	for i, waiting := range l.waiting {
		if waiting == turn {
			l.waiting = append(l.waiting[:i:i], l.waiting[i+1:]...)
			return l.promise(time.Now())
		}
	}
	return 0 // its turn came in this very moment
}

// sweep forgets, now and then, sick lanes that nobody has come to for longer than
// anybody is told to wait: a host that hung once may never be sent to again.
func (ls *lanes) sweep(now time.Time) {
	if now.Sub(ls.swept) < longestWait {
		return
	}
	ls.swept = now
	maps.DeleteFunc(ls.byName, func(_ string, l *lane) bool {
		return l.inFlight == 0 && len(l.waiting) == 0 && now.Sub(l.left) > longestWait && l.lastTurn.Before(now)
	})
}

// promise returns how long until the next turn that nobody was promised.
func (l *lane) promise(now time.Time) time.Duration {
	step := max(l.pace, linePatience) / time.Duration(l.width())
	if l.lastTurn.Before(now) {
		l.lastTurn = now
	}
	l.lastTurn = l.lastTurn.Add(step)
	// Not less than a second, the precision of Temporal's timers.
	return min(max(l.lastTurn.Sub(now), time.Second), longestWait)
}

// leave gives the place back; took and timedOut are the attempt's.
func (ls *lanes) leave(name string, took time.Duration, timedOut bool) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	l := ls.byName[name]
	l.inFlight--
	l.sick, l.pace, l.left = timedOut, took, time.Now()
	for l.inFlight < l.width() && len(l.waiting) > 0 {
		close(l.waiting[0])
		l.waiting = l.waiting[1:]
		l.inFlight++
	}
	if l.inFlight == 0 && !l.sick && l.lastTurn.Before(time.Now()) {
		delete(ls.byName, name) // nothing to remember
	}
}
