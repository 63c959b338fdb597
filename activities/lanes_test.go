package activities

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/semaphore"

	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/webhook"
)

// shop is a receiver in a test's virtual time.
type shop struct {
	takes   time.Duration // of a request that has a thread
	threads int           // requests that it works on at once, the others queue in it; 0: any number
	most    int           // requests under way at most; the others get 429. 0: any number

	work           *semaphore.Weighted
	mu             sync.Mutex
	underWay, peak int
	refused        int
}

// handle returns what the lane learns from one request.
func (s *shop) handle() outcome {
	o := outcome{effect: showsCapacity, began: time.Now()}
	s.mu.Lock()
	if s.most > 0 && s.underWay >= s.most {
		s.refused++
		s.mu.Unlock()
		o.effect = showsOverload
		return o
	}
	s.underWay++
	s.peak = max(s.peak, s.underWay)
	s.mu.Unlock()
	if s.threads > 0 {
		_ = s.work.Acquire(context.Background(), 1)
		defer s.work.Release(1)
	}
	time.Sleep(s.takes)
	s.mu.Lock()
	s.underWay--
	s.mu.Unlock()
	if time.Since(o.began) >= webhook.ResponseTimeout {
		o.effect = showsHang
	}
	return o
}

// lateness is how late a new delivery begins on a computer that is the slower, the more requests are under way.
func (s *shop) lateness() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return 10*time.Millisecond + time.Duration(s.underWay)*500*time.Microsecond
}

// load is what sending deliveries to a shop gave.
type load struct {
	mu    sync.Mutex
	lags  []time.Duration // until the shop was asked
	tries int             // that sent nothing
	hung  int
}

// send sends one delivery in as many visits as it takes. A refused one is not sent again.
func (l *load) send(ls *lanes, v visit, s *shop) {
	became, tries := time.Now(), 0
	for {
		got := ls.enter(context.Background(), v)
		if got.wait == 0 {
			break
		}
		tries++
		v.due = got.due
		time.Sleep(got.wait)
	}
	lag := time.Since(became)
	if tries == 0 {
		ls.beganFresh(v, s.lateness())
	}
	o := s.handle()
	ls.leave(v, o)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lags, l.tries = append(l.lags, lag), l.tries+tries
	if o.effect == showsHang {
		l.hung++
	}
}

// sendAt sends n deliveries at a steady pace and waits for the last one.
func sendAt(ls *lanes, s *shop, perSecond, n int) *load {
	l := &load{}
	s.work = semaphore.NewWeighted(int64(s.threads)) // in the bubble of the test
	var all sync.WaitGroup
	for range n {
		all.Go(func() { l.send(ls, visit{lane: "a", merchant: "m"}, s) })
		time.Sleep(time.Second / time.Duration(perSecond))
	}
	all.Wait()
	slices.Sort(l.lags)
	return l
}

func (l *load) log(t *testing.T, s *shop) {
	t.Logf("lag p50 %v, p99 %v, max %v; %d tries that sent nothing; %d at once at most, %d refused",
		l.lags[len(l.lags)/2], l.p99(), l.lags[len(l.lags)-1], l.tries, s.peak, s.refused)
}

func (l *load) p99() time.Duration { return l.lags[len(l.lags)*99/100] }

// inBubble runs a test in virtual time, beside others.
func inBubble(t *testing.T, name string, test func(*testing.T)) {
	t.Run(name, func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, test)
	})
}

// TestLanes_KeepUpWithTheShop: 20 a second of a shop that takes a second need 20 attempts under way.
func TestLanes_KeepUpWithTheShop(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		shop         *shop
		perSecond, n int
		lag          time.Duration // at most, of 99 in 100
		tries        float64       // that sent nothing, for each delivery
	}{
		"50 ms, 25 a second":            {&shop{takes: 50 * time.Millisecond}, 25, 400, 0, 0},
		"0.3 s, 20 a second":            {&shop{takes: 300 * time.Millisecond}, 20, 300, time.Second, 0.05},
		"1 s, 20 a second":              {&shop{takes: time.Second}, 20, 300, 2 * time.Second, 0.05},
		"0.3 s, a burst":                {&shop{takes: 300 * time.Millisecond}, 150, 10_000, 2 * time.Second, 0.2},
		"ten threads, enough":           {&shop{takes: 300 * time.Millisecond, threads: 10}, 25, 1000, time.Second, 0.05},
		"one thread, faster than it is": {&shop{takes: 100 * time.Millisecond, threads: 1}, 8, 400, time.Second, 0.05},
	} {
		inBubble(t, name, func(t *testing.T) {
			l := sendAt(newLanes(firstLimit, 64, Slots), c.shop, c.perSecond, c.n)
			l.log(t, c.shop)
			require.LessOrEqual(t, l.p99(), c.lag)
			require.LessOrEqual(t, float64(l.tries)/float64(c.n), c.tries)
			require.Zero(t, l.hung)
		})
	}
}

// TestLanes_DrainABacklogAtThePaceOfTheShop: the shop is slower than its events.
func TestLanes_DrainABacklogAtThePaceOfTheShop(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		shop    *shop
		bounds  laneBounds
		fastest float64 // requests a second that the shop, or the merchant's limit, allows
		refused int     // of 1,000, at most
	}{
		"ten threads":           {&shop{takes: 300 * time.Millisecond, threads: 10}, laneBounds{}, 33.3, 0},
		"two threads, slow":     {&shop{takes: time.Second, threads: 2}, laneBounds{}, 2, 0},
		"refuses the eleventh":  {&shop{takes: 300 * time.Millisecond, most: 10}, laneBounds{}, 33.3, 60},
		"at most 5 under way":   {&shop{takes: 300 * time.Millisecond}, laneBounds{maxInFlight: 5}, 16.7, 0},
		"at most 20 a second":   {&shop{takes: 300 * time.Millisecond}, laneBounds{rateLimit: 20}, 20, 0},
		"at most one at a time": {&shop{takes: 100 * time.Millisecond}, laneBounds{maxInFlight: 1}, 10, 0},
	} {
		inBubble(t, name, func(t *testing.T) {
			const n = 1000
			ls, began := newLanes(firstLimit, 64, Slots), time.Now()
			require.Zero(t, ls.enter(t.Context(), visit{lane: "a", merchant: "m"}))
			ls.bound(visit{lane: "a"}, c.bounds)
			ls.leave(visit{lane: "a", merchant: "m"}, outcome{})
			l := sendAt(ls, c.shop, 150, n)
			l.log(t, c.shop)
			rate := n / time.Since(began).Seconds()
			require.Greater(t, rate, 0.75*c.fastest)
			require.LessOrEqual(t, rate, 1.03*c.fastest)
			require.LessOrEqual(t, l.tries, 3*n)
			require.LessOrEqual(t, c.shop.refused, c.refused)
			require.Zero(t, l.hung)
			if c.bounds.maxInFlight > 0 {
				require.Equal(t, c.bounds.maxInFlight, c.shop.peak)
			}
		})
	}
}

// TestLanes_ABacklogYieldsWhileNewDeliveriesAreLate: it yields to those of other shops, see shop.lateness.
func TestLanes_ABacklogYieldsWhileNewDeliveriesAreLate(t *testing.T) {
	t.Parallel()
	for perSecond, want := range map[int]struct{ least, most int }{
		0:  {60, 64}, // attempts from a line begin a little after a place is free
		10: {5, 24},  // 10 keep the lateness at half more than without the backlog
		60: {30, 64}, // most deliveries are new, so the backlog is not what makes them late
	} {
		inBubble(t, fmt.Sprintf("%d new deliveries a second", perSecond), func(t *testing.T) {
			ls, s := newLanes(firstLimit, 64, Slots), &shop{takes: time.Second}
			underWay := func() int {
				synctest.Wait() // for what happens at this time
				s.mu.Lock()
				defer s.mu.Unlock()
				return s.underWay
			}
			pass := func(d time.Duration) { // and new deliveries of another shop
				if perSecond == 0 {
					time.Sleep(d)
					return
				}
				for range int(d.Seconds()) * perSecond {
					time.Sleep(time.Second / time.Duration(perSecond))
					v := visit{lane: "b", merchant: "n"}
					require.Zero(t, ls.enter(t.Context(), v))
					ls.beganFresh(v, s.lateness())
					ls.leave(v, outcome{effect: showsCapacity, began: time.Now()})
				}
			}
			pass(time.Minute)
			var l load
			var all sync.WaitGroup
			all.Go(func() {
				for range 9000 {
					all.Go(func() { l.send(ls, visit{lane: "a", merchant: "m"}, s) })
					time.Sleep(time.Second / 150)
				}
			})
			pass(30 * time.Second)
			for range 30 {
				pass(time.Second)
				require.GreaterOrEqual(t, underWay(), want.least)
				require.LessOrEqual(t, underWay(), want.most)
			}
			time.Sleep(time.Minute)
			require.GreaterOrEqual(t, underWay(), 5, "the others have none any more")
			all.Wait()
			l.log(t, s)
			require.Less(t, l.tries, 3*9000)
		})
	}
}

// enterAll lets n attempts ask for places at once, and returns their turns.
func enterAll(ls *lanes, v visit, n int) []admission {
	turns := make([]admission, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { turns[i] = ls.enter(context.Background(), v) })
	}
	all.Wait()
	return turns
}

func placesOf(turns []admission) (n int) {
	for _, t := range turns {
		if t.wait == 0 {
			n++
		}
	}
	return n
}

func TestLanes_AnEndpointThatHangsGetsOneAttemptAtATime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ls, a := newLanes(firstLimit, 64, Slots), visit{lane: "a", merchant: "m"}
		require.Equal(t, 4, placesOf(enterAll(ls, a, 4)))
		hung := outcome{effect: showsHang, began: time.Now()}
		time.Sleep(10 * time.Second)
		for range 4 {
			ls.leave(a, hung)
		}
		require.Zero(t, ls.enter(t.Context(), a))
		began := time.Now()
		for n := 1; n <= 5; n++ {
			got := ls.enter(t.Context(), a)
			require.Equal(t, time.Duration(n)*10*time.Second, got.wait, "each comes back one time-out after the other")
			require.Equal(t, n-1, got.ahead)
		}
		require.Equal(t, began, time.Now(), "and none waits in the worker")
		time.Sleep(10 * time.Millisecond)
		ls.leave(a, outcome{effect: showsCapacity, began: began})
		require.Equal(t, 2, placesOf(enterAll(ls, a, 4)), "one answer, and the limit grows again")
	})
}

func TestLanes_TheLimitFallsAtOnceAndOnlyOnceForAttemptsThatWereUnderWay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, began := newLaneLimit(4, 100), time.Now()
		l.size = 40
		time.Sleep(time.Second)
		for range 40 {
			l.learn(showsOverload, began, time.Now(), usedInFull)
		}
		require.Equal(t, 20, l.now())
		later := time.Now().Add(time.Millisecond)
		l.learn(showsOverload, later, later, usedInFull)
		require.Equal(t, 10, l.now())
		l.learn(showsHang, later, later.Add(10*time.Second), usedInFull)
		require.Equal(t, 1, l.now())
	})
}

func TestEffect_OfAnAttempt(t *testing.T) {
	t.Parallel()
	for status, want := range map[int]effect{
		200: showsCapacity, 302: showsCapacity, 404: showsCapacity, 410: showsCapacity, 500: showsCapacity,
		429: showsOverload, 502: showsOverload, 503: showsOverload, 504: showsOverload,
	} {
		require.Equal(t, want, effectOf(webhook.Attempt{StatusCode: status}), status)
	}
	for kind, want := range map[webhook.ErrorKind]effect{
		webhook.ErrorTimeout: showsHang, webhook.ErrorConnect: showsOverload, webhook.ErrorDNS: showsNothing,
		webhook.ErrorTLS: showsNothing, webhook.ErrorBlockedAddress: showsNothing, webhook.ErrorInternal: showsNothing,
	} {
		require.Equal(t, want, effectOf(webhook.Attempt{ErrorKind: kind}), kind)
	}
}

// TestLanes_AReceiverThatAsksForAPauseGetsIt: no attempt begins earlier, a minute at most.
func TestLanes_AReceiverThatAsksForAPauseGetsIt(t *testing.T) {
	t.Parallel()
	for asked, lasts := range map[time.Duration]time.Duration{
		time.Second: time.Second, 20 * time.Second: 20 * time.Second, time.Hour: time.Minute,
	} {
		synctest.Test(t, func(t *testing.T) {
			ls, a := newLanes(firstLimit, 64, Slots), visit{lane: "a", merchant: "m"}
			require.Zero(t, ls.enter(t.Context(), a))
			ls.leave(a, outcome{effect: showsOverload, began: time.Now(), pause: asked})
			began, l := time.Now(), &load{}
			var all sync.WaitGroup
			for range 10 {
				all.Go(func() { l.send(ls, a, &shop{takes: time.Second}) })
			}
			all.Wait()
			require.GreaterOrEqual(t, slices.Min(l.lags), lasts)
			require.Less(t, time.Since(began), lasts+10*time.Second)
			require.LessOrEqual(t, l.tries, 20)
		})
	}
}

func TestLanes_WhoeverBecameDueFirstGoesFirst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ls, a := newLanes(1, 1, Slots), visit{lane: "a", merchant: "m"}
		require.Zero(t, ls.enter(t.Context(), a))
		due := time.Now()
		time.Sleep(time.Second)
		var went []string
		for name, v := range map[string]visit{
			"late": a, "early": {lane: "a", merchant: "m", due: due.Add(-time.Minute)}, "middle": {lane: "a", merchant: "m", due: due},
		} {
			go func() {
				if ls.enter(t.Context(), v).wait == 0 {
					went = append(went, name)
				}
			}()
		}
		for range 3 {
			synctest.Wait()
			ls.leave(a, outcome{effect: showsCapacity, began: time.Now()})
			time.Sleep(200 * time.Millisecond)
		}
		synctest.Wait()
		require.Equal(t, []string{"early", "middle", "late"}, went)
	})
}

// TestLanes_OneMerchantLeavesSlotsToOthers: its many slow endpoints get half of the slots at most.
func TestLanes_OneMerchantLeavesSlotsToOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ls := newLanes(firstLimit, 100, 100)
		fill := func(merchant string) (n int) {
			for i := range 1000 {
				n += placesOf([]admission{ls.enter(t.Context(), visit{lane: fmt.Sprint(merchant, i), merchant: merchant})})
			}
			return n
		}
		require.Equal(t, 50, fill("mer_1"))
		require.Equal(t, 25, fill("mer_2"))
		require.Zero(t, ls.enter(t.Context(), visit{lane: "healthy", merchant: "mer_3"}))
		got := ls.enter(t.Context(), visit{lane: "another", merchant: "mer_1"})
		require.Equal(t, time.Second, got.wait)
	})
}

func TestLanes_ABacklogOfAnEndpointThatHangsComesBackWithinHalfAnHour(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ls, a := newLanes(firstLimit, 64, Slots), visit{lane: "a", merchant: "m"}
		require.Zero(t, ls.enter(t.Context(), a))
		began := time.Now()
		time.Sleep(10 * time.Second)
		ls.leave(a, outcome{effect: showsHang, began: began})
		require.Zero(t, ls.enter(t.Context(), a))
		var last admission
		for range 50_000 {
			last = ls.enter(t.Context(), a)
		}
		require.Equal(t, longestWait, last.wait)
	})
}

func TestLanes_ForgetAnEndpointThatNobodyComesTo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ls := newLanes(firstLimit, 64, Slots)
		for i := range 1000 {
			v := visit{lane: fmt.Sprint(i), merchant: "m"}
			require.Zero(t, ls.enter(t.Context(), v))
			ls.leave(v, outcome{effect: showsHang, began: time.Now()})
		}
		require.Zero(t, ls.enter(t.Context(), visit{lane: "under way", merchant: "m"}))
		time.Sleep(longestWait + time.Second)
		require.Zero(t, ls.enter(t.Context(), visit{lane: "another", merchant: "m"}))
		require.Len(t, ls.byName, 2)
	})
}

func TestLanes_RememberNothingOfAHealthyEndpoint(t *testing.T) {
	t.Parallel()
	ls, a := newLanes(firstLimit, 64, Slots), visit{lane: "a", merchant: "m"}
	require.Zero(t, ls.enter(t.Context(), a))
	ls.leave(a, outcome{effect: showsCapacity, began: time.Now()})
	require.Empty(t, ls.byName)
	require.Empty(t, ls.taken)
}

func TestLane_OfSessionsOwnURLsIsTheMerchantsHost(t *testing.T) {
	t.Parallel()
	of := func(merchant, endpoint, host string) string {
		owner := checkout.Owner{MerchantID: merchant, Mode: checkout.ModeTest}
		return SendAttemptInput{DeliveryInput: DeliveryInput{Ref: owner.Ref("whd_1")}, EndpointID: endpoint, Host: host}.lane()
	}
	require.NotEqual(t, of("mer_1", "wh_1", "a.example"), of("mer_1", "wh_2", "a.example"), "a registration has a lane of its own")
	require.NotEqual(t, of("mer_1", "", "a.example"), of("mer_2", "", "a.example"))
	require.NotEqual(t, of("mer_1", "", "a.example"), of("mer_1", "", "b.example"))
}

// TestLanes_TurnsOfAnEndpointThatHungHoldBackNothingOnceItAnswers: they were as far apart as its time-outs.
func TestLanes_TurnsOfAnEndpointThatHungHoldBackNothingOnceItAnswers(t *testing.T) {
	t.Parallel()
	for name, first := range map[string]effect{"it answers": showsCapacity, "it refuses, then answers": showsOverload} {
		inBubble(t, name, func(t *testing.T) {
			ls, a := newLanes(firstLimit, 64, Slots), visit{lane: "a", merchant: "m"}
			attempt := func(shown effect, takes time.Duration) {
				require.Zero(t, ls.enter(t.Context(), a))
				began := time.Now()
				time.Sleep(takes)
				ls.leave(a, outcome{effect: shown, began: began})
			}
			attempt(showsHang, 10*time.Second)
			require.Zero(t, ls.enter(t.Context(), a))
			for range 5000 {
				ls.enter(t.Context(), a)
			}
			ls.leave(a, outcome{})
			attempt(first, 50*time.Millisecond)
			attempt(showsCapacity, 50*time.Millisecond)
			turns := enterAll(ls, a, 3)
			require.Equal(t, 50*time.Millisecond, ls.byName["a"].limit.pace())
			for _, got := range turns {
				require.LessOrEqual(t, got.wait, 2*time.Second)
			}
		})
	}
}

// TestLanes_TheLimitDoesNotGrowBehindTheMerchantsBound: the endpoint has never had more attempts at once.
func TestLanes_TheLimitDoesNotGrowBehindTheMerchantsBound(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ls, a := newLanes(firstLimit, 64, Slots), visit{lane: "a", merchant: "m"}
		require.Zero(t, ls.enter(t.Context(), a))
		ls.bound(a, laneBounds{maxInFlight: 1})
		ls.leave(a, outcome{})
		sendAt(ls, &shop{takes: 100 * time.Millisecond}, 20, 200)
		require.Equal(t, 4, ls.byName["a"].limit.now())
	})
}

// TestLanes_OneAttemptAtATimeBeginsAtARegistrationWithBounds: each locks its row.
func TestLanes_OneAttemptAtATimeBeginsAtARegistrationWithBounds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ls, a := newLanes(firstLimit, 64, Slots), visit{lane: "a", merchant: "m"}
		require.Equal(t, 2, placesOf(enterAll(ls, a, 2)))
		ls.begin(t.Context(), a)()
		ls.bound(a, laneBounds{maxInFlight: 4})
		begun := ls.begin(t.Context(), a)
		second := make(chan struct{})
		go func() { ls.begin(t.Context(), a)(); close(second) }()
		synctest.Wait()
		select {
		case <-second:
			t.Fatal("it did not wait")
		default:
		}
		begun()
		<-second

		defer ls.begin(t.Context(), a)()
		ended, end := context.WithTimeout(t.Context(), time.Second)
		defer end()
		ls.begin(ended, a)() // does not wait for ever
	})
}
