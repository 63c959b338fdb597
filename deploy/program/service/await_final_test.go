package service

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/checkout/activities/jsonrpc"
	"example.com/checkout/storage"
)

// block25 is not final until the fourth try. At the third one the node is away.
func block25(try int) error {
	switch {
	case try == 3:
		return fmt.Errorf("read the account: %w", jsonrpc.ErrNotReady)
	case try > 3:
		return nil
	}
	left := time.Duration(4-try) * 12400 * time.Millisecond
	return storage.NotFinalError{What: "the ledger knows block 25, which", Final: uint64(20 + try), Left: left}
}

func TestAwaitFinal_SaysForWhatAndHowLong(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var said []string
		tries := 0
		err := awaitFinal(t.Context(), 2*time.Hour, func(progress string) { said = append(said, progress) }, func() error {
			tries++
			return block25((tries + 1) / 2) // two tries for each final block
		})
		require.NoError(t, err)
		require.Equal(t, []string{
			"waiting about 37s (2h0m0s at most): the ledger knows block 25, which is not final yet; the last final block is 21",
			"waiting about 25s: the ledger knows block 25, which is not final yet; the last final block is 22",
			"waiting: read the account: the node is not ready",
		}, said)
	})
}

func TestAwaitFinal_EndsWithTheLimitAndWithTheProcess(t *testing.T) {
	t.Parallel()
	const state = "(last answer: the ledger knows block 25, which is not final yet; the last final block is 21)"
	for name, c := range map[string]struct {
		patience time.Duration
		stopped  bool
		said     int
		want     string
	}{
		"the limit ends": {5 * time.Minute, false, 1, "not final after 5m0s " + state},
		"no wait":        {0, false, 0, "not final after 0s " + state},
		"Ctrl-C":         {time.Hour, true, 1, "interrupt signal received " + state},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, stop := context.WithCancelCause(t.Context())
				said := 0
				err := awaitFinal(ctx, c.patience, func(string) { said++ }, func() error {
					if c.stopped && said > 0 {
						stop(errors.New("interrupt signal received"))
					}
					return block25(1)
				})
				require.EqualError(t, err, c.want)
				require.Equal(t, !c.stopped, errors.Is(err, ErrNotFinal))
				require.Equal(t, c.said, said)
			})
		})
	}
}

func TestAwaitFinal_WaitsForNothingElse(t *testing.T) {
	t.Parallel()
	tries := 0
	err := awaitFinal(t.Context(), time.Hour, func(string) { t.Error("it waits") }, func() error {
		tries++
		return storage.ErrBehind
	})
	require.ErrorIs(t, err, storage.ErrBehind)
	require.Equal(t, 1, tries)
}
