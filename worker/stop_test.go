package worker

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/worker"
)

// stopping is a worker of the SDK that takes as long as it likes to stop.
type stopping struct {
	worker.Worker
	stop func()
}

func (s stopping) Stop() { s.stop() }

// TestStop_BothQueuesStopTogetherWithinOneLimit: neither queue waits for the other, and one that never
// stops does not hold up the process for more than the limit.
func TestStop_BothQueuesStopTogetherWithinOneLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		first, second := make(chan struct{}), make(chan struct{})
		w := &Workers{running: []worker.Worker{
			stopping{stop: func() { close(first); <-second }}, stopping{stop: func() { close(second); <-first }},
		}}
		require.True(t, w.Stop(), "each waits until the other stops too")

		release := make(chan struct{})
		began := time.Now() // of the bubble's clock
		w = &Workers{running: []worker.Worker{stopping{stop: func() { <-release }}, stopping{stop: func() {}}}}
		require.False(t, w.Stop())
		require.Equal(t, 18*time.Second, time.Since(began))
		close(release)
	})
}
