package gopeer

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"math/big"
	"net"
	"time"

	"github.com/weftnet/weft/bench/peers/internal/contest"
)

func init() {
	c := overTLS(overTCP(cubic))
	note := "TLS 1.3, AES-128-GCM, congestion control cubic"
	all = append(all, &Peer{Name: "Go TLS over TCP", Kind: "tls", Most: maxSize, Measures: everything, Clean: true,
		Sealed: true,
		needs:  haveTCP(cubic), serve: serveStreams(c), dial: dialStream(c),
		Notes: map[string]string{contest.Latency: note, contest.Rate: note, contest.Bandwidth: note}})
}

// suite is the cipher suite of every contestant with TLS. Weft seals with the same cipher.
const suite = tls.TLS_AES_128_GCM_SHA256

// serverTLS returns the TLS settings of a server. It makes a certificate for this process.
func serverTLS(protocols ...string) (*tls.Config, error) {
	cert, err := certificate()
	if err != nil {
		return nil, fmt.Errorf("making a certificate: %w", err)
	}
	return &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{cert}, NextProtos: protocols}, nil
}

// clientTLS returns the TLS settings of a client. The client does not check the certificate:
// that costs time in the handshake only, and no figure includes the handshake. It does check the
// cipher suite. Without AES instructions, crypto/tls picks ChaCha20-Poly1305, and the figures
// would be of another cipher than their notes say.
func clientTLS(protocols ...string) *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS13, InsecureSkipVerify: true, NextProtos: protocols,
		VerifyConnection: checkSuite}
}

// checkSuite refuses a connection with another cipher suite than suite.
func checkSuite(s tls.ConnectionState) error {
	if s.CipherSuite != suite {
		return fmt.Errorf(
			"the connection uses %s, expected %s: a processor without AES instructions cannot run this contestant",
			tls.CipherSuiteName(s.CipherSuite), tls.CipherSuiteName(suite))
	}
	return nil
}

// certificate makes a self-signed certificate for this process.
func certificate() (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, err
}

// overTLS returns a carrier that encrypts the connections of another one with crypto/tls.
func overTLS(plain *carrier) *carrier {
	return &carrier{
		listen: func(ctx context.Context, addr string) (net.Listener, string, error) {
			config, err := serverTLS()
			if err != nil {
				return nil, "", err
			}
			l, at, err := plain.listen(ctx, addr)
			if err != nil {
				return nil, "", err
			}
			return tls.NewListener(l, config), at, nil
		},
		open: func(ctx context.Context, at string) (dialer, func() error, error) {
			dial, end, err := plain.open(ctx, at)
			if err != nil {
				return nil, nil, err
			}
			config := clientTLS()
			return func(ctx context.Context) (net.Conn, error) {
				c, err := dial(ctx)
				if err != nil {
					return nil, err
				}
				sealed := tls.Client(c, config)
				if err := sealed.HandshakeContext(ctx); err != nil {
					return nil, errors.Join(err, c.Close())
				}
				return sealed, nil
			}, end, nil
		},
	}
}
