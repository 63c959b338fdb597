// Package authority signs the certificates of tests.
package authority

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Names of the files that Issue writes.
const (
	CertificateFile = "tls.crt"
	KeyFile         = "tls.key"
)

// Authority signs certificates for servers and clients.
type Authority struct {
	Pool *x509.CertPool
	File string // its own certificate

	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

// New returns an authority whose certificate is valid for a day.
func New(t *testing.T) *Authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	a := &Authority{Pool: x509.NewCertPool(), File: filepath.Join(t.TempDir(), "ca.crt"), key: key}
	a.certificate, err = x509.ParseCertificate(der)
	require.NoError(t, err)
	a.Pool.AddCert(a.certificate)
	writePEM(t, a.File, "CERTIFICATE", der)
	return a
}

// Issue returns a directory with a new certificate for name, a host name or an IP address, and its key.
func (a *Authority) Issue(t *testing.T, name string, valid time.Duration) string {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(valid), KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}
	if ip := net.ParseIP(name); ip != nil {
		template.IPAddresses, template.DNSNames = []net.IP{ip}, nil
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, &private.PublicKey, a.key)
	require.NoError(t, err)
	encoded, err := x509.MarshalECPrivateKey(private)
	require.NoError(t, err)
	dir := t.TempDir()
	writePEM(t, filepath.Join(dir, CertificateFile), "CERTIFICATE", der)
	writePEM(t, filepath.Join(dir, KeyFile), "EC PRIVATE KEY", encoded)
	return dir
}

func writePEM(t *testing.T, path, kind string, der []byte) {
	t.Helper()
	require.NoError(t, os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
}
