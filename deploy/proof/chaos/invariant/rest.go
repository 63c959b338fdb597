package invariant

import (
	"fmt"
	"strings"
	"time"
)

// Rest describes how everything came to rest after the last fault.
type Rest struct {
	After  time.Duration // time from the end of the last fault to rest
	Within time.Duration // the longest allowed time, without waits for retries
	// The longest wait for a retry, with the attempts that may follow it.
	LongestRetry  time.Duration
	Restless      string   // work still in progress at the end of the wait; "" for none
	IdleInTx      int      // connections of the service that are idle in a transaction
	UnwishedExits []string // processes that ended without a fault
	Held          []Held   // resources of each process of the service
}

// Held are the resources of a process before the load and at rest after it.
type Held struct {
	Process string
	Before  Hold
	After   Hold
}

// Hold are the resources that a process holds.
type Hold struct {
	Files      int // open files and connections
	Goroutines int
	Memory     float64 // resident, in MB
}

// allowedGrowth is how much more a process may hold at rest than before the load, in addition to a fifth. It
// covers connections of the pool, of clients and of receivers; pollers; and the heap that Go does
// not give back at once. It also covers cached runs that another worker has ended: they stay in
// memory until their place is needed, with four goroutines each. A leak with every request or
// delivery soon exceeds this.
var allowedGrowth = Hold{Files: 80, Goroutines: 1000, Memory: 60}

// Leaks names the resources that grew by more than allowedGrowth permits; "" when none did.
func (h Held) Leaks() string {
	var all []string
	for _, c := range []struct {
		what                   string
		before, after, allowed float64
	}{
		{"open files", float64(h.Before.Files), float64(h.After.Files), float64(allowedGrowth.Files)},
		{"goroutines", float64(h.Before.Goroutines), float64(h.After.Goroutines), float64(allowedGrowth.Goroutines)},
		{"MB", h.Before.Memory, h.After.Memory, allowedGrowth.Memory},
	} {
		if c.after > 1.2*c.before+c.allowed {
			all = append(all, fmt.Sprintf("%.0f %s, before the load %.0f", c.after, c.what, c.before))
		}
	}
	return strings.Join(all, "; ")
}

func (w *world) rest(r *Result) {
	r.Checked++
	if w.Rest.Restless != "" {
		r.violated("everything", "is not at rest after %s: %s", w.Rest.After, w.Rest.Restless)
	}
	if bound := w.Rest.Within + w.Rest.LongestRetry; w.Rest.After > bound {
		r.violated("everything", "came to rest after %s, and %s was the time for it", w.Rest.After, bound)
	}
	if w.Rest.IdleInTx > 0 {
		r.violated("PostgreSQL", "%d connections are idle in a transaction", w.Rest.IdleInTx)
	}
	for _, h := range w.Rest.Held {
		r.Checked++
		if leaks := h.Leaks(); leaks != "" {
			r.violated(h.Process, "holds %s", leaks)
		}
	}
	for _, name := range w.Rest.UnwishedExits {
		r.violated(name, "ended by itself")
	}
}
