package stream_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/stream"
)

// httpKinds are the protocols that clients and servers of package net/http speak.
var httpKinds = []struct {
	name      string
	tls       bool
	protocols func(*http.Protocols)
	want      string
}{
	{"HTTP 1.1", false, func(p *http.Protocols) { p.SetHTTP1(true) }, "HTTP/1.1"},
	{"h2c", false, func(p *http.Protocols) { p.SetUnencryptedHTTP2(true) }, "HTTP/2.0"},
	{"HTTP 1.1 over TLS", true, func(p *http.Protocols) { p.SetHTTP1(true) }, "HTTP/1.1"},
	{"HTTP 2 over TLS", true, func(p *http.Protocols) { p.SetHTTP2(true) }, "HTTP/2.0"},
}

// certified returns the TLS configurations of a server and of its clients. The clients trust the
// server's self-made certificate.
func certified(t *testing.T, host string) (server, client *tls.Config) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	about := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{host}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, about, about, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	trusted := x509.NewCertPool()
	trusted.AddCert(leaf)
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}, &tls.Config{RootCAs: trusted, ServerName: host}
}

// An HTTP server and its client work over streams as over TCP, with each of their protocols.
func TestHTTPRunsOverStreams(t *testing.T) {
	for name, cfg := range fabrics {
		t.Run(name, func(t *testing.T) {
			a, b := pair(t, cfg)
			speaksHTTP(t, a, b)
		})
	}
}

func speaksHTTP(t *testing.T, a, b *weft.Process) {
	for _, kind := range httpKinds {
		t.Run(kind.name, func(t *testing.T) {
			l, err := stream.Listen(a, kind.name)
			if err != nil {
				t.Fatal(err)
			}
			var protocols http.Protocols
			kind.protocols(&protocols)
			s := &http.Server{Protocols: &protocols, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				b, _ := io.ReadAll(r.Body)
				w.Write(b)
			})}
			d := &stream.Dialer{Process: b}
			transport := &http.Transport{Protocols: &protocols, DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
				return d.DialContext(ctx, network, l.Addr().String())
			}}
			url := "http://weft/"
			if kind.tls {
				s.TLSConfig, transport.TLSClientConfig = certified(t, "weft")
				url = "https://weft/"
				go s.ServeTLS(l, "", "")
			} else {
				go s.Serve(l)
			}
			defer s.Close()
			defer transport.CloseIdleConnections()
			echoes(t, &http.Client{Timeout: time.Minute, Transport: transport}, url, kind.want)
		})
	}
}

// echoes posts requests of many lengths from several clients at once, and expects each body back.
func echoes(t *testing.T, client *http.Client, url, protocol string) {
	t.Helper()
	var wg sync.WaitGroup
	for k := range 8 {
		wg.Go(func() {
			for i := range 20 {
				text := strings.Repeat(fmt.Sprintf("request %d of client %d. ", i, k), 1+i*i*10)
				r, err := client.Post(url, "text/plain", strings.NewReader(text))
				if err != nil {
					t.Error(err)
					return
				}
				got, err := io.ReadAll(r.Body)
				r.Body.Close()
				if err != nil || string(got) != text || r.Proto != protocol {
					t.Errorf("%d of %d bytes came back over %s: %v; want %s", len(got), len(text), r.Proto, err, protocol)
					return
				}
			}
		})
	}
	wg.Wait()
}
