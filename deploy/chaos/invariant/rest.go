package invariant

import (
	"fmt"
	"strings"
	"time"
)

// Rest says how everything came to rest after the last fault.
type Rest struct {
	After         time.Duration `json:"after"`          // from the end of the last fault
	Within        time.Duration `json:"within"`         // what it may take, beside retries that are not due
	LongestRetry  time.Duration `json:"longest_retry"`  // that was scheduled then, with the attempts that may follow it
	Restless      string        `json:"restless"`       // what had not come to rest when nobody waited any longer; "" is everything had
	IdleInTx      int           `json:"idle_in_tx"`     // connections of the service that do nothing in a transaction
	UnwishedExits []string      `json:"unwished_exits"` // processes that ended while nobody broke them
	Held          []Held        `json:"held"`           // by each process of the service
}

// Held is what a process holds before the load and at rest after it.
type Held struct {
	Process string `json:"process"`
	Before  Hold   `json:"before"`
	After   Hold   `json:"after"`
}

// Hold is what a process holds.
type Hold struct {
	Files      int     `json:"files"` // open, connections among them
	Goroutines int     `json:"goroutines"`
	Memory     float64 `json:"memory"` // resident, in MB
}

// kept is what a process may hold for what comes next, beside a fifth more than
// before: connections of the pool, of clients and of receivers; pollers; runs that
// another worker has ended, which stay in memory until there is no place for them,
// four goroutines each; and the heap that Go does not give back at once. What is
// lost with every request or delivery is soon more.
var kept = Hold{Files: 80, Goroutines: 1000, Memory: 60}

// Leaks says what of it is more than is kept for what comes next, "" when nothing is.
func (h Held) Leaks() string {
	var all []string
	for _, c := range []struct {
		what                string
		before, after, kept float64
	}{
		{"open files", float64(h.Before.Files), float64(h.After.Files), float64(kept.Files)},
		{"goroutines", float64(h.Before.Goroutines), float64(h.After.Goroutines), float64(kept.Goroutines)},
		{"MB", h.Before.Memory, h.After.Memory, kept.Memory},
	} {
		if c.after > 1.2*c.before+c.kept {
			all = append(all, fmt.Sprintf("%.0f %s, before the load %.0f", c.after, c.what, c.before))
		}
	}
	return strings.Join(all, "; ")
}

var rest = Invariant{
	Number: 20, Names: "what",
	Title: "after the last fault everything comes to rest in time, no process holds what it does not need, and none ended by itself",
	needs: func(f *Facts) string {
		if f.Rest == nil {
			return "nothing was broken here"
		}
		return ""
	},
	check: func(w *world, r *Result) {
		r.Checked++
		if w.Rest.Restless != "" {
			r.violated("everything", "is not at rest after %s: %s", w.Rest.After.Round(time.Second), w.Rest.Restless)
		}
		if bound := w.Rest.Within + w.Rest.LongestRetry; w.Rest.After > bound {
			r.violated("everything", "came to rest after %s, and %s was the time for it", w.Rest.After.Round(time.Second), bound.Round(time.Second))
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
	},
}
