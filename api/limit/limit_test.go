package limit

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
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

func TestGate_RefusesSoonWhenTooManyWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(1, 1)
		leave, err := g.Enter(t.Context())
		require.NoError(t, err)
		second := make(chan func())
		go func() {
			leave, _ := g.Enter(t.Context())
			second <- leave
		}()
		synctest.Wait()
		began := time.Now()
		_, err = g.Enter(t.Context())
		require.ErrorIs(t, err, ErrBusy)
		require.Equal(t, busyAfter, time.Since(began))
		leave()
		(<-second)()
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		_, err = g.Enter(gone)
		require.ErrorIs(t, err, context.Canceled)
		leave, err = g.Enter(t.Context())
		require.NoError(t, err, "who gave up took no place")
		leave()
	})
}

func TestGate_RestsAsLongAsItWorked(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(1, 1)
		began := time.Now()
		for range 3 {
			leave, err := g.Enter(t.Context())
			require.NoError(t, err)
			time.Sleep(30 * time.Millisecond)
			leave()
		}
		require.Equal(t, (30+30+30+30+30)*time.Millisecond, time.Since(began))
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
		require.Equal(t, patience, time.Since(began))
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
