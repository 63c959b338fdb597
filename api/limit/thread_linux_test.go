package limit

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func niceness(t *testing.T) int {
	raw, err := unix.Getpriority(unix.PRIO_PROCESS, 0)
	require.NoError(t, err)
	return 20 - raw
}

// TestGate_LetsOtherThreadsGoFirst: and only its own work does.
func TestGate_LetsOtherThreadsGoFirst(t *testing.T) {
	t.Parallel()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before := niceness(t)
	g := NewGate(1, 1)
	for range 3 {
		var within, started int
		require.NoError(t, g.Do(t.Context(), func() {
			within = niceness(t)
			done := make(chan int)
			go func() {
				runtime.LockOSThread()
				defer runtime.UnlockOSThread()
				done <- niceness(t)
			}()
			started = <-done
		}))
		require.Equal(t, min(lowest, before+yield), within)
		require.Equal(t, before, started, "a goroutine that the work starts")
	}
	require.Equal(t, before, niceness(t))
}
