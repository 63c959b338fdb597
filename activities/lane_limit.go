package activities

import (
	"net/http"
	"time"

	"example.com/checkout/workflows/webhook"
)

// Numbers of a laneLimit. Source: api/decisions/deliveries.md, "a busy endpoint".
const (
	// firstLimit is the limit of an endpoint that was not measured yet.
	firstLimit = 4
	// meanShare is the weight of a new duration in the mean, as for TCP's round trips (RFC 6298).
	meanShare = 1.0 / 8
	// driftShare lets the shortest mean follow, so that an endpoint that became slower for good can
	// grow again.
	driftShare = 1.0 / 64
	// yielded is the limit's new share when it makes room for new deliveries.
	yielded = 0.75
	// turnsOfYielding is how many turns per second an endpoint gives while it yields.
	turnsOfYielding = 8
	// queues is how many times the shortest mean an attempt takes at an endpoint that queues. More
	// attempts would only lengthen its queue.
	queues = 2
	// An attempt that takes longer than tooSlow is close to its time-out.
	tooSlow = webhook.ResponseTimeout / 2
	// assumedPace is the duration of an attempt before the first one has ended.
	assumedPace = 250 * time.Millisecond
)

// laneLimit is how many attempts may be under way at an endpoint. It follows the endpoint as TCP's
// congestion window follows a path (RFC 5681). It doubles in the time of one attempt until the
// endpoint first refuses or queues; later it grows by one in that time. It halves when the endpoint
// refuses, and falls to one when it hangs.
type laneLimit struct {
	first, most int // of size

	size      float64
	threshold float64   // the limit doubles up to it; 0: no end is known
	took      latency   // of an attempt; zero before the first has ended
	fell      time.Time // when the limit last fell
	yieldedAt float64   // size before it first yielded; 0: it has that size again
	sick      bool      // the last attempt timed out
}

// newLaneLimit returns a limit that begins at first and ends at most.
func newLaneLimit(first, most int) laneLimit {
	first = min(first, most)
	return laneLimit{first: first, most: most, size: float64(first)}
}

// effect is what an attempt shows of the endpoint's capacity.
type effect int

// Effects.
const (
	showsNothing  effect = iota // nothing reached the endpoint
	showsCapacity               // an answer in time; also 404 and 500, which come from the application
	showsOverload
	showsHang
)

// effectOf returns the effect of an attempt.
func effectOf(a webhook.Attempt) effect {
	switch {
	case a.ErrorKind == webhook.ErrorTimeout:
		return showsHang
	case a.ErrorKind == webhook.ErrorConnect:
		return showsOverload
	case a.StatusCode == 0:
		return showsNothing
	}
	switch a.StatusCode {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return showsOverload
	}
	return showsCapacity
}

// use is how the limit was used while an attempt was under way.
type use int

// Uses.
const (
	usedInPart  use = iota
	usedInFull      // only then did the attempt show that the endpoint can do as much
	usedTooMuch     // new deliveries of others were late meanwhile
)

// learn moves the limit after an attempt.
func (l *laneLimit) learn(shown effect, began, ended time.Time, used use) {
	took := ended.Sub(began)
	switch shown {
	case showsHang:
		l.yieldedAt = 0
		l.fall(1, ended)
		l.sick, l.took = true, latency{mean: took}
	case showsOverload:
		l.forgetTimeouts()
		l.yieldedAt = 0
		if began.After(l.fell) { // the others under way were sent before the limit fell
			l.fall(l.size/2, ended)
		}
	case showsCapacity:
		l.forgetTimeouts()
		l.took.measure(took, meanShare, driftShare)
		switch {
		case took > tooSlow:
			l.size = max(l.size-1, l.floor())
		case used == usedTooMuch && began.After(l.fell):
			l.yieldedAt = max(l.yieldedAt, l.size)
			l.fall(max(l.size*yielded, l.floor()), ended)
		case used == usedInFull && took <= queues*l.took.shortest:
			l.grow()
		case used == usedInFull && l.threshold == 0: // the endpoint queues: the limit has doubled far enough
			l.threshold = l.size
		}
	case showsNothing:
	}
}

// forgetTimeouts lets the durations begin anew when an endpoint that hung answers.
func (l *laneLimit) forgetTimeouts() {
	if l.sick {
		l.sick, l.took = false, latency{}
	}
}

func (l *laneLimit) fall(to float64, at time.Time) {
	l.threshold = max(l.size/2, 1)
	l.size, l.fell = max(to, 1), at
}

func (l *laneLimit) grow() {
	if l.doubles() {
		l.size++
	} else {
		l.size = min(l.size+1/l.size, float64(l.most))
	}
	if l.size >= l.yieldedAt {
		l.yieldedAt = 0
	}
}

// doubles reports whether the limit doubles in the time of one attempt.
func (l *laneLimit) doubles() bool {
	return !l.sick && l.size+1 <= float64(l.most) && (l.threshold == 0 || l.size < l.threshold)
}

// floor returns the size below which only a refusal or a time-out moves the limit.
func (l *laneLimit) floor() float64 { return min(l.size, float64(l.first)) }

func (l *laneLimit) now() int { return int(l.size) }

// pace returns the duration of an attempt.
func (l *laneLimit) pace() time.Duration {
	if l.took.mean == 0 {
		return assumedPace
	}
	return max(l.took.mean, time.Millisecond)
}

// moved reports whether the limit has learned more than a new one.
func (l *laneLimit) moved() bool { return l.size != float64(l.first) || l.threshold != 0 }
