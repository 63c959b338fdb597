package activities

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"net"
	"testing"
	"time"
)

// certificateAuthority signs certificates of receivers.
type certificateAuthority struct {
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
}

func newCertificateAuthority(t *testing.T) *certificateAuthority {
	t.Helper()
	key := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "Test CA"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der := must(x509.CreateCertificate(rand.Reader, template, template, key.Public(), key))(t)
	cert := must(x509.ParseCertificate(der))(t)
	return &certificateAuthority{key: key, cert: cert}
}

func (a *certificateAuthority) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return pool
}

// server returns the TLS configuration of a good receiver on 127.0.0.1. change may spoil its
// certificate.
func (a *certificateAuthority) server(t *testing.T, change func(*x509.Certificate)) *tls.Config {
	t.Helper()
	key := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "receiver"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	if change != nil {
		change(leaf)
	}
	der := must(x509.CreateCertificate(rand.Reader, leaf, a.cert, key.Public(), a.key))(t)
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
}
