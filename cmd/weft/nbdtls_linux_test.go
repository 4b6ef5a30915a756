package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/binary"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/testenv"
)

func TestADeviceMayBeAtAnAddressThatOtherHostsReach(t *testing.T) {
	cert, key, ca := nbdCertificates(t, t.TempDir())
	for _, c := range []struct {
		what string
		s    nbdTLSFlags
		open bool
	}{
		{"certificates of both ends", nbdTLSFlags{cert: cert, key: key, ca: ca}, false},
		{"a certificate of the server", nbdTLSFlags{cert: cert, key: key}, true},
		{"--insecure", nbdTLSFlags{insecure: true}, true},
	} {
		f := &memNBDFlags{tcp: "0.0.0.0:1", secure: c.s}
		if err := f.completeTLS(); err != nil || f.secure.open != c.open || (f.secure.config == nil) != (c.s.cert == "") {
			t.Errorf("%s: %v, open to all: %v; want %v", c.what, err, f.secure.open, c.open)
		}
	}
}

// nbdCertificates makes an authority and one certificate for both ends, as PEM files in a
// directory.
func nbdCertificates(t *testing.T, dir string) (cert, key, ca string) {
	t.Helper()
	write := func(name, kind string, b []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: b}), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	made := func(parent *x509.Certificate, signer *ecdsa.PrivateKey) (*x509.Certificate, *ecdsa.PrivateKey) {
		k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		c := &x509.Certificate{
			SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: "test"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
			IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		}
		if parent == nil {
			c.IsCA, c.BasicConstraintsValid, c.KeyUsage, c.ExtKeyUsage, parent, signer = true, true, x509.KeyUsageCertSign, nil, c, k
		}
		b, err := x509.CreateCertificate(rand.Reader, c, parent, &k.PublicKey, signer)
		if err != nil {
			t.Fatal(err)
		}
		c, err = x509.ParseCertificate(b)
		if err != nil {
			t.Fatal(err)
		}
		return c, k
	}
	authority, authorityKey := made(nil, nil)
	end, endKey := made(authority, authorityKey)
	pkcs8, err := x509.MarshalPKCS8PrivateKey(endKey)
	if err != nil {
		t.Fatal(err)
	}
	return write("cert.pem", "CERTIFICATE", end.Raw), write("key.pem", "PRIVATE KEY", pkcs8), write("ca.pem", "CERTIFICATE", authority.Raw)
}

// nbdOption sends an option without data, and returns the kind and the data of the first answer.
func nbdOption(c net.Conn, option uint32) (kind uint32, data string, err error) {
	be := binary.BigEndian
	if _, err := c.Write(be.AppendUint32(be.AppendUint32([]byte("IHAVEOPT"), option), 0)); err != nil {
		return 0, "", err
	}
	head := make([]byte, 20)
	if _, err := io.ReadFull(c, head); err != nil {
		return 0, "", err
	}
	b := make([]byte, min(be.Uint32(head[16:]), 4096))
	_, err = io.ReadFull(c, b)
	return be.Uint32(head[12:]), string(b), err
}

// The test has its own client, and runs nbdinfo if it is installed. internal/nbd tests the other
// tools.
func TestNetworkMemoryIsServedWithinTLS(t *testing.T) {
	dir := t.TempDir()
	cert, key, ca := nbdCertificates(t, dir)
	nic, at := testenv.Loopback(t), testenv.Loopback(t)
	runWeft(t, "mem/0 lends 64MiB at ", "mem", "serve", "--name", "mem/0", "--size", "64MiB", "--listen", nic)
	said := runWeft(t, "nbd/0 serves 8MiB on 1 server", "mem", "nbd", "--name", "nbd/0", "--server", "mem/0", "--size", "8MiB", "--tcp", at, "--export", "pages",
		"--tls-cert", cert, "--tls-key", key, "--tls-ca", ca, "--report", "10ms", "--listen", "127.0.0.1:0", "--node", nic)
	const list, startTLS, ack, server, required = 3, 5, 1, 2, 1<<31 | 5
	begin := func() net.Conn {
		t.Helper()
		c, err := net.DialTimeout("tcp", at, patience)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		c.SetDeadline(time.Now().Add(patience))
		if _, err := io.ReadFull(c, make([]byte, 18)); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Write([]byte{0, 0, 0, 3}); err != nil {
			t.Fatal(err)
		}
		if kind, data, err := nbdOption(c, list); err != nil || kind != required || strings.Contains(data, "pages") {
			t.Fatalf("LIST before STARTTLS: %#x %q %v; want %#x", kind, data, err, uint32(required))
		}
		if kind, data, err := nbdOption(c, startTLS); err != nil || kind != ack {
			t.Fatalf("STARTTLS: %#x %q %v", kind, data, err)
		}
		return c
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(contents(t, ca))
	own, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	c := tls.Client(begin(), &tls.Config{RootCAs: pool, ServerName: "127.0.0.1", Certificates: []tls.Certificate{own}})
	if kind, data, err := nbdOption(c, list); err != nil || kind != server || data != "\x00\x00\x00\x05pagesnetwork memory of nbd/0" {
		t.Errorf("LIST within TLS: %#x %q %v", kind, data, err)
	}
	stranger := tls.Client(begin(), &tls.Config{RootCAs: pool, ServerName: "127.0.0.1"})
	if kind, data, err := nbdOption(stranger, list); err == nil {
		t.Errorf("LIST without a certificate: %#x %q", kind, data)
	}
	for deadline := time.Now().Add(patience); !strings.Contains(said.String(), `"tls_required":2,"tls_failed":1`); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("the report counts no client without a certificate: %s", said.String())
		}
	}
	if _, err := exec.LookPath("nbdinfo"); err != nil {
		t.Log("there is no nbdinfo here")
		return
	}
	for from, to := range map[string]string{cert: "client-cert.pem", key: "client-key.pem", ca: "ca-cert.pem"} {
		if err := os.Rename(from, filepath.Join(dir, to)); err != nil {
			t.Fatal(err)
		}
	}
	out, err := exec.Command("nbdinfo", fmt.Sprintf("nbds://%s/pages?tls-certificates=%s", at, dir)).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "export-size: 8388608") {
		t.Errorf("nbdinfo: %v: %s", err, out)
	}
}
