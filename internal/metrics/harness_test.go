package metrics

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"net/http"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/vni"
)

// patience bounds waits that end soon unless something is broken.
const patience = time.Minute

// nicOf returns a NIC whose loop and link are well, with this many peers that have long addresses.
func nicOf(t *testing.T, link string, peers int) NIC {
	t.Helper()
	page, err := vni.NewCounterPage(vni.AlignedBytes(vni.CounterPageBytes))
	if err != nil {
		t.Fatal(err)
	}
	all := make([]Peer, peers)
	for i := range all {
		all[i] = Peer{ID: fmt.Sprintf("255:255:255:255:255:255:%d:%d", 100+i/256, i%256), Up: i%3 > 0,
			Address: fmt.Sprintf("[2001:db8:1234:5678:9abc:def0:1234:%04x]:65535", i)}
	}
	return NIC{Link: link, ID: "1:2:3:4:5:6:7:8", Address: "127.0.0.1:7700", Guard: "sealed", Version: "0", Commit: "c",
		Started: time.Unix(1_700_000_000, 0), Page: page, MostProcesses: 1024,
		Peers: func() []Peer { return all }, Job: func() {}, LinkUp: func() error { return nil }}
}

// fill gives every counter a value with as many digits as a counter ever prints.
func fill(n *NIC) {
	for i := range vni.Names() {
		n.Page.Store(vni.Counter(i), math.MaxUint64)
	}
}

func daemonOf(nics ...NIC) *Daemon {
	return &Daemon{NICs: nics, Accepts: func() error { return nil }}
}

// served is a Server of a test, and a client of it.
type served struct {
	*Server
	t      *testing.T
	client *http.Client
	base   string
}

// serve serves a daemon at an address until the test ends.
func serve(t *testing.T, c Config, d *Daemon) *served {
	t.Helper()
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	s, err := Listen(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	if err := s.Serve(d); err != nil {
		t.Fatal(err)
	}
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, s.Addr().Network(), addressOf(s, c))
	}
	client := &http.Client{Transport: &http.Transport{DialContext: dial}, Timeout: patience}
	t.Cleanup(client.CloseIdleConnections)
	return &served{s, t, client, "http://localhost"}
}

// addressOf returns the address to dial. The listener of a unix socket has the name under which
// the socket was made.
func addressOf(s *Server, c Config) string {
	if c.Address.Path != "" {
		return c.Address.Path
	}
	return s.Addr().String()
}

func loopback() Config { return Config{Address: Address{TCP: netip.MustParseAddrPort("127.0.0.1:0")}} }

func unixSocket(t *testing.T) Config {
	return Config{Address: Address{Path: filepath.Join(t.TempDir(), "m.sock")}}
}

// get asks for a page; change may change the request.
func (s *served) get(page string, change ...func(*http.Request)) (status int, body string) {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, s.base+page, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, c := range change {
		c(r)
	}
	a, err := s.client.Do(r)
	if err != nil {
		s.t.Fatalf("%s: %v", page, err)
	}
	defer a.Body.Close()
	b, err := io.ReadAll(a.Body)
	if err != nil {
		s.t.Fatalf("%s: %v", page, err)
	}
	return a.StatusCode, string(b)
}

// metrics returns the lines of /metrics.
func (s *served) metrics() []string {
	s.t.Helper()
	status, body := s.get(metricsPath)
	if status != http.StatusOK {
		s.t.Fatalf("status %d: %s", status, body)
	}
	return strings.Split(strings.TrimSpace(body), "\n")
}

// value returns the value of a series of /metrics, or "" if there is no such series.
func (s *served) value(series string) string {
	s.t.Helper()
	for _, line := range s.metrics() {
		if v, ok := strings.CutPrefix(line, series+" "); ok {
			return v
		}
	}
	return ""
}

func bearer(token string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+token) }
}

func host(name string) func(*http.Request) { return func(r *http.Request) { r.Host = name } }
