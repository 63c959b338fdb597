package devstack

import (
	"math"

	"github.com/prometheus/procfs"
)

// ResidentMemory returns the resident memory of a process in MB; NaN where the system does not show it.
func ResidentMemory(pid int) float64 {
	process, err := procfs.NewProc(pid)
	if err != nil {
		return math.NaN()
	}
	status, err := process.NewStatus()
	if err != nil || status.VmRSS == 0 { // it has ended, and its parent does not know yet
		return math.NaN()
	}
	return float64(status.VmRSS) / (1 << 20)
}
