package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// cpuTick is the unit of Linux's CPU times: USER_HZ is 100 wherever Go runs.
const cpuTick = 10 * time.Millisecond

// cpuTime returns the CPU time of all processes since the computer started; 0 where the system does
// not show it. It includes processes outside the stack, but on a quiet computer the stack uses
// nearly all of it.
func cpuTime() time.Duration {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0
	}
	line, _, _ := strings.Cut(string(text), "\n")
	fields := strings.Fields(line)
	var ticks int64
	for i, field := range fields[1:] {
		const idle, ioWait = 3, 4
		if n, err := strconv.ParseInt(field, 10, 64); err == nil && i != idle && i != ioWait &&
			i < 8 { // later fields are already counted in user
			ticks += n
		}
	}
	return time.Duration(ticks) * cpuTick
}

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
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return all
	}
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		program, ok := known[pid]
		if !ok {
			program = ofPostgres(pid)
		}
		if program != "" {
			all[pid] = usage{program, cpuOf(pid)}
		}
	}
	return all
}

// ofPostgres returns the program that a process of PostgreSQL serves, by its title ("postgres: role
// database address state"); "" if the process is not PostgreSQL.
func ofPostgres(pid int) string {
	title, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil {
		return ""
	}
	words := strings.Fields(strings.TrimRight(string(title), "\x00"))
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

// cpuOf returns the CPU time of a process with its threads.
func cpuOf(pid int) time.Duration {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(text), ") ") // the program's name before it may have spaces
	fields := strings.Fields(rest)
	const user, system = 11, 12
	if len(fields) <= system {
		return 0
	}
	var ticks int64
	for _, field := range []string{fields[user], fields[system]} {
		if n, err := strconv.ParseInt(field, 10, 64); err == nil {
			ticks += n
		}
	}
	return time.Duration(ticks) * cpuTick
}
