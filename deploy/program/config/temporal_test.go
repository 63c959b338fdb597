package config_test

import (
	"crypto/x509"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"

	"example.com/checkout/deploy/program/config"
	"example.com/checkout/deploy/proof/e2e/authority"
)

func TestTemporal_NamesEveryWrongSetting(t *testing.T) {
	t.Parallel()
	a := authority.New(t)
	certificate, key := issue(t, a, "worker")
	_, other := issue(t, a, "other")
	empty := filepath.Join(t.TempDir(), "empty")
	require.NoError(t, os.WriteFile(empty, nil, 0o600))
	for _, c := range []struct{ setting, want string }{
		{"TEMPORAL_ADDRESS=nowhere", "TEMPORAL_ADDRESS must be host:port"},
		{"TEMPORAL_TLS=maybe", "TEMPORAL_TLS must be a bool"},
		{"TEMPORAL_TLS_CLIENT_KEY_PATH=" + key, "TEMPORAL_TLS_CLIENT_CERT_PATH is required with TEMPORAL_TLS_CLIENT_KEY_PATH"},
		{"TEMPORAL_TLS_CLIENT_CERT_PATH=" + certificate, "TEMPORAL_TLS_CLIENT_KEY_PATH is required with TEMPORAL_TLS_CLIENT_CERT_PATH"},
		{"TEMPORAL_TLS_SERVER_CA_CERT_PATH=/nowhere", "TEMPORAL_TLS_SERVER_CA_CERT_PATH names a file that cannot be read"},
		{"TEMPORAL_TLS_SERVER_CA_CERT_PATH=" + empty, "TEMPORAL_TLS_SERVER_CA_CERT_PATH names a file without a certificate"},
		{"TEMPORAL_API_KEY_FILE=/nowhere", "TEMPORAL_API_KEY_FILE names a file that cannot be read"},
	} {
		_, err := config.LoadTemporal([]string{c.setting})
		require.EqualError(t, err, c.want)
	}
	_, err := config.LoadTemporal([]string{
		"TEMPORAL_TLS_CLIENT_CERT_PATH=" + certificate, "TEMPORAL_TLS_CLIENT_KEY_PATH=" + other,
	})
	require.EqualError(t, err,
		"TEMPORAL_TLS_CLIENT_CERT_PATH and TEMPORAL_TLS_CLIENT_KEY_PATH must name a certificate and its key")
}

func TestTemporal_WithoutSettingsIsNotSecured(t *testing.T) {
	t.Parallel()
	plain, err := config.LoadTemporal(nil)
	require.NoError(t, err)
	options, err := plain.Options()
	require.NoError(t, err)
	require.Nil(t, options.ConnectionOptions.TLS)
	require.Nil(t, options.Credentials)
	hosted, err := config.LoadTemporal([]string{"TEMPORAL_API_KEY=k"})
	require.NoError(t, err)
	options, err = hosted.Options()
	require.NoError(t, err)
	require.NotNil(t, options.ConnectionOptions.TLS, "a key never travels in plain text")
}

// TestTemporal_TakesRenewedSecretsWithoutARestart: TLS asks for the certificate at each connection, and the client for
// the key at each call. deploy/proof/e2e/apart renews a certificate under a running worker.
func TestTemporal_TakesRenewedSecretsWithoutARestart(t *testing.T) {
	t.Parallel()
	a := authority.New(t)
	certificate, key := issue(t, a, "first")
	apiKey := filepath.Join(t.TempDir(), "key")
	settings, options := config.Temporal{}, client.Options{}
	current := func() (name, apiKey string) {
		got, err := options.ConnectionOptions.TLS.GetClientCertificate(nil)
		require.NoError(t, err)
		leaf, err := x509.ParseCertificate(got.Certificate[0])
		require.NoError(t, err)
		apiKey, err = config.APIKey(settings)
		require.NoError(t, err)
		return leaf.Subject.CommonName, apiKey
	}
	require.NoError(t, os.WriteFile(apiKey, []byte("key-1\n"), 0o600))
	settings, err := config.LoadTemporal([]string{
		"TEMPORAL_API_KEY_FILE=" + apiKey, "TEMPORAL_TLS_CLIENT_CERT_PATH=" + certificate, "TEMPORAL_TLS_CLIENT_KEY_PATH=" + key,
	})
	require.NoError(t, err)
	options, err = settings.Options()
	require.NoError(t, err)
	name, secret := current()
	require.Equal(t, []string{"first", "key-1"}, []string{name, secret})

	newCertificate, newKey := issue(t, a, "second")
	require.NoError(t, os.Rename(newCertificate, certificate))
	require.NoError(t, os.Rename(newKey, key))
	require.NoError(t, os.WriteFile(apiKey, []byte("key-2"), 0o600))
	name, secret = current()
	require.Equal(t, []string{"second", "key-2"}, []string{name, secret})
}

func issue(t *testing.T, a *authority.Authority, name string) (certificate, key string) {
	dir := a.Issue(t, name, time.Hour)
	return filepath.Join(dir, authority.CertificateFile), filepath.Join(dir, authority.KeyFile)
}
