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

	"example.com/checkout/storage/storagetest/must"
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
	a := &Authority{Pool: x509.NewCertPool(), File: filepath.Join(t.TempDir(), "ca.crt")}
	a.certificate, a.key = a.sign(t, a.File, &x509.Certificate{
		Subject: pkix.Name{CommonName: "authority"}, IsCA: true, BasicConstraintsValid: true,
		NotAfter: time.Now().Add(24 * time.Hour), KeyUsage: x509.KeyUsageCertSign,
	})
	a.Pool.AddCert(a.certificate)
	return a
}

// Issue returns a directory with a new certificate for name, a host name or an IP address, and its key.
func (a *Authority) Issue(t *testing.T, name string, valid time.Duration) string {
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotAfter: time.Now().Add(valid), KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}
	if ip := net.ParseIP(name); ip != nil {
		template.IPAddresses, template.DNSNames = []net.IP{ip}, nil
	}
	dir := t.TempDir()
	_, key := a.sign(t, filepath.Join(dir, CertificateFile), template)
	writePEM(t, filepath.Join(dir, KeyFile), "EC PRIVATE KEY", must.Get(x509.MarshalECPrivateKey(key))(t))
	return dir
}

// sign writes a certificate for a new key to a file. The authority's own is signed by itself.
func (a *Authority) sign(t *testing.T, file string, template *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey) {
	key := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	template.SerialNumber, template.NotBefore = big.NewInt(time.Now().UnixNano()), time.Now().Add(-time.Hour)
	parent, signer := a.certificate, a.key
	if parent == nil {
		parent, signer = template, key
	}
	der := must.Get(x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer))(t)
	writePEM(t, file, "CERTIFICATE", der)
	return must.Get(x509.ParseCertificate(der))(t), key
}

func writePEM(t *testing.T, path, kind string, der []byte) {
	require.NoError(t, os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
}
