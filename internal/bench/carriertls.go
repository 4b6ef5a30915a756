package bench

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"math/big"
	"time"
)

// carrierHost is the name in the server's certificate.
const carrierHost = "weft-bench"

// newCertificate makes a key and a self-signed certificate.
func newCertificate() (cert tls.Certificate, err error) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return cert, err
	}
	now := time.Now()
	t := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{carrierHost}, NotBefore: now.Add(-time.Hour),
		NotAfter: now.Add(24 * time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, t, t, public, private)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: private}, err
}

// trusting returns a dialer for the server that has this certificate.
func trusting(der []byte) (*tls.Dialer, error) {
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	roots.AddCert(cert)
	return &tls.Dialer{Config: &tls.Config{RootCAs: roots, ServerName: carrierHost, MinVersion: tls.VersionTLS13}}, nil
}
