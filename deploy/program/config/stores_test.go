package config_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/checkout/deploy/program/config"
	"example.com/checkout/workflows/checkout"
)

func TestLoadStores_NeedsTheDatabaseOnly(t *testing.T) {
	t.Parallel()
	s, err := config.LoadStores([]string{"DATABASE_URL=postgres://u:p@127.0.0.1:5432/db"})
	require.NoError(t, err)
	require.Equal(t, "127.0.0.1:7233", s.Temporal.Address)
	require.Equal(t, 720*time.Hour, s.Schedules.DeliveryRetention)
	s, err = config.LoadStores(good("CHECKOUT_DASHBOARD_URL=https://dashboard.example/"))
	require.NoError(t, err, "the API takes it too")
	require.Equal(t, "https://dashboard.example", s.DashboardURL)
	_, err = config.LoadStores([]string{"TEMPORAL_ADDRESS=nowhere", "CHECKOUT_DELIVERY_RETENTION=x"})
	require.EqualError(t, err, "CHECKOUT_DELIVERY_RETENTION must be a time.Duration\nDATABASE_URL is not set\nTEMPORAL_ADDRESS must be host:port")
}

func TestStores_KnowTheSamePayoutAddressRules(t *testing.T) {
	t.Parallel()
	file := file(t, "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed\n")
	for _, environment := range [][]string{
		nil,
		{"CHECKOUT_SANCTIONS_FILE=" + file, "CHECKOUT_TEST_SANCTIONS_FILE=" + file},
		{"CHECKOUT_ETHEREUM_TREASURY=0xa", "CHECKOUT_ETHEREUM_USDC=0xb", "CHECKOUT_ETHEREUM_USDT=0xc"},
		{"CHECKOUT_TEST_ETHEREUM_TREASURY=0xa", "CHECKOUT_TEST_ETHEREUM_USDC=0xb", "CHECKOUT_TEST_ETHEREUM_USDT=0xc"},
	} {
		s, err := config.LoadStores(append(environment, "DATABASE_URL=postgres://u:p@127.0.0.1:5432/db"))
		require.NoError(t, err)
		c, err := config.Load(good(environment...))
		require.NoError(t, err)
		for _, mode := range []checkout.Mode{checkout.ModeLive, checkout.ModeTest} {
			require.GreaterOrEqual(t, len(s.PayoutAddressRules().Reserved[mode]), 2)
		}
		require.Equal(t, c.PayoutAddressRules(), s.PayoutAddressRules())
	}
}
