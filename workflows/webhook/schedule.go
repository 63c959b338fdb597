package webhook

import (
	"math"
	"time"
)

// Schedule holds the delay before each retry, counted from the previous attempt. The first entry is
// the delay before attempt 2.
type Schedule []time.Duration

// retryDelays are the delays of RetrySchedule.
var retryDelays = [...]time.Duration{
	30 * time.Second, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 12 * time.Hour,
}

// RetrySchedule is the schedule of every live delivery. Source: api/interface.md, "Delivery and retries".
var RetrySchedule = Schedule(retryDelays[:])

// MaxAttempts counts the first attempt and one for each delay of the schedule.
const MaxAttempts = len(retryDelays) + 1

// AttemptTimeout is how long an attempt may take before Temporal assumes that its worker died. Beside the receiver's
// time it has 5 s of ours: 2 to wait in the line of a busy endpoint, 1 to read the answer's body, and 2 for the notes
// of the attempt in PostgreSQL, before and after it.
const AttemptTimeout = ResponseTimeout + 5*time.Second

// FallbackDelay returns how long Temporal waits after attempt n when a worker died during it. The first attempt is 1.
// The schedule comes with a failed attempt's error, so without an error Temporal uses the retry policy's own back-off:
// it begins and ends like the schedule, and grows by FallbackFactor in between.
func FallbackDelay(n int) time.Duration {
	delay := retryDelays[0]
	for ; n > 1; n-- {
		delay = min(time.Duration(float64(delay)*FallbackFactor), LongestFallback)
	}
	return delay
}

// LongestFallback is the last delay of the schedule.
var LongestFallback = retryDelays[len(retryDelays)-1]

// FallbackFactor leads from the first delay of the schedule to its last one in as many steps, within a hundredth.
var FallbackFactor = math.Round(100*math.Pow(
	float64(LongestFallback)/float64(retryDelays[0]), 1/float64(len(retryDelays)-1))) / 100

// ResponseTimeout is how long a receiver has to answer. Source: api/interface.md, "Delivery and retries".
const ResponseTimeout = 10 * time.Second

// RetryDelay returns how long to wait after attempt n. The first attempt is 1. It returns false after the last attempt.
func (s Schedule) RetryDelay(n int) (time.Duration, bool) {
	if n < 1 || n > len(s) {
		return 0, false
	}
	return s[n-1], true
}
