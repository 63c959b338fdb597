package invariant

// History is the history of one run, replayed on this build.
type History struct {
	WorkflowID, RunID string
	TaskFailures      []string // of its workflow tasks, but for those that every service has
	ReplayError       string   // "": it replays
}

var histories = Invariant{
	Number: 22, Names: "run",
	Title: "every history of a sample replays on this build",
	needs: func(f *Facts) string {
		if len(f.Histories) == 0 {
			return "no histories were read"
		}
		return ""
	},
	check: func(w *world, r *Result) {
		for _, h := range w.Histories {
			r.Checked++
			if h.ReplayError != "" {
				r.violated(h.WorkflowID, "run %s does not replay: %s", h.RunID, h.ReplayError)
			}
		}
	},
}
