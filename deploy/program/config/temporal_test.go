package config_test

import (
	"context"
	"crypto/tls"
	"fmt"
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

	"example.com/checkout/deploy/program/config"
	"example.com/checkout/deploy/proof/e2e/authority"
	"example.com/checkout/storage/pgtemp"
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

// TestTemporal_TakesRenewedSecretsWithoutARestart replaces the client's certificate and the API key.
// The next connection uses the new certificate, and the next call uses the new key.
func TestTemporal_TakesRenewedSecretsWithoutARestart(t *testing.T) {
	t.Parallel()
	a := authority.New(t)
	server := startSecured(t, a)
	certificate, key := issue(t, a, "first")
	apiKey := filepath.Join(t.TempDir(), "key")
	require.NoError(t, os.WriteFile(apiKey, []byte("key-1\n"), 0o600))
	settings, err := config.LoadTemporal([]string{
		"TEMPORAL_ADDRESS=" + server.address, "TEMPORAL_TLS_SERVER_CA_CERT_PATH=" + a.File,
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

	newCertificate, newKey := issue(t, a, "second")
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

func startSecured(t *testing.T, a *authority.Authority) *secured {
	t.Helper()
	certificate, key := issue(t, a, "temporal.example")
	pair, err := tls.LoadX509KeyPair(certificate, key)
	require.NoError(t, err)
	ports, err := pgtemp.FreePorts(1)
	require.NoError(t, err)
	s := &secured{address: fmt.Sprintf("127.0.0.1:%d", ports[0]), tls: &tls.Config{
		Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: a.Pool,
		MinVersion: tls.VersionTLS12,
	}}
	s.serve(t)
	t.Cleanup(func() { s.Stop() })
	return s
}

func (s *secured) serve(t *testing.T) {
	t.Helper()
	listener, err := pgtemp.Listen(s.address)
	require.NoError(t, err)
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

func issue(t *testing.T, a *authority.Authority, name string) (certificate, key string) {
	t.Helper()
	dir := a.Issue(t, name, time.Hour)
	return filepath.Join(dir, authority.CertificateFile), filepath.Join(dir, authority.KeyFile)
}
