package nbd

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// authority signs certificates for tests.
type authority struct {
	t    testing.TB
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t testing.TB) *authority {
	a := &authority{t: t}
	a.cert, a.key = a.make(&x509.Certificate{Subject: pkix.Name{CommonName: "tests"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign})
	return a
}

// make signs a certificate. If the authority has no certificate yet, it signs with the new key.
func (a *authority) make(c *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	c.SerialNumber, c.NotBefore, c.NotAfter = big.NewInt(time.Now().UnixNano()), time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = c, key
	}
	b, err := x509.CreateCertificate(rand.Reader, c, parent, &key.PublicKey, signer)
	if err != nil {
		a.t.Fatal(err)
	}
	made, err := x509.ParseCertificate(b)
	if err != nil {
		a.t.Fatal(err)
	}
	return made, key
}

// pair makes a certificate for a server on this host, or for a client.
func (a *authority) pair(use x509.ExtKeyUsage) tls.Certificate {
	c, key := a.make(&x509.Certificate{
		Subject: pkix.Name{CommonName: "test"}, DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{use},
	})
	return tls.Certificate{Certificate: [][]byte{c.Raw}, PrivateKey: key, Leaf: c}
}

func (a *authority) pool() *x509.CertPool {
	p := x509.NewCertPool()
	p.AddCert(a.cert)
	return p
}

// secured returns the configuration of a server that requires client certificates.
func (a *authority) secured() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{a.pair(x509.ExtKeyUsageServerAuth)}, ClientCAs: a.pool(), ClientAuth: tls.RequireAndVerifyClientCert}
}

// enters sends STARTTLS and returns the client inside TLS.
func (c *client) enters(cfg *tls.Config) *client {
	c.t.Helper()
	c.option(optStartTLS)
	c.answered(optStartTLS, repAck)
	return &client{c.t, tls.Client(c.c, cfg), c.ended}
}

func TestADeviceIsUsedWithinTLSAlone(t *testing.T) {
	a := newAuthority(t)
	dev := newMemory(8192)
	dev.b[5] = 42
	s, err := New(Config{Device: dev, Export: "pages", TLS: a.secured()})
	if err != nil {
		t.Fatal(err)
	}
	c := connect(t, s)
	c.greet(flagFixedNewstyle | flagNoZeroes)
	for _, o := range []option{optList, optInfo, optGo, optStructuredReply, optListMetaContext, optSetMetaContext, 99} {
		c.option(o, uint32(5), "pages", uint16(0))
		if got := c.answered(o, repErrTLSRequired); strings.Contains(got, "pages") {
			t.Errorf("option %d: a client without TLS is told %q", o, got)
		}
	}
	c.option(optStartTLS, "x")
	c.answered(optStartTLS, repErrInvalid)
	c = c.enters(&tls.Config{RootCAs: a.pool(), ServerName: "localhost", Certificates: []tls.Certificate{a.pair(x509.ExtKeyUsageClientAuth)}})
	c.option(optStartTLS)
	c.answered(optStartTLS, repErrInvalid)
	c.option(optStructuredReply)
	c.answered(optStructuredReply, repAck)
	c.option(optGo, uint32(5), "pages", uint16(0))
	c.answered(optGo, repInfo)
	c.answered(optGo, repAck)
	c.request(0, cmdRead, 7, 5, 1)
	c.expect("the chunk", uint32(magicChunk), uint16(chunkDone), uint16(chunkData), uint64(7), uint32(9), uint64(5), "\x2a")
	c.request(0, cmdDisconnect, 8, 0, 0)
	go io.Copy(io.Discard, c.c) // the server's close_notify needs a reader: a pipe has no buffer
	if err := <-c.ended; err != nil {
		t.Errorf("the connection ended with %v", err)
	}
	if got, want := s.Counts(), (Counts{Accepted: 1, TLSRequired: 7}); got != want {
		t.Errorf("it counts %+v, want %+v", got, want)
	}
}

func TestAnExportNameBeforeTLSEndsTheConnection(t *testing.T) {
	c := serveOne(t, Config{Device: newMemory(8192), TLS: newAuthority(t).secured()})
	c.greet(flagFixedNewstyle)
	c.option(optExportName)
	if err := <-c.ended; !errors.Is(err, errProtocol) {
		t.Errorf("the connection ended with %v, want %v", err, errProtocol)
	}
}

// An attacker on the path may append unencrypted options to STARTTLS. They must not count as the
// client's options.
func TestBytesBehindSTARTTLSEndTheConnection(t *testing.T) {
	c := serveOne(t, Config{Device: newMemory(8192), TLS: newAuthority(t).secured()})
	c.greet(flagFixedNewstyle)
	c.send(uint64(magicOption), uint32(optStartTLS), uint32(0), uint64(magicOption), uint32(optGo), uint32(0))
	if err := <-c.ended; !errors.Is(err, errProtocol) {
		t.Errorf("the connection ended with %v, want %v", err, errProtocol)
	}
}

func TestAServerWithoutTLSSaysSo(t *testing.T) {
	c := serveOne(t, Config{Device: newMemory(8192)})
	c.greet(flagFixedNewstyle)
	c.option(optStartTLS)
	c.answered(optStartTLS, repErrUnsupported)
	c.option(optGo, uint32(0), uint16(0))
	c.answered(optGo, repInfo)
}

func TestAClientWithoutACertificateOfTheAuthorityIsRefused(t *testing.T) {
	a, other := newAuthority(t), newAuthority(t)
	for what, certs := range map[string][]tls.Certificate{
		"no certificate":             nil,
		"one of another authority":   {other.pair(x509.ExtKeyUsageClientAuth)},
		"one of a server":            {a.pair(x509.ExtKeyUsageServerAuth)},
		"one that it signed itself":  {selfSigned(t)},
		"an authority's certificate": {{Certificate: [][]byte{a.cert.Raw}, PrivateKey: other.key}},
	} {
		s, err := New(Config{Device: newMemory(8192), TLS: a.secured()})
		if err != nil {
			t.Fatal(err)
		}
		c := connect(t, s)
		c.greet(flagFixedNewstyle)
		c = c.enters(&tls.Config{RootCAs: a.pool(), ServerName: "localhost", GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			if len(certs) == 0 {
				return &tls.Certificate{}, nil
			}
			return &certs[0], nil
		}})
		go io.Copy(io.Discard, c.c)
		if err := <-c.ended; err == nil || !strings.Contains(err.Error(), "TLS: ") {
			t.Errorf("%s: the connection ended with %v", what, err)
		}
		if got, want := s.Counts(), (Counts{Accepted: 1, Failed: 1, TLSFailed: 1}); got != want {
			t.Errorf("%s: it counts %+v, want %+v", what, got, want)
		}
	}
}

func selfSigned(t *testing.T) tls.Certificate {
	return (&authority{t: t}).pair(x509.ExtKeyUsageClientAuth)
}

// keep writes a certificate and its key as PEM.
func keep(t *testing.T, c tls.Certificate, cert, key string) {
	t.Helper()
	b, err := x509.MarshalPKCS8PrivateKey(c.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	for path, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: c.Certificate[0]}, key: {Type: "PRIVATE KEY", Bytes: b}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// serveTLS serves a device at a TCP address. dir holds a client certificate under the names that
// libnbd and qemu expect.
func serveTLS(t *testing.T, dev Device) (address, dir string) {
	t.Helper()
	a := newAuthority(t)
	s, err := New(Config{Device: dev, TLS: a.secured()})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- s.Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	dir = t.TempDir()
	keep(t, a.pair(x509.ExtKeyUsageClientAuth), filepath.Join(dir, "client-cert.pem"), filepath.Join(dir, "client-key.pem"))
	if err := os.WriteFile(filepath.Join(dir, "ca-cert.pem"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	return l.Addr().String(), dir
}

// Before TLS, no input makes a server name its export.
func FuzzBeforeTLS(f *testing.F) {
	cfg := newAuthority(f).secured()
	opt := func(o option, data string) string {
		return string(append(append([]byte{'I', 'H', 'A', 'V', 'E', 'O', 'P', 'T', 0, 0, 0, byte(o), 0, 0, 0, byte(len(data))}, data...), 0)[:16+len(data)])
	}
	f.Add([]byte("\x00\x00\x00\x03" + opt(optStartTLS, "") + "\x16\x03\x01\x00\x05hello"))
	f.Add([]byte("\x00\x00\x00\x01" + opt(optList, "") + opt(optGo, "\x00\x00\x00\x05pages\x00\x00") + opt(optExportName, "pages")))
	f.Add([]byte("\x00\x00\x00\x03" + opt(optStartTLS, "x") + opt(optInfo, "") + opt(optAbort, "")))
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := New(Config{Device: newMemory(8192), Export: "pages", Description: "secret", TLS: cfg})
		if err != nil {
			t.Fatal(err)
		}
		here, there := net.Pipe()
		ended := make(chan struct{})
		go func() { defer close(ended); _ = s.ServeConn(context.Background(), there) }()
		go func() { _, _ = here.Write(b); _ = here.SetReadDeadline(time.Now().Add(20 * time.Millisecond)) }()
		said, _ := io.ReadAll(here)
		here.Close()
		<-ended
		if bytes.Contains(said, []byte("pages")) || bytes.Contains(said, []byte("secret")) || s.users != 0 {
			t.Errorf("before TLS the server says %q, and has %d users", said, s.users)
		}
	})
}
