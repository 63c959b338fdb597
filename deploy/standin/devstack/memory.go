package devstack

import (
	"fmt"
	"math"
	"os"
	"strings"
)

// ResidentMemory returns the resident memory of a process in MB; NaN where the system does not show
// it.
func ResidentMemory(pid int) float64 {
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
