package activities

import "time"

// latency is the mean of durations and the shortest that it has been.
type latency struct {
	mean     time.Duration // 0 before the first measurement
	shortest time.Duration // mean so far, drifting toward mean
}

// measure notes a duration. share is its weight in the mean; drift is how far the shortest mean goes toward the
// present one. Both are from 0 to 1.
func (l *latency) measure(took time.Duration, share, drift float64) {
	if l.mean == 0 {
		l.mean, l.shortest = took, took
		return
	}
	l.mean += time.Duration(share * float64(took-l.mean))
	l.shortest += time.Duration(drift * float64(l.mean-l.shortest))
	l.shortest = min(l.shortest, l.mean)
}

// Numbers of lateness. Source: api/decisions/deliveries.md, "a busy endpoint".
const (
	// lateFactor is how many times their shortest lateness new deliveries may be late.
	lateFactor = 1.5
	// latenessShare is the weight of a new measurement in the mean. It is small because single measurements vary by
	// half, and the shortest of many means must not be an outlier.
	latenessShare = 1.0 / 32
	// longestLateness bounds one measurement, which an outage may have delayed.
	longestLateness = time.Second
	// latenessMemory is how long a computer must be busy until that counts as usual.
	latenessMemory = 30 * time.Minute
	// latenessLasts is how long a measurement counts.
	latenessLasts = time.Second
)

// lateness is how long after their time new deliveries begin although they have a place. It shows how busy the
// computers of the worker, Temporal and PostgreSQL are.
type lateness struct {
	latency
	each time.Duration // mean time between two new deliveries
	last time.Time     // when the last one began
	lane string        // lane of the last one
}

// note notes how late a new delivery began.
func (l *lateness) note(lane string, late time.Duration, now time.Time) {
	since := min(now.Sub(l.last), latenessMemory)
	l.measure(min(max(late, 1), longestLateness), latenessShare, float64(since)/float64(latenessMemory))
	l.each += time.Duration(latenessShare * float64(min(since, latenessLasts)-l.each))
	l.last, l.lane = now, lane
}

// tooLong reports whether new deliveries of other lanes are late now.
func (l *lateness) tooLong(lane string, now time.Time) bool {
	return l.lane != lane && now.Sub(l.last) < latenessLasts && float64(l.mean) > lateFactor*float64(l.shortest)
}
