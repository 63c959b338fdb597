package webhook

import "time"

// Schedule holds the delay before each retry, counted from the previous
// attempt; the first entry precedes attempt 2.
type Schedule []time.Duration

// RetrySchedule is the schedule of every live delivery. Source: interface
// document, "Delivery and retries".
var RetrySchedule = Schedule{30 * time.Second, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 12 * time.Hour}

// MaxAttempts is the first attempt and one for each entry of the schedule.
const MaxAttempts = 6

// ResponseTimeout is how long a receiver has to answer. Source: interface
// document, "Delivery and retries".
const ResponseTimeout = 10 * time.Second

// RetryDelay returns how long to wait after attempt n, the first being 1; false
// after the last.
func (s Schedule) RetryDelay(n int) (time.Duration, bool) {
	if n < 1 || n > len(s) {
		return 0, false
	}
	return s[n-1], true
}
