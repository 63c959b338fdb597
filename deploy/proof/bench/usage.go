package main

import (
	"context"
	"os"
	"strings"
	"time"

	"github.com/prometheus/procfs"

	"example.com/checkout/deploy/standin/devstack"
	"example.com/checkout/storage/pgtemp"
)

// cpuTime returns the CPU time of all processes since the computer started; 0 where the system does
// not show it. It includes processes outside the stack, but on a quiet computer the stack uses
// nearly all of it.
func cpuTime() time.Duration {
	fs, err := procfs.NewDefaultFS()
	if err != nil {
		return 0
	}
	stat, err := fs.Stat()
	if err != nil {
		return 0
	}
	all := stat.CPUTotal // User and Nice include the time of guests
	return seconds(all.User + all.Nice + all.System + all.IRQ + all.SoftIRQ + all.Steal)
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// programs are the parts of a stack whose CPU time is shown separately.
var programs = []string{
	"Temporal",
	"PostgreSQL of Temporal",
	"PostgreSQL of the service",
	"PostgreSQL for both",
	"API",
	"worker",
	"this benchmark",
}

// usage is the CPU time of a process of the stack.
type usage struct {
	program string
	cpu     time.Duration
}

// cpuSince returns the CPU time of each program since before. It does not count processes that have
// ended.
func cpuSince(before, now map[int]usage) map[string]time.Duration {
	used := map[string]time.Duration{}
	for pid, u := range now {
		used[u.program] += u.cpu - before[pid].cpu
	}
	return used
}

// processes returns the processes of the stack; none where the system does not show them.
func (r *rig) processes() map[int]usage {
	all := map[int]usage{}
	known := map[int]string{
		r.stack.Temporal.PID(): "Temporal", r.stack.API.PID(): "API", r.stack.Worker.PID(): "worker",
		os.Getpid(): "this benchmark",
	}
	processes, err := procfs.AllProcs()
	if err != nil {
		return all
	}
	for _, p := range processes {
		program, ok := known[p.PID]
		if !ok {
			program = ofPostgres(p)
		}
		if program == "" {
			continue
		}
		if stat, err := p.Stat(); err == nil { // it has not just ended
			all[p.PID] = usage{program, seconds(stat.CPUTime())}
		}
	}
	return all
}

// ofPostgres returns the program that a process of PostgreSQL serves, by its title ("postgres: role
// database address state"); "" if the process is not PostgreSQL.
func ofPostgres(p procfs.Proc) string {
	title, err := p.CmdLine()
	if err != nil {
		return ""
	}
	words := strings.Fields(strings.Join(title, " "))
	switch {
	case len(words) == 0 || words[0] != "postgres:":
		return ""
	case len(words) > 3 && strings.HasPrefix(words[2], "temporal"):
		return "PostgreSQL of Temporal"
	case len(words) > 3 && strings.Contains(words[3], "("): // an address with a port
		return "PostgreSQL of the service"
	}
	return "PostgreSQL for both" // the log's writer, autovacuum …
}

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
