package config_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/checkout/deploy/program/config"
	"example.com/checkout/storage/pg"
	"example.com/checkout/workflows/webhook"
)

func good(changes ...string) []string {
	return append([]string{"DATABASE_URL=postgres://u:p@127.0.0.1:5432/db", "CHECKOUT_MASTER_KEYS=" + pg.NewMasterKey("k1")}, changes...)
}

func TestLoad_AcceptsWhatIsNeededAndNoMore(t *testing.T) {
	t.Parallel()
	c, err := config.Load(good())
	require.NoError(t, err)
	require.Equal(t, "http://127.0.0.1:8081", c.PageURL)
	require.Nil(t, c.TestSchedule)
	for _, ok := range []string{
		"DATABASE_URL=postgresql:///db?host=/tmp", "CHECKOUT_PAGE_URL=https://pay.example/", "CHECKOUT_TEST_RETRY_SCHEDULE=1s,2s,3s,4s,5s",
		"CHECKOUT_LOG_LEVEL=DEBUG", "CHECKOUT_API_ADDRESS=:8080", "CHECKOUT_TEST_SESSION_LIFETIME=1m",
		"CHECKOUT_TRUSTED_PROXIES=10.0.0.0/8, 192.0.2.1,2001:db8::/32", "CHECKOUT_FORM_RATE_LIMIT=1", "CHECKOUT_DASHBOARD_RATE_LIMIT=5",
	} {
		_, err := config.Load(good(ok))
		require.NoError(t, err, ok)
	}
}

func TestLoad_NamesEverySettingThatIsWrong(t *testing.T) {
	t.Parallel()
	_, err := config.Load([]string{"CHECKOUT_LOG_LEVEL=loud", "CHECKOUT_PAGE_URL=x", "CHECKOUT_DATABASE_MAX_CONNS=many"})
	for _, name := range []string{"DATABASE_URL is not set", "CHECKOUT_MASTER_KEYS is not set", "CHECKOUT_LOG_LEVEL", "CHECKOUT_PAGE_URL", "CHECKOUT_DATABASE_MAX_CONNS"} {
		require.ErrorContains(t, err, name)
	}
}

func TestLoad_PgBouncerNeedsAWayPastIt(t *testing.T) {
	t.Parallel()
	const pooler, direct = "CHECKOUT_DATABASE_POOLER=", "CHECKOUT_DATABASE_DIRECT_URL="
	const url = direct + "postgres://u:p@127.0.0.1:5432/db"
	for want, settings := range map[string][]string{
		"CHECKOUT_DATABASE_DIRECT_URL is required with CHECKOUT_DATABASE_POOLER":    {pooler + "pgbouncer"},
		"CHECKOUT_DATABASE_POOLER is required with CHECKOUT_DATABASE_DIRECT_URL":    {url},
		"CHECKOUT_DATABASE_POOLER must be pgbouncer":                                {pooler + "pgpool", url},
		"CHECKOUT_DATABASE_DIRECT_URL must begin with postgres:// or postgresql://": {pooler + "pgbouncer", direct + "mysql://canary"},
	} {
		_, err := config.Load(good(settings...))
		require.EqualError(t, err, want)
	}
	_, err := config.Load(good(pooler+"pgbouncer", url))
	require.NoError(t, err)
}

func TestLoadSetup_NeedsNoKey(t *testing.T) {
	t.Parallel()
	_, err := config.LoadSetup([]string{"DATABASE_URL=postgres://u:p@127.0.0.1:5432/db"})
	require.NoError(t, err)
}

func TestRetention_OfSessionsOutlastsTheLog(t *testing.T) {
	t.Parallel()
	_, err := config.LoadSetup(good("CHECKOUT_SESSION_RETENTION=800h", "CHECKOUT_DELIVERY_RETENTION=801h"))
	require.ErrorContains(t, err, "CHECKOUT_SESSION_RETENTION must be at least CHECKOUT_DELIVERY_RETENTION, 801h0m0s: the log names sessions")
	kept, err := config.LoadSetup(good())
	require.NoError(t, err)
	require.Zero(t, kept.Schedules.SessionRetention, "without a setting nothing of the books is deleted")
	require.Zero(t, kept.Schedules.AuditRetention)
}

func TestRetention_OutlastsADelivery(t *testing.T) {
	t.Parallel()
	longest := time.Duration(0)
	for _, delay := range webhook.RetrySchedule {
		longest += delay + webhook.AttemptTimeout
	}
	_, err := config.LoadSetup(good("CHECKOUT_DELIVERY_RETENTION=" + longest.String()))
	require.ErrorContains(t, err, "CHECKOUT_DELIVERY_RETENTION", "the log of a delivery that is still under way")
}
