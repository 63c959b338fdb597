package config

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"time"

	"go.temporal.io/sdk/client"
)

// Temporal holds the settings of the connection to Temporal. The names are the standard ones of
// Temporal's tools. No file of theirs is read.
type Temporal struct {
	// Address of Temporal.
	Address string `env:"TEMPORAL_ADDRESS" envDefault:"127.0.0.1:7233"`
	// Temporal's namespace, of any name, whose retention is 7 days or more.
	Namespace string `env:"TEMPORAL_NAMESPACE" envDefault:"checkout"`
	// API key of a hosted Temporal. It switches TLS on.
	APIKey string `env:"TEMPORAL_API_KEY"`
	// File with the API key, instead of `TEMPORAL_API_KEY`. It is read for each call, so a new key needs
	// no restart.
	APIKeyFile string `env:"TEMPORAL_API_KEY_FILE"`
	// The connection uses TLS. A certificate or an API key also switches it on.
	TLS bool `env:"TEMPORAL_TLS"`
	// File with the client's certificate (PEM), for mTLS. It is read for each connection, so a renewed
	// certificate needs no restart.
	ClientCertPath string `env:"TEMPORAL_TLS_CLIENT_CERT_PATH"`
	// File with the key of the client's certificate (PEM).
	ClientKeyPath string `env:"TEMPORAL_TLS_CLIENT_KEY_PATH"`
	// File with the authorities that sign Temporal's certificate (PEM). Without it: those of the system.
	ServerCAPath string `env:"TEMPORAL_TLS_SERVER_CA_CERT_PATH"`
	// The name in Temporal's certificate, if it is not the address.
	ServerName string `env:"TEMPORAL_TLS_SERVER_NAME"`
	// The name of the workers' deployment in Temporal, whose versions are builds.
	DeploymentName string `env:"TEMPORAL_DEPLOYMENT_NAME" envDefault:"checkout"`
	// The name of a worker's code, for upgrades under load. Without it one build runs at a time.
	BuildID string `env:"TEMPORAL_WORKER_BUILD_ID"`
}

// The patterns of the two names exclude what Temporal does not take, and the characters that separate
// them from other words in its queries.
var (
	deploymentPattern = regexp.MustCompile(`^[A-Za-z0-9_/-]{1,100}$`)
	buildIDPattern    = regexp.MustCompile(`^[A-Za-z0-9._-]{1,100}$`)
)

// LoadTemporal reads environment as Load does, with errors in the same form.
func LoadTemporal(environment []string) (Temporal, error) {
	var t Temporal
	err := load(environment, &t, func(_ map[string]string, report func(string, error)) { t.check(report) })
	return t, err
}

// secured reports whether a setting requires TLS.
func (t Temporal) secured() bool {
	return t.TLS || t.APIKey+t.APIKeyFile+t.ClientCertPath+t.ServerCAPath+t.ServerName != ""
}

// check passes the faults of the settings to report, by name.
func (t Temporal) check(report func(name string, err error)) {
	report("TEMPORAL_ADDRESS", checkAddress(t.Address))
	if !deploymentPattern.MatchString(t.DeploymentName) {
		report("TEMPORAL_DEPLOYMENT_NAME", errors.New("must be 1 to 100 letters, digits and _/-"))
	}
	if t.BuildID != "" && !buildIDPattern.MatchString(t.BuildID) {
		report("TEMPORAL_WORKER_BUILD_ID", errors.New("must be 1 to 100 letters, digits and .-_"))
	}
	if t.APIKey != "" && t.APIKeyFile != "" {
		report("TEMPORAL_API_KEY_FILE", errors.New("and TEMPORAL_API_KEY must not both be set"))
	}
	switch {
	case t.ClientCertPath == "" && t.ClientKeyPath != "":
		report("TEMPORAL_TLS_CLIENT_CERT_PATH", errors.New("is required with TEMPORAL_TLS_CLIENT_KEY_PATH"))
	case t.ClientCertPath != "" && t.ClientKeyPath == "":
		report("TEMPORAL_TLS_CLIENT_KEY_PATH", errors.New("is required with TEMPORAL_TLS_CLIENT_CERT_PATH"))
	case t.ClientCertPath != "":
		if _, err := t.certificate(); err != nil {
			err = errors.New("and TEMPORAL_TLS_CLIENT_KEY_PATH must name a certificate and its key")
			report("TEMPORAL_TLS_CLIENT_CERT_PATH", err)
		}
	}
	if t.ServerCAPath != "" {
		_, err := authorities(t.ServerCAPath)
		report("TEMPORAL_TLS_SERVER_CA_CERT_PATH", err)
	}
	if t.APIKeyFile != "" {
		_, err := t.apiKey(context.Background())
		report("TEMPORAL_API_KEY_FILE", err)
	}
}

// Options returns the options of Temporal's client for this connection.
func (t Temporal) Options() (client.Options, error) {
	options := client.Options{HostPort: t.Address, Namespace: t.Namespace}
	if t.APIKey != "" || t.APIKeyFile != "" {
		options.Credentials = client.NewAPIKeyDynamicCredentials(t.apiKey)
	}
	if !t.secured() {
		return options, nil
	}
	secured := &tls.Config{ServerName: t.ServerName, MinVersion: tls.VersionTLS12}
	if t.ServerCAPath != "" {
		var err error
		if secured.RootCAs, err = authorities(t.ServerCAPath); err != nil {
			return client.Options{}, fmt.Errorf("TEMPORAL_TLS_SERVER_CA_CERT_PATH %w", err)
		}
	}
	if t.ClientCertPath != "" {
		secured.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return t.certificate()
		}
	}
	options.ConnectionOptions.TLS = secured
	return options, nil
}

// apiKey returns the key for one call.
func (t Temporal) apiKey(context.Context) (string, error) {
	if t.APIKeyFile == "" {
		return t.APIKey, nil
	}
	key, err := os.ReadFile(t.APIKeyFile)
	if err != nil {
		return "", errors.New("names a file that cannot be read")
	}
	return strings.TrimSpace(string(key)), nil
}

// authorities reads a file of certificates.
func authorities(path string) (*x509.CertPool, error) {
	content, err := os.ReadFile(path) //nolint:gosec // G304: an operator's setting
	if err != nil {
		return nil, errors.New("names a file that cannot be read")
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(content) {
		return nil, errors.New("names a file without a certificate")
	}
	return pool, nil
}

// certificate reads the client's certificate. The files may be replaced at any time.
func (t Temporal) certificate() (*tls.Certificate, error) {
	certificate, err := tls.LoadX509KeyPair(t.ClientCertPath, t.ClientKeyPath)
	return &certificate, err
}

// CertificateExpires returns when the client's certificate expires. There must be one.
func (t Temporal) CertificateExpires() (time.Time, error) {
	certificate, err := t.certificate()
	if err != nil {
		return time.Time{}, errors.New("TEMPORAL_TLS_CLIENT_CERT_PATH names no certificate with its key")
	}
	leaf, err := x509.ParseCertificate(certificate.Certificate[0])
	if err != nil {
		return time.Time{}, fmt.Errorf("TEMPORAL_TLS_CLIENT_CERT_PATH: %w", err)
	}
	return leaf.NotAfter, nil
}
