package gopeer

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/weftnet/weft/bench/peers/internal/contest"
)

// started starts a peer's server in this process and returns its address.
func started(t *testing.T, p *Peer) string {
	t.Helper()
	at, failed := make(chan string, 1), make(chan error, 1)
	go func() {
		failed <- p.serve(t.Context(), "127.0.0.1", func(addr string) error { at <- addr; return nil })
	}()
	select {
	case addr := <-at:
		return addr
	case err := <-failed:
		t.Fatalf("the server ended: %v", err)
	case <-time.After(20 * time.Second):
		t.Fatal("the server does not listen")
	}
	return ""
}

func TestEveryPeerDoesEveryJobThatItTakes(t *testing.T) {
	asked := contest.Jobs{{Measure: contest.Latency, Size: 64, Time: 10 * time.Millisecond}, {Measure: contest.Latency, Size: 4096, Time: 10 * time.Millisecond},
		{Measure: contest.Rate, Size: 64, Time: 10 * time.Millisecond}, {Measure: contest.Bandwidth, Size: 1 << 20, Time: 10 * time.Millisecond},
		{Measure: contest.Bandwidth, Size: 4 << 20, Time: 10 * time.Millisecond}, {Measure: contest.Latency, Size: 64, Time: 10 * time.Millisecond}}
	for _, p := range All() {
		t.Run(p.Kind, func(t *testing.T) {
			if err := p.Available(); err != nil {
				t.Skip(err)
			}
			if p.Tunnel {
				t.Skip("it needs two hosts: the test of this module's root makes them")
			}
			jobs := asked.Upto(p.Most, p.Measures...)
			var out bytes.Buffer
			if err := Measure(t.Context(), p.Kind, started(t, p), jobs, &out); err != nil {
				t.Fatal(err)
			}
			d := json.NewDecoder(&out)
			for _, j := range jobs {
				var s contest.Sample
				if err := d.Decode(&s); err != nil {
					t.Fatal(err)
				}
				if s.Measure != j.Measure || s.Size != j.Size || s.Value <= 0 {
					t.Errorf("asked for %v, told %+v", j, s)
				}
				if (s.Steps.Total() > 0) != (j.Measure == contest.Latency) {
					t.Errorf("%v: %d round trips in the distribution", j, s.Steps.Total())
				}
			}
			if d.More() {
				t.Error("told more than was asked")
			}
		})
	}
}

func TestAStreamCountsWhatArrivesAndForgetsItAfterwards(t *testing.T) {
	p, err := find("tcp")
	if err != nil {
		t.Fatal(err)
	}
	c, err := p.dial(t.Context(), started(t, p))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []int64{1, 5, 17} {
		sent := int64(0)
		got, err := c.pour(make([]byte, 100), func() bool { sent++; return sent < want })
		if err != nil || got != want {
			t.Errorf("poured %d messages, %d arrived, error %v", want, got, err)
		}
	}
}

// A sealed contestant would be meaningless if a client could leave out the encryption.
func TestPlainClientsCannotTalkToSealedServers(t *testing.T) {
	for sealed, plain := range map[string]string{"tls": "tcp", "grpc-tls": "grpc"} {
		s, err1 := find(sealed)
		p, err2 := find(plain)
		if err := errors.Join(err1, err2); err != nil {
			t.Fatal(err)
		}
		if !s.Sealed || p.Sealed {
			t.Errorf("%s is sealed: %v, %s is sealed: %v", sealed, s.Sealed, plain, p.Sealed)
		}
		if err := s.Available(); err != nil {
			t.Skip(err)
		}
		message := []byte{byteEcho, 1, 2}
		c, err := p.dial(t.Context(), started(t, s))
		if err == nil {
			err = c.echo(message)
		}
		if err == nil && bytes.Equal(message, []byte{byteEcho, 1, 2}) {
			t.Errorf("a client of %s got an echo from a server of %s", plain, sealed)
		}
	}
}

func TestAConnectionWithAnotherCipherIsRefused(t *testing.T) {
	if err := checkSuite(tls.ConnectionState{CipherSuite: suite}); err != nil {
		t.Errorf("AES-128-GCM: %v", err)
	}
	for _, other := range []uint16{tls.TLS_CHACHA20_POLY1305_SHA256, tls.TLS_AES_256_GCM_SHA384, 0} {
		if err := checkSuite(tls.ConnectionState{CipherSuite: other}); err == nil || !strings.Contains(err.Error(), "expected TLS_AES_128_GCM_SHA256") {
			t.Errorf("%s: %v", tls.CipherSuiteName(other), err)
		}
	}
}

func TestAnInvitationIntoATunnelSurvivesTheCommandLine(t *testing.T) {
	key := strings.Repeat("0a", 32)
	i := invitation{netip.MustParseAddrPort("10.87.0.2:4711"), key, key, "198.18.0.1:80"}
	if back, err := parseInvitation(i.String()); err != nil || *back != i {
		t.Errorf("%+v became %+v, error %v", i, back, err)
	}
	for _, bad := range []string{"", "10.87.0.2:1," + key + "," + key, "10.87.0.2," + key + "," + key + ",x", "10.87.0.2:1,0a," + key + ",x", "10.87.0.2:1," + key + "," + key[1:] + "z,x"} {
		if _, err := parseInvitation(bad); err == nil {
			t.Errorf("%q was taken for an invitation", bad)
		}
	}
}

// A tunnel on loopback would make devices in the network of the machine.
func TestATunnelOnLoopbackIsRefused(t *testing.T) {
	serve := func(context.Context, string, func(string) error) error { t.Error("it serves"); return nil }
	dial := func(context.Context, string) (conn, error) { t.Error("it dials"); return nil, errors.New("never") }
	key := strings.Repeat("0a", 32)
	_, err := dialInTunnel(dial)(t.Context(), "127.0.0.1:4711,"+key+","+key+",198.18.0.1:80")
	for _, err := range []error{err, serveInTunnel(serve)(t.Context(), "127.0.0.1", nil)} {
		if err == nil || !strings.Contains(err.Error(), "a tunnel at 127.0.0.1: expected the address of a host") {
			t.Errorf("error %v", err)
		}
	}
}

func TestAnUnknownPeerIsRefused(t *testing.T) {
	if err := Serve(context.Background(), "pigeon", "127.0.0.1", &bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), `"pigeon"`) {
		t.Errorf("error %v", err)
	}
}
