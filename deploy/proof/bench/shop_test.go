package main

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestShop_CountsWhatDidNotArrive(t *testing.T) {
	t.Parallel()
	s := openShop(time.Millisecond)
	defer s.Close()
	ids := []string{"whd_1", "whd_2", "whd_3", "whd_1"}
	publish := func(ctx context.Context, i int) (string, error) {
		if ids[i] == "whd_2" {
			return ids[i], nil // it gets lost
		}
		return ids[i], post(ctx, &http.Transport{DisableKeepAlives: true}, s.URL, ids[i])
	}
	got, err := s.measure(t.Context(), stream{name: "some", count: 4}, 20*time.Millisecond, publish)
	require.NoError(t, err)
	require.Equal(t, ids, got.ids)
	require.Equal(t, 1, got.missed)
	require.Len(t, got.lags, 4)
	require.GreaterOrEqual(t, got.lags[1], 20*time.Millisecond, "what is missed counts until the end of the wait")
	require.Equal(t, 3, s.requests)
	require.Zero(t, s.open)
}
