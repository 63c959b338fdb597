package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"example.com/checkout/deploy/proof/chaos/invariant"
	"example.com/checkout/deploy/standin/devstack"
)

// patience is how long a process may take to answer, and how long idle connections may stay after
// the load.
const patience = 20 * time.Second

// holds returns the resources of each process of the service, by its name. It repeats the question
// for a while, because a new process does not answer at once.
func (r *rig) holds(ctx context.Context) (all map[string]invariant.Hold, err error) {
	until(ctx, patience, time.Second, func() bool {
		all, err = r.holdsNow(ctx)
		return err == nil
	})
	return all, errors.Join(err, ctx.Err())
}

// holdsNow reads open files and memory from Linux, and goroutines from each process's metrics.
func (r *rig) holdsNow(ctx context.Context) (map[string]invariant.Hold, error) {
	all := map[string]invariant.Hold{}
	for _, p := range r.parts {
		if p.metrics == "" {
			continue
		}
		files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", p.pid()))
		if err != nil {
			return nil, err
		}
		goroutines, err := goroutinesOf(ctx, p.metrics)
		if err != nil {
			return nil, err
		}
		all[p.name] = invariant.Hold{
			Files:      len(files),
			Goroutines: goroutines,
			Memory:     math.Round(devstack.ResidentMemory(p.pid())),
		}
	}
	return all, nil
}

// goroutinesOf reads the number of goroutines from a process's metrics.
func goroutinesOf(ctx context.Context, address string) (int, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/metrics", nil)
	if err != nil {
		return 0, err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	for lines := bufio.NewScanner(answer.Body); lines.Scan(); {
		if name, value, _ := strings.Cut(lines.Text(), " "); strings.HasPrefix(name, "go_goroutine_count") {
			var n float64
			_, err := fmt.Sscan(value, &n)
			return int(n), err
		}
	}
	return 0, fmt.Errorf("%s has no go_goroutine_count", address)
}

// compareHolds returns the resources of every process before the load and now. If a process holds
// too much, compareHolds looks again for a while.
func (c *chaos) compareHolds(ctx context.Context) (held []invariant.Held, err error) {
	until(ctx, patience, time.Second, func() bool {
		var now map[string]invariant.Hold
		now, err = c.rig.holds(ctx)
		held = nil
		for _, p := range c.rig.parts {
			if p.metrics != "" {
				held = append(held, invariant.Held{Process: p.name, Before: c.before[p.name], After: now[p.name]})
			}
		}
		leaks := slices.ContainsFunc(held, func(h invariant.Held) bool { return h.Leaks() != "" })
		return err != nil || !leaks
	})
	return held, errors.Join(err, ctx.Err())
}
