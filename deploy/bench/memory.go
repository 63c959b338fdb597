package main

import (
	"context"
	"fmt"
	"math"
	"os"
	"strings"
	"time"
)

// residentMemory is the memory of a process as the system shows it, in MB; NaN
// where it does not.
func residentMemory(pid int) float64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return math.NaN()
	}
	for line := range strings.SplitSeq(string(text), "\n") {
		if size, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			var kilobytes float64
			if _, err := fmt.Sscan(size, &kilobytes); err == nil {
				return kilobytes / 1024
			}
		}
	}
	return math.NaN()
}

// memory is that of the API and the worker.
type memory struct{ api, worker float64 }

func (r *rig) memory() memory {
	return memory{residentMemory(r.stack.API.PID()), residentMemory(r.stack.Worker.PID())}
}

// peakMemory looks until ctx ends and returns the most that each had.
func (r *rig) peakMemory(ctx context.Context) memory {
	peak := r.memory()
	for {
		select {
		case <-ctx.Done():
			return peak
		case <-time.After(200 * time.Millisecond):
		}
		now := r.memory()
		peak = memory{max(peak.api, now.api), max(peak.worker, now.worker)}
	}
}

// memoryUnder returns what API and worker have at rest and at most while work
// runs.
func (r *rig) memoryUnder(ctx context.Context, work func() error) (part, error) {
	rest, watched := r.memory(), make(chan memory, 1)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() { watched <- r.peakMemory(ctx) }()
	err := work()
	cancel()
	peak := <-watched
	of := func(name string, m memory) figure {
		f := figure{Name: name, Unit: "MB"}
		for _, s := range []series{one("API", m.api), one("worker", m.worker)} {
			if !math.IsNaN(s.median()) { // JSON has no word for it
				f.Series = append(f.Series, s)
			}
		}
		return f
	}
	return part{Of: "process", Figures: []figure{of("memory at rest", rest), of("memory under load, at most", peak)}}, err
}
