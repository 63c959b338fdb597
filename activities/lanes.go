package activities

import (
	"maps"
	"sync"
	"time"
)

// Limits of attempts to one endpoint in one worker process: how many run at once, and how many wait
// in line for a moment. After an attempt that timed out, the endpoint gets one attempt at a time
// until one ends in time. So endpoints that hang cannot take the slots of endpoints that answer.
const (
	laneWidth     = 4
	laneWidthSick = 1
	laneLine      = 4
	linePatience  = 2 * time.Second
	longestWait   = 30 * time.Minute
)

// lanes limits the attempts in flight for each endpoint. When a lane stays full, an attempt is told
// when to come back. Each attempt gets a slightly later turn, so a backlog returns at the pace of
// its receiver and not all at once.
type lanes struct {
	mu     sync.Mutex
	byName map[string]*lane
	swept  time.Time // when sweep last ran
}

type lane struct {
	inFlight int
	waiting  []chan struct{} // in line, oldest first; a closed channel means that the attempt may go
	sick     bool            // the last attempt timed out
	pace     time.Duration   // duration of the last attempt
	left     time.Time       // end of the last attempt
	lastTurn time.Time       // the latest turn that was promised
}

func newLanes() *lanes { return &lanes{byName: map[string]*lane{}} }

func (l *lane) width() int {
	if l.sick {
		return laneWidthSick
	}
	return laneWidth
}

// enter waits a moment for a place in the lane of name. It returns 0 when the attempt may go, and
// the caller must then call leave. Otherwise it returns how long to stay away.
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
	return 0 // the turn came just now
}

// sweep forgets sick lanes from time to time: lanes without an attempt for longer than the longest
// promised wait. A host that hung once may never get another attempt.
func (ls *lanes) sweep(now time.Time) {
	if now.Sub(ls.swept) < longestWait {
		return
	}
	ls.swept = now
	maps.DeleteFunc(ls.byName, func(_ string, l *lane) bool {
		return l.inFlight == 0 && len(l.waiting) == 0 && now.Sub(l.left) > longestWait &&
			l.lastTurn.Before(now)
	})
}

// promise returns the time until the next turn that was not promised yet.
func (l *lane) promise(now time.Time) time.Duration {
	step := max(l.pace, linePatience) / time.Duration(l.width())
	if l.lastTurn.Before(now) {
		l.lastTurn = now
	}
	l.lastTurn = l.lastTurn.Add(step)
	// At least a second, the precision of Temporal's timers.
	return min(max(l.lastTurn.Sub(now), time.Second), longestWait)
}

// leave gives the place back. took and timedOut describe the attempt.
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
