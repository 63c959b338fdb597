package invariant

import (
	"slices"
	"strings"
)

func (w *world) freezes(r *Result) {
	for _, why := range w.Live.Frozen {
		r.Checked++
		explained := why == OperatorsFreeze
		for _, theft := range w.Live.Thefts {
			explained = explained || theft.Froze == why
		}
		// What is signed stays in the world when a restore takes its row. It may be mined after the recovery.
		explained = explained || len(w.Live.Lost) > 0 && strings.HasPrefix(why, "a transaction uses slot")
		for _, p := range w.Live.Known {
			explained = explained || slices.ContainsFunc(p.Hashes, func(hash string) bool {
				return len(w.lost(hash)) > 0 && strings.Contains(why, hash)
			})
		}
		if !explained {
			r.violated("treasury", "was frozen: %s", why)
		}
	}
}
