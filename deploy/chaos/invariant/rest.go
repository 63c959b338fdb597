package invariant

import "time"

// Rest says how everything came to rest after the last fault.
type Rest struct {
	After         time.Duration `json:"after"`          // from the end of the last fault
	Within        time.Duration `json:"within"`         // what it may take, beside retries that are not due
	LongestRetry  time.Duration `json:"longest_retry"`  // that was scheduled then, with the attempts that may follow it
	Restless      string        `json:"restless"`       // what had not come to rest when nobody waited any longer; "" is everything had
	IdleInTx      int           `json:"idle_in_tx"`     // connections of the service that do nothing in a transaction
	UnwishedExits []string      `json:"unwished_exits"` // processes that ended while nobody broke them
}

var rest = Invariant{
	Number: 20, Names: "what",
	Title: "after the last fault everything comes to rest in time, and no process ended by itself",
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
		for _, name := range w.Rest.UnwishedExits {
			r.violated(name, "ended by itself")
		}
	},
}
