package activities

import (
	"slices"
	"time"
)

// lane is the attempts to one endpoint: under way, in line, and those that were given a turn.
type lane struct {
	name     string
	kind     endpointKind
	limit    laneLimit
	bounds   laneBounds // of the merchant
	inFlight int
	line     []waiter    // by due time
	opens    time.Time   // no attempt begins before it: a receiver's Retry-After, or the rate limit
	opening  *time.Timer // runs when the lane opens
	left     time.Time   // end of the last attempt
	lastTurn time.Time   // the latest turn that was given
	// beginning lets one attempt at a time begin when the registration has bounds, because each locks its
	// row in PostgreSQL.
	beginning chan struct{}
}

// waiter is an attempt in line. Its channel is closed when the attempt may go.
type waiter struct {
	due  time.Time
	went chan struct{}
}

// laneBounds are the limits that a merchant has set for a registration; 0 means none.
type laneBounds struct {
	maxInFlight int
	rateLimit   int // attempts begun per second
}

// width returns how many attempts may be under way.
func (l *lane) width() int { return l.bounds.of(l.limit.now()) }

// of returns how many of n attempts may be under way.
func (b laneBounds) of(n int) int {
	if b.maxInFlight > 0 {
		return min(n, b.maxInFlight)
	}
	return n
}

// each returns the time between two attempts when the lane is full.
func (l *lane) each() time.Duration { return l.eachOf(l.limit.now()) }

// eachOf returns the time between two attempts when up to n are under way: by Little's law, the mean duration of an
// attempt divided by their number.
func (l *lane) eachOf(n int) time.Duration {
	return max(l.limit.pace()/time.Duration(l.bounds.of(n)), l.bounds.each())
}

// eachTurn returns the time between two turns. Turns cannot be taken back. So a lane that yields gives them at a faster
// pace than its own: it can then use the computer as soon as the others need it less.
func (l *lane) eachTurn() time.Duration {
	if l.limit.yieldedAt == 0 {
		return l.each()
	}
	return min(l.each(), max(time.Second/turnsOfYielding, l.eachOf(l.limit.most)))
}

// each returns the time between two attempts at the rate limit; 0 without one.
func (b laneBounds) each() time.Duration {
	if b.rateLimit == 0 {
		return 0
	}
	return time.Second / time.Duration(b.rateLimit)
}

// full reports whether the attempts under way use up the limit, so that their answers show more capacity. Attempts that
// wait for the merchant's bounds show none.
func (l *lane) full() bool {
	return l.inFlight >= l.limit.now() || len(l.line) > 0 && l.bounds == (laneBounds{})
}

// learn moves the limit after an attempt. Turns that were given at the pace of an endpoint that hung hold back
// no other attempt once it answers.
func (l *lane) learn(o outcome, fresh *lateness, now time.Time) {
	hung := l.limit.sick
	used := usedInPart
	switch {
	case l.mustYield(fresh, now):
		used = usedTooMuch
	case l.full():
		used = usedInFull
	}
	l.limit.learn(o.effect, o.began, now, used)
	if hung && !l.limit.sick {
		l.lastTurn = now
	}
}

// mustYield reports whether the lane works off a backlog while new deliveries are late. A lane with fewer attempts
// than there are new deliveries keeps its pace: the new deliveries keep the computer busy.
func (l *lane) mustYield(fresh *lateness, now time.Time) bool {
	return l.behind(now) && fresh.tooLong(l.name, now) && l.each() < fresh.each
}

// behind reports whether attempts wait in line or for their turns.
func (l *lane) behind(now time.Time) bool { return len(l.line) > 0 || l.lastTurn.After(now) }

// hasRoom reports whether an attempt may wait in line. An attempt that comes back from its turn
// finds room where a new attempt does not; otherwise new attempts would take the places of older ones.
func (l *lane) hasRoom(back bool, now time.Time) bool {
	switch {
	case l.opens.Sub(now) > linePatience:
		return false
	case len(l.line) == 0 && l.inFlight < l.width():
		return true
	case back:
		return len(l.line) < 2*l.room()
	case l.lastTurn.After(now):
		return false
	}
	return len(l.line) < l.room()
}

// room returns how many attempts can get a place within linePatience. While the limit doubles, each
// of them may see it double twice.
func (l *lane) room() int {
	if l.limit.sick {
		return 0
	}
	n := int(linePatience / l.each())
	if l.limit.doubles() && l.bounds == (laneBounds{}) {
		n *= 4
	}
	return n
}

// join puts an attempt in line, behind those that became due before it.
func (l *lane) join(due time.Time) waiter {
	w := waiter{due, make(chan struct{})}
	at, _ := slices.BinarySearchFunc(l.line, due, func(w waiter, due time.Time) int {
		if w.due.After(due) {
			return 1
		}
		return -1 // equal times keep their order
	})
	l.line = slices.Insert(l.line, at, w)
	return w
}

// quit takes an attempt out of the line. It returns false when the attempt is no longer in it,
// because it may go.
func (l *lane) quit(w waiter) bool {
	at := slices.IndexFunc(l.line, func(other waiter) bool { return other.went == w.went })
	if at >= 0 {
		l.line = slices.Delete(l.line, at, at+1)
	}
	return at >= 0
}

// admit lets attempts in line go while there are places. It returns how long the lane stays closed
// for the next one; 0 when it does not wait for that.
func (l *lane) admit(now time.Time) time.Duration {
	for len(l.line) > 0 && l.inFlight < l.width() {
		if now.Before(l.opens) {
			return l.opens.Sub(now)
		}
		close(l.line[0].went)
		l.line = slices.Delete(l.line, 0, 1)
		l.inFlight++
		l.closeFor(l.pacing(), now)
	}
	return 0
}

// pacing returns the time until the next attempt may begin. Attempts that began together would end together, and
// their burst would delay other merchants' deliveries. So attempts from a line begin at most at twice the pace at which
// they end, as Linux paces TCP.
func (l *lane) pacing() time.Duration {
	if len(l.line) == 0 {
		return l.bounds.each()
	}
	return max(l.each()/2, l.bounds.each())
}

// closeFor lets no attempt begin for a while.
func (l *lane) closeFor(pause time.Duration, now time.Time) {
	if opens := now.Add(pause); opens.After(l.opens) {
		l.opens = opens
	}
}

// giveTurn returns the next turn: after the line and the turns that were given.
func (l *lane) giveTurn(due, now time.Time) admission {
	each := l.eachTurn()
	for _, earliest := range []time.Time{now, l.opens} {
		if l.lastTurn.Before(earliest) {
			l.lastTurn = earliest
		}
	}
	ahead := len(l.line) + int(l.lastTurn.Sub(now)/each)
	l.lastTurn = l.lastTurn.Add(each)
	if latest := now.Add(longestWait); l.lastTurn.After(latest) { // no attempt waits longer
		l.lastTurn = latest
	}
	return admission{due: due, ahead: ahead, wait: max(l.lastTurn.Sub(now), shortestTimer)}
}

// idle reports whether nothing happens in the lane and no turn is left.
func (l *lane) idle(now time.Time) bool {
	return l.inFlight == 0 && !l.behind(now) && !l.opens.After(now)
}

// forgettable reports whether the lane has nothing worth remembering.
func (l *lane) forgettable(now time.Time) bool {
	switch since := now.Sub(l.left); {
	case !l.idle(now):
		return false
	case l.limit.sick: // it may have given turns that far away
		return since > longestWait
	case l.limit.moved(), l.bounds != laneBounds{}:
		return since > laneMemory
	}
	return true
}
