package service

import (
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/checkout/api"
	"example.com/checkout/deploy/program/config"
	"example.com/checkout/storage"
	"example.com/checkout/storage/pg"
)

func TestLimits_Are25InTestAnd100InLiveMode(t *testing.T) {
	t.Parallel()
	cfg, err := config.Load([]string{"DATABASE_URL=postgres:///db", "CHECKOUT_MASTER_KEYS=" + pg.NewMasterKey("k1")})
	require.NoError(t, err)
	rates := storage.Rates{Test: storage.Rate{PerSecond: 25, Burst: 25}, Live: storage.Rate{PerSecond: 100, Burst: 100}}
	require.Equal(t, api.Limits{
		Reads: rates, Writes: rates, BadKeys: storage.Rate{PerSecond: 1, Burst: 100}, Verify: storage.Rate{PerSecond: 2.5, Burst: 25},
	}, limits(cfg))
}
