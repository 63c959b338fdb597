package config_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/checkout/deploy/program/config"
	"example.com/checkout/storage/pg"
)

// file writes a file and returns its path.
func file(t *testing.T, content string) string {
	path := filepath.Join(t.TempDir(), "setting")
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

func TestLoad_TakesValuesFromFiles(t *testing.T) {
	t.Parallel()
	c, err := config.Load([]string{
		"DATABASE_URL_FILE=" + file(t, "postgres://u:p@127.0.0.1/files\n"),
		"CHECKOUT_MASTER_KEYS_FILE=" + file(t, pg.NewMasterKey("k1")+"\r\n"),
		"CHECKOUT_TEST_STRIPE_SECRET_KEY_FILE=" + file(t, "rk_test_1"), "CHECKOUT_TEST_CARDS_FILE=" + file(t, "stripe"),
		"CHECKOUT_DATABASE_MAX_CONNS_FILE=" + file(t, "7\n"), "TEMPORAL_NAMESPACE_FILE=" + file(t, "prod.a1b2c\n"),
		"CHECKOUT_PAGE_URL_FILE=", "CHECKOUT_LOG_LEVEL=",
	})
	require.NoError(t, err)
	require.Equal(t, "postgres://u:p@127.0.0.1/files", c.DatabaseURL)
	require.Equal(t, "rk_test_1", c.Test.StripeSecretKey)
	require.True(t, c.Test.Cards)
	require.EqualValues(t, 7, c.DatabaseMaxConns)
	require.Equal(t, "prod.a1b2c", c.Temporal.Namespace)
	require.Equal(t, "http://127.0.0.1:8081", c.PageURL, "an empty name of a file is none")
}

func TestLoad_SaysWhatIsWrongWithAFileAndNeverItsContent(t *testing.T) {
	t.Parallel()
	canary := file(t, "canary")
	for _, c := range []struct{ setting, want string }{
		{"DATABASE_URL_FILE=" + canary, "DATABASE_URL_FILE and DATABASE_URL must not both be set"},
		{"CHECKOUT_LOG_LEVEL_FILE=" + canary, "CHECKOUT_LOG_LEVEL must be debug, info, warn or error"},
		{"CHECKOUT_API_ADDRESS_FILE=/nowhere/x", "CHECKOUT_API_ADDRESS_FILE names /nowhere/x, which cannot be read: no such file or directory"},
		{"CHECKOUT_PAGE_URL_FILE=canary", "CHECKOUT_PAGE_URL_FILE must be the absolute path of a file"},
		{"TEMPORAL_TLS_CLIENT_CERT_PATH_FILE=" + canary, "TEMPORAL_TLS_CLIENT_CERT_PATH_FILE is not a setting; did you mean TEMPORAL_TLS_CLIENT_CERT_PATH?"},
		{"CHECKOUT_ETHEREUM_KEYSTORE_FILE=" + canary, "CHECKOUT_ETHEREUM_KEYSTORE_FILE is not a setting; did you mean CHECKOUT_ETHEREUM_KEYSTORE?"},
	} {
		_, err := config.Load(good(c.setting))
		require.EqualError(t, err, c.want)
	}
	_, err := config.Load([]string{"DATABASE_URL_FILE=/nowhere/x", "CHECKOUT_MASTER_KEYS_FILE=" + canary})
	require.ErrorContains(t, err, "DATABASE_URL_FILE names /nowhere/x, which cannot be read")
	require.ErrorContains(t, err, "CHECKOUT_MASTER_KEYS must be")
	require.Equal(t, 1, strings.Count(err.Error(), "DATABASE_URL"), "one fault is named once")
	require.NotContains(t, err.Error(), "canary")
	_, err = config.LoadTemporal([]string{"TEMPORAL_API_KEY_FILE=" + canary, "TEMPORAL_API_KEY=canary"})
	require.EqualError(t, err, "TEMPORAL_API_KEY_FILE and TEMPORAL_API_KEY must not both be set")
}

// TestLoad_RefusesNamesThatAreNoSettings: every command knows the settings of all others, and no name
// that is near to one of them.
func TestLoad_RefusesNamesThatAreNoSettings(t *testing.T) {
	t.Parallel()
	load := map[string]func([]string) error{
		"Load":         func(e []string) error { _, err := config.Load(append(good(), e...)); return err },
		"LoadSetup":    func(e []string) error { _, err := config.LoadSetup(append(good(), e...)); return err },
		"LoadStores":   func(e []string) error { _, err := config.LoadStores(append(good(), e...)); return err },
		"LoadTemporal": func(e []string) error { _, err := config.LoadTemporal(append(good(), e...)); return err },
	}
	_, err := config.LoadClient([]string{"CHECKOUT_BUTTON_COLOR=red", "CHECKOUT_API_KEY=sk_test_1"})
	require.NoError(t, err, "a shop's own settings")
	const tools = " is a setting of Temporal's tools; checkout does not read it"
	for _, c := range []struct{ setting, want string }{
		{"CHECKOUT_API_ADDREZZ=canary", "CHECKOUT_API_ADDREZZ is not a setting; did you mean CHECKOUT_API_ADDRESS?"},
		{"CHECKOUT_MASTER_KEY=canary", "CHECKOUT_MASTER_KEY is not a setting; did you mean CHECKOUT_MASTER_KEYS?"},
		{"CHECKOUT_MASTER_KEY_FILE=canary", "CHECKOUT_MASTER_KEY_FILE is not a setting; did you mean CHECKOUT_MASTER_KEYS_FILE?"},
		{"CHECKOUT_TEST_STRIPE_SECRETKEY=canary", "CHECKOUT_TEST_STRIPE_SECRETKEY is not a setting; did you mean CHECKOUT_TEST_STRIPE_SECRET_KEY?"},
		{"CHECKOUT_NONSENSE=canary", "CHECKOUT_NONSENSE is not a setting"},
		{"CHECKOUT_API_PORT=8080", "CHECKOUT_API_PORT is not a setting"},
		{"TEMPORAL_ADDREZZ=canary", "TEMPORAL_ADDREZZ is not a setting; did you mean TEMPORAL_ADDRESS?"},
		{"TEMPORAL_TLS_CA=canary", "TEMPORAL_TLS_CA is not a setting"},
		{"TEMPORAL_TLS_TRUSTED_ROOTS=canary", "TEMPORAL_TLS_TRUSTED_ROOTS is not a setting"},
		{"TEMPORAL_PROFILE=canary", "TEMPORAL_PROFILE" + tools},
		{"TEMPORAL_TLS_CLIENT_KEY_DATA=canary", "TEMPORAL_TLS_CLIENT_KEY_DATA" + tools + "; use TEMPORAL_TLS_CLIENT_KEY_PATH"},
		{"TEMPORAL_GRPC_META_AUTHORIZATION=canary", "TEMPORAL_GRPC_META_AUTHORIZATION" + tools},
	} {
		for name, load := range load {
			err := load([]string{c.setting})
			require.ErrorContains(t, err, c.want, name)
			require.NotContains(t, err.Error(), "canary", name)
		}
	}
	for name, load := range load {
		require.NoError(t, load([]string{
			"CHECKOUT_API_KEY=sk_test_1", "CHECKOUT_RECONCILE_INTERVAL=1m", "CHECKOUT_TEST_MAX_PAYOUT=25", "TEMPORAL_DEBUG=1",
			"TEMPORAL_WORKFLOW_TASK_DURATION_WARN_SECONDS=20", "TEMPORAL_UI_PORT=8233", "DATABASE_URI=x", "CHECKOUTS=x",
			// What Kubernetes sets for the services checkout-api and temporal-frontend.
			"CHECKOUT_API_SERVICE_HOST=10.0.0.1", "CHECKOUT_API_SERVICE_PORT=80", "CHECKOUT_API_SERVICE_PORT_HTTP=80",
			"CHECKOUT_API_PORT=tcp://10.0.0.1:80", "CHECKOUT_API_PORT_80_TCP=tcp://10.0.0.1:80", "CHECKOUT_API_PORT_80_TCP_PROTO=tcp",
			"TEMPORAL_FRONTEND_PORT=tcp://10.0.0.1:7233", "TEMPORAL_FRONTEND_PORT_7233_TCP_ADDR=10.0.0.1",
		}), name)
	}
}

func TestLoad_NamesTheSettingThatAnOldNameMeans(t *testing.T) {
	t.Parallel()
	for _, old := range []string{"CHECKOUT_BUILD_ID=b1", "CHECKOUT_BUILD_ID="} {
		_, err := config.Load(good(old))
		require.EqualError(t, err, "CHECKOUT_BUILD_ID is now called TEMPORAL_WORKER_BUILD_ID")
	}
	_, err := config.LoadSetup([]string{"DATABASE_URL=postgres://db/checkout", "CHECKOUT_BUILD_ID=b1"})
	require.EqualError(t, err, "CHECKOUT_BUILD_ID is now called TEMPORAL_WORKER_BUILD_ID")
}

func TestLoad_ChecksTheNamesOfDeploymentAndBuild(t *testing.T) {
	t.Parallel()
	c, err := config.Load(good("TEMPORAL_DEPLOYMENT_NAME=shop/checkout-worker"))
	require.NoError(t, err)
	require.Equal(t, "shop/checkout-worker", c.Temporal.DeploymentName)
}
