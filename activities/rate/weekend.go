package rate

import "time"

// weekend reports whether the market of fiat currencies may rest at the time t: from Friday, 21:00 UTC,
// to Sunday's end. The market itself closes and opens at 21:00 UTC in summer and at 22:00 in winter.
// Feeds need some time after it has opened.
func weekend(t time.Time) bool {
	const closes = 21
	t = t.UTC()
	switch t.Weekday() {
	case time.Friday:
		return t.Hour() >= closes
	case time.Saturday, time.Sunday:
		return true
	}
	return false
}
