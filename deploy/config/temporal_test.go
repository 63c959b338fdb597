package config_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"example.com/checkout/deploy/config"
)

func TestTemporal_NamesEveryWrongSetting(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	certificate, key := a.issue(t, "worker")
	_, other := a.issue(t, "other")
	empty := filepath.Join(t.TempDir(), "empty")
	require.NoError(t, os.WriteFile(empty, nil, 0o600))
	for _, c := range []struct{ setting, want string }{
		{"TEMPORAL_ADDRESS=nowhere", "TEMPORAL_ADDRESS must be host:port"},
		{"TEMPORAL_TLS=maybe", "TEMPORAL_TLS must be a bool"},
		{"TEMPORAL_TLS_CLIENT_KEY_PATH=" + key, "TEMPORAL_TLS_CLIENT_CERT_PATH is needed with TEMPORAL_TLS_CLIENT_KEY_PATH"},
		{"TEMPORAL_TLS_CLIENT_CERT_PATH=" + certificate, "TEMPORAL_TLS_CLIENT_KEY_PATH is needed with TEMPORAL_TLS_CLIENT_CERT_PATH"},
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

// TestTemporal_TakesRenewedSecretsWithoutARestart replaces the client's certificate and the API key.
// The next connection uses the new certificate, and the next call uses the new key.
func TestTemporal_TakesRenewedSecretsWithoutARestart(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	server := startSecured(t, a)
	certificate, key := a.issue(t, "first")
	apiKey := filepath.Join(t.TempDir(), "key")
	require.NoError(t, os.WriteFile(apiKey, []byte("key-1\n"), 0o600))
	settings, err := config.LoadTemporal([]string{
		"TEMPORAL_ADDRESS=" + server.address, "TEMPORAL_TLS_SERVER_CA_CERT_PATH=" + a.file,
		"TEMPORAL_TLS_SERVER_NAME=temporal.example", "TEMPORAL_API_KEY_FILE=" + apiKey,
		"TEMPORAL_TLS_CLIENT_CERT_PATH=" + certificate, "TEMPORAL_TLS_CLIENT_KEY_PATH=" + key,
	})
	require.NoError(t, err)
	options, err := settings.Options()
	require.NoError(t, err)
	temporal, err := client.NewLazyClient(options)
	require.NoError(t, err)
	defer temporal.Close()
	healthy := func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		_, err := temporal.CheckHealth(ctx, &client.CheckHealthRequest{})
		return err == nil
	}
	require.Eventually(t, healthy, time.Minute, 50*time.Millisecond)
	require.Equal(t, caller{"first", "Bearer key-1"}, *server.last.Load())

	newCertificate, newKey := a.issue(t, "second")
	require.NoError(t, os.Rename(newCertificate, certificate))
	require.NoError(t, os.Rename(newKey, key))
	require.NoError(t, os.WriteFile(apiKey, []byte("key-2"), 0o600))
	server.restart(t)
	require.Eventually(t, healthy, time.Minute, 50*time.Millisecond)
	require.Equal(t, caller{"second", "Bearer key-2"}, *server.last.Load())
}

// caller is what a server knows of a client.
type caller struct{ certificate, authorization string }

// secured is a server with mTLS that answers health checks.
type secured struct {
	*grpc.Server
	address string
	tls     *tls.Config
	last    atomic.Pointer[caller]
}

func startSecured(t *testing.T, a *authority) *secured {
	t.Helper()
	certificate, key := a.issue(t, "temporal.example")
	pair, err := tls.LoadX509KeyPair(certificate, key)
	require.NoError(t, err)
	s := &secured{address: "127.0.0.1:0", tls: &tls.Config{
		Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: a.pool,
		MinVersion: tls.VersionTLS12,
	}}
	s.serve(t)
	t.Cleanup(func() { s.Stop() })
	return s
}

func (s *secured) serve(t *testing.T) {
	t.Helper()
	listener, err := net.Listen("tcp", s.address)
	require.NoError(t, err)
	s.address = listener.Addr().String()
	s.Server = grpc.NewServer(grpc.Creds(credentials.NewTLS(s.tls)), grpc.UnaryInterceptor(s.note))
	checks := health.NewServer()
	checks.SetServingStatus("temporal.api.workflowservice.v1.WorkflowService", grpc_health_v1.HealthCheckResponse_SERVING)
	grpc_health_v1.RegisterHealthServer(s.Server, checks)
	workflowservice.RegisterWorkflowServiceServer(s.Server, workflowservice.UnimplementedWorkflowServiceServer{})
	go func() { _ = s.Serve(listener) }() // Stop ends it
}

func (s *secured) restart(t *testing.T) {
	t.Helper()
	s.Stop()
	s.serve(t)
}

func (s *secured) note(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	var c caller
	if p, ok := peer.FromContext(ctx); ok {
		c.certificate = p.AuthInfo.(credentials.TLSInfo).State.PeerCertificates[0].Subject.CommonName
	}
	if md, ok := metadata.FromIncomingContext(ctx); ok && len(md["authorization"]) == 1 {
		c.authorization = md["authorization"][0]
	}
	s.last.Store(&c)
	return next(ctx, req)
}

// authority signs certificates.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	pool        *x509.CertPool
	file        string
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	a := &authority{key: key, pool: x509.NewCertPool(), file: writePEM(t, "CERTIFICATE", der)}
	a.certificate, err = x509.ParseCertificate(der)
	require.NoError(t, err)
	a.pool.AddCert(a.certificate)
	return a
}

// issue returns the files of a new certificate and its key.
func (a *authority) issue(t *testing.T, name string) (certificate, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}, a.certificate, &private.PublicKey, a.key)
	require.NoError(t, err)
	encoded, err := x509.MarshalECPrivateKey(private)
	require.NoError(t, err)
	return writePEM(t, "CERTIFICATE", der), writePEM(t, "EC PRIVATE KEY", encoded)
}

func writePEM(t *testing.T, kind string, der []byte) string {
	t.Helper()
	file, err := os.CreateTemp(t.TempDir(), "*.pem")
	require.NoError(t, err)
	require.NoError(t, pem.Encode(file, &pem.Block{Type: kind, Bytes: der}))
	require.NoError(t, file.Close())
	return file.Name()
}
