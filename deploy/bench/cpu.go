package main

import (
	"os"
	"strconv"
	"strings"
	"time"
)

// cpuTime is what all processes of the computer have used since it started, 0
// where the system does not tell: this benchmark's stack is not to be told apart
// from its neighbours, but on a quiet computer it is nearly all.
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
		if n, err := strconv.ParseInt(field, 10, 64); err == nil && i != idle && i != ioWait && i < 8 { // the rest is counted in user already
			ticks += n
		}
	}
	const tick = 10 * time.Millisecond // USER_HZ is 100 wherever Go runs on Linux
	return time.Duration(ticks) * tick
}
