package main

import (
	"fmt"
	"os"
	"strings"
)

// residentMemory is the memory of a process as the system shows it, "?" where it
// does not.
func residentMemory(pid int) string {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return "?"
	}
	for line := range strings.SplitSeq(string(text), "\n") {
		if size, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			var kilobytes int
			if _, err := fmt.Sscan(size, &kilobytes); err == nil {
				return fmt.Sprintf("%d MB", kilobytes>>10)
			}
		}
	}
	return "?"
}

// memory is that of the API and the worker.
func (r *rig) memory() string {
	return fmt.Sprintf("API %s, worker %s", residentMemory(r.stack.API.PID()), residentMemory(r.stack.Worker.PID()))
}
