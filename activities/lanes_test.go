package activities

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/checkout/workflows/checkout"
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

func TestLanes_ForgetASickEndpointThatNobodyComesTo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ls := newLanes()
		for i := range 1000 {
			name := strconv.Itoa(i)
			require.Zero(t, ls.enter(name))
			ls.leave(name, 10*time.Second, true)
		}
		require.Zero(t, ls.enter("under way"))
		time.Sleep(longestWait + time.Second)
		require.Zero(t, ls.enter("another"))
		require.Len(t, ls.byName, 2)
	})
}

func TestLane_OfSessionsOwnURLsIsTheMerchantsHost(t *testing.T) {
	t.Parallel()
	of := func(merchant, endpoint, host string) string {
		return SendAttemptInput{DeliveryInput: DeliveryInput{Ref: checkout.Ref{Owner: checkout.Owner{MerchantID: merchant, Mode: checkout.ModeTest}}}, EndpointID: endpoint, Host: host}.lane()
	}
	require.NotEqual(t, of("mer_1", "wh_1", "a.example"), of("mer_1", "wh_2", "a.example"), "a registration has a lane of its own")
	require.NotEqual(t, of("mer_1", "", "a.example"), of("mer_2", "", "a.example"))
	require.NotEqual(t, of("mer_1", "", "a.example"), of("mer_1", "", "b.example"))
}

func TestLanes_RememberNothingOfAHealthyEndpoint(t *testing.T) {
	t.Parallel()
	ls := newLanes()
	require.Zero(t, ls.enter("a"))
	ls.leave("a", time.Millisecond, false)
	require.Empty(t, ls.byName)
}
