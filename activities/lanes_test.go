package activities

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestLanes_LetAFewThroughAtOnceAndQueueAFewForAMoment(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ls := newLanes()
		for range laneWidth {
			require.Zero(t, ls.enter("a"))
		}
		require.Zero(t, ls.enter("b"), "another endpoint has a lane of its own")
		waited := make(chan time.Duration)
		began := time.Now()
		for range laneLine {
			go func() { waited <- ls.enter("a") }()
		}
		synctest.Wait()
		require.NotZero(t, ls.enter("a"), "the line is full")
		time.Sleep(time.Second)
		ls.leave("a", time.Second, false)
		require.Zero(t, <-waited, "the first in line gets the place")
		require.Equal(t, time.Second, time.Since(began))
		for range laneLine - 1 {
			require.NotZero(t, <-waited)
		}
		require.Equal(t, linePatience, time.Since(began), "nobody holds a slot of the worker for longer")
	})
}

func TestLanes_AnEndpointThatHangsGetsOneAttemptAtATime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ls := newLanes()
		for range laneWidth {
			require.Zero(t, ls.enter("a"))
		}
		for range laneWidth {
			ls.leave("a", 10*time.Second, true)
		}
		require.Zero(t, ls.enter("a"))
		began := time.Now()
		for n := 1; n <= 5; n++ {
			require.Equal(t, time.Duration(n)*10*time.Second, ls.enter("a"), "each comes back one time-out after the other")
		}
		require.Equal(t, began, time.Now(), "and none waits in the worker")
		ls.leave("a", 10*time.Millisecond, false)
		for range laneWidth {
			require.Zero(t, ls.enter("a"), "one answer, and all is well")
		}
	})
}

func TestLanes_ABacklogComesBackAtThePaceOfItsReceiver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ls := newLanes()
		require.Zero(t, ls.enter("a"))
		ls.leave("a", 10*time.Second, true)
		require.Zero(t, ls.enter("a"))
		var last time.Duration
		for range 50_000 {
			last = ls.enter("a")
		}
		require.Equal(t, longestWait, last)
	})
}

func TestLanes_RememberNothingOfAHealthyEndpoint(t *testing.T) {
	t.Parallel()
	ls := newLanes()
	require.Zero(t, ls.enter("a"))
	ls.leave("a", time.Millisecond, false)
	require.Empty(t, ls.byName)
}
