package main

import (
	"context"
	"time"

	"example.com/checkout/deploy/standin/devstack"
	"example.com/checkout/storage/pgtemp"
)

// memory is the memory of the API and of the worker.
type memory struct{ api, worker float64 }

func (r *rig) memory() memory {
	return memory{devstack.ResidentMemory(r.stack.API.PID()), devstack.ResidentMemory(r.stack.Worker.PID())}
}

// peakMemory watches the memory until ctx ends and returns the highest value of each.
func (r *rig) peakMemory(ctx context.Context) memory {
	peak := r.memory()
	for pgtemp.Pause(ctx, 200*time.Millisecond) == nil {
		now := r.memory()
		peak = memory{max(peak.api, now.api), max(peak.worker, now.worker)}
	}
	return peak
}

// memoryUnder returns the memory of API and worker at rest, and the highest value during work.
func (r *rig) memoryUnder(ctx context.Context, work func() error) (table, error) {
	rest, watched := r.memory(), make(chan memory, 1)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() { watched <- r.peakMemory(ctx) }()
	err := work()
	cancel()
	peak := <-watched
	t := table{columns: []string{"process", "memory at rest, MB", "memory under load, at most, MB"}}
	t.add("API", []float64{rest.api}, []float64{peak.api})
	t.add("worker", []float64{rest.worker}, []float64{peak.worker})
	return t, err
}
