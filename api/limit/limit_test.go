package limit

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/semaphore"

	"example.com/checkout/api/web"
)

func TestAddress(t *testing.T) {
	t.Parallel()
	for remote, want := range map[string]string{
		"192.0.2.1:80":               "192.0.2.1",
		"[::ffff:192.0.2.1]:80":      "192.0.2.1",
		"[2001:db8:1:2:3:4:5:6]:80":  "2001:db8:1:2::/64",
		"[2001:db8:1:2:ffff::1]:443": "2001:db8:1:2::/64",
		"[fe80::1%eth0]:80":          "fe80::/64",
		"pipe":                       "pipe",
	} {
		require.Equal(t, want, Address(&http.Request{RemoteAddr: remote}), remote)
	}
}

// newGate has a processor of its own.
func newGate(atOnce, waiting int) *Gate {
	g := NewGate(atOnce, waiting)
	g.processors = semaphore.NewWeighted(1)
	return g
}

func TestGate_RefusesSoonWhenTooManyWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGate(1, 1)
		leave, err := g.enter(t.Context())
		require.NoError(t, err)
		second := make(chan func())
		go func() {
			leave, _ := g.enter(t.Context())
			second <- leave
		}()
		synctest.Wait()
		began := time.Now()
		require.ErrorIs(t, g.Do(t.Context(), func() { t.Error("done all the same") }), ErrBusy)
		require.InDelta(t, busyAfter, time.Since(began), float64(busyAfter)/2)
		leave()
		(<-second)()
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		_, err = g.enter(gone)
		require.ErrorIs(t, err, context.Canceled)
		require.NoError(t, g.Do(t.Context(), func() {}), "who gave up took no place")
	})
}

func TestGate_RestsAsLongAsItWorked(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGate(1, 1)
		began := time.Now()
		for range 3 {
			require.NoError(t, g.Do(t.Context(), func() { time.Sleep(30 * time.Millisecond) }))
		}
		require.Equal(t, (30+30+30+30+30)*time.Millisecond, time.Since(began))
	})
}

// TestGate_TwoKindsShareAProcessor checks that two gates take turns, and that a caller who waits at
// one gate takes no place of the other.
func TestGate_TwoKindsShareAProcessor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		one, other := newGate(1, 4), newGate(1, 4)
		other.processors = one.processors
		var (
			turns []string
			all   sync.WaitGroup
		)
		for _, g := range []struct {
			name string
			*Gate
		}{{"one", one}, {"one", one}, {"one", one}, {"other", other}} {
			all.Go(func() {
				_ = g.Do(t.Context(), func() {
					turns = append(turns, g.name)
					time.Sleep(10 * time.Millisecond)
				})
			})
			synctest.Wait()
		}
		all.Wait()
		require.Equal(t, []string{"one", "other", "one", "one"}, turns)
	})
}

func decodeAnImpossiblePicture() { panic(errors.New("canary card 4242424242424242")) }

func TestGate_APanicIsTheCallers(t *testing.T) {
	t.Parallel()
	g := newGate(1, 1)
	err := func() (err error) {
		defer web.Catch(&err)
		return g.Do(t.Context(), decodeAnImpossiblePicture)
	}()
	var p *web.Panic
	require.ErrorAs(t, err, &p)
	require.Contains(t, p.Stack, "decodeAnImpossiblePicture", "the stack of the work")
	require.Contains(t, p.Stack, "TestGate_APanicIsTheCallers", "and the stack of its caller")
	for _, text := range []string{p.Error(), p.Stack} {
		require.NotContains(t, text, "canary", "the value may quote a card")
	}
	require.NoError(t, g.Do(t.Context(), func() {}), "its turn has ended")
}

// TestRefusals_OfACrowdComeOneAfterTheOther checks that refusals are spread over time, so that the
// clients do not come again all at once.
func TestRefusals_OfACrowdComeOneAfterTheOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g, s := newGate(1, 0), NewShares(1)
		leave, err := g.enter(t.Context())
		require.NoError(t, err)
		turn, err := s.Enter(t.Context(), "a")
		require.NoError(t, err)
		for _, enter := range []func() error{
			func() error { _, err := g.enter(t.Context()); return err },
			func() error { _, err := s.Enter(t.Context(), "a"); return err },
		} {
			refused := make(chan time.Time, 100)
			var all sync.WaitGroup
			for range cap(refused) {
				all.Go(func() {
					if errors.Is(enter(), ErrBusy) {
						refused <- time.Now()
					}
				})
			}
			all.Wait()
			close(refused)
			at := map[time.Time]bool{}
			for when := range refused {
				at[when.Truncate(10*time.Millisecond)] = true
			}
			require.Greater(t, len(at), 30, "100 who came at the same time")
		}
		turn.Leave(false)
		leave()
	})
}

func TestShares_OneOwnerNeverTakesAnothersTurn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := NewShares(2)
		first, err := s.Enter(t.Context(), "a")
		require.NoError(t, err)
		_, err = s.Enter(t.Context(), "a")
		require.NoError(t, err)
		began := time.Now()
		_, err = s.Enter(t.Context(), "a")
		require.ErrorIs(t, err, ErrBusy)
		require.InDelta(t, patience, time.Since(began), float64(patience)/2)
		began = time.Now()
		other, err := s.Enter(t.Context(), "b")
		require.NoError(t, err)
		require.Zero(t, time.Since(began))
		other.Leave(false)
		first.Leave(false)
		_, err = s.Enter(t.Context(), "a")
		require.NoError(t, err)
		require.Len(t, s.owners, 1, "who has nothing here is forgotten")
	})
}

func TestShares_ARefusalKeepsItsPlaceForAMomentWhenOthersWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := NewShares(1)
		turn, err := s.Enter(t.Context(), "a")
		require.NoError(t, err)
		turn.Leave(true)
		began := time.Now()
		turn, err = s.Enter(t.Context(), "a")
		require.NoError(t, err)
		require.Zero(t, time.Since(began), "nobody waited")
		waited := make(chan time.Duration)
		go func() {
			turn, err := s.Enter(t.Context(), "a")
			if err == nil {
				turn.Leave(false)
			}
			waited <- time.Since(began)
		}()
		synctest.Wait()
		turn.Leave(true)
		require.Equal(t, penalty, <-waited)
	})
}
