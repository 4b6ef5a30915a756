package daemon_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/daemon"
	"github.com/weftnet/weft/internal/testenv"
)

// scrape asks for a page of a daemon's metrics at a TCP address or a unix socket.
func scrape(t *testing.T, at, page string) (status int, body string) {
	t.Helper()
	network := "tcp"
	if path, ok := strings.CutPrefix(at, "unix:"); ok {
		network, at = "unix", path
	}
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, at)
	}}
	defer transport.CloseIdleConnections()
	a, err := (&http.Client{Transport: transport, Timeout: patience}).Get("http://localhost" + page)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	b, err := io.ReadAll(a.Body)
	if err != nil {
		t.Fatal(err)
	}
	return a.StatusCode, string(b)
}

// shows asks for a page until its body matches.
func shows(t *testing.T, at, page, pattern string) {
	t.Helper()
	match := regexp.MustCompile(pattern)
	for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		_, body := scrape(t, at, page)
		if match.MatchString(body) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%s never matches %s:\n%s", page, pattern, body)
		}
	}
}

func TestADaemonServesTheCountersOfItsNICAndTheStateOfItsPeers(t *testing.T) {
	c := configs(t, 3)
	for i := range c[:2] {
		c[i].Metrics = testenv.Loopback(t)
	}
	run(t, c[0], c[1]) // the third node never answers
	at := c[0].Metrics
	p, q := mustAttach(t, c[0], "p/0"), mustAttach(t, c[1], "q/0")
	wait(t, p, "q/0")
	if err := p.Send(t.Context(), q.Name(), 7, []byte("hello")); err != nil {
		t.Fatal(err)
	}
	shows(t, at, "/healthz", `^ok\n$`)
	shows(t, at, "/readyz", `^ok\n$`)
	for _, pattern := range []string{
		`(?m)^weft_nic_messages_sent_total\{link="udp"\} [1-9]`,
		`(?m)^weft_nic_processes\{link="udp"\} 1$`,
		`(?m)^weft_peers\{link="udp",state="up"\} 1$`,
		`(?m)^weft_peer_up\{address="` + regexp.QuoteMeta(c[1].Listen) + `",link="udp",peer="` + staticKey(t, c[1]).Public().ID().String() + `"\} 1$`,
		`(?m)^weft_peer_up\{address="` + regexp.QuoteMeta(c[2].Listen) + `",link="udp",peer=""\} 0$`,
		`(?m)^weft_nic_alive\{link="udp"\} 1$`,
		`(?m)^weft_nic_info\{.*nic="` + staticKey(t, c[0]).Public().ID().String() + `"`,
		`(?m)^go_goroutines `, `(?m)^process_open_fds `,
	} {
		shows(t, at, "/metrics", pattern)
	}
	if status, body := scrape(t, at, "/debug/pprof/heap"); status != http.StatusForbidden {
		t.Errorf("a profile for a visitor by TCP: %d, %.80s; want 403", status, body)
	}
}

func TestADaemonServesAllItsLinksAtOneAddress(t *testing.T) {
	c := twoLinks(t, 1)[0]
	c.Metrics = testenv.Loopback(t)
	run(t, c)
	on(t, c, "slow0", "p/0")
	shows(t, c.Metrics, "/readyz", `^ok\n$`)
	shows(t, c.Metrics, "/metrics", `(?m)^weft_nic_processes\{link="slow0"\} 1$`)
	shows(t, c.Metrics, "/metrics", `(?m)^weft_nic_processes\{link="fast0"\} 0$`)
}

func TestADaemonServesMetricsAtASocketInItsStateDirectory(t *testing.T) {
	c := configs(t, 1)[0]
	c.StateDir, c.Metrics = filepath.Join(t.TempDir(), "new"), "unix"
	run(t, c)
	at := "unix:" + filepath.Join(c.StateDir, "metrics.sock")
	shows(t, at, "/readyz", `^ok\n$`)
	if status, body := scrape(t, at, "/debug/pprof/cmdline"); status != http.StatusOK {
		t.Errorf("a profile by the socket: %d, %s", status, body)
	}
}

func TestMetricsThatCannotBeServedStopADaemonAtItsStart(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	dir := t.TempDir()
	open := filepath.Join(dir, "open")
	if err := os.WriteFile(open, []byte("0123456789abcdef0123456789abcdef\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(open, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, wrong := range []struct{ at, token, want string }{
		{taken.Addr().String(), "", "metrics: " + taken.Addr().String() + " is in use by another program"},
		{"0.0.0.0:0", "", "metrics: other hosts can reach 0.0.0.0:0; expected a file with a token"},
		{"somewhere", "", `metrics: "somewhere"; expected off, unix`},
		{"127.0.0.1:0", filepath.Join(dir, "none"), "metrics_token_file: token: open"},
		{"127.0.0.1:0", open, "so other users can use it; expected 0600"},
		{"", open, "metrics_token_file"},
	} {
		c := configs(t, 1)[0]
		c.Metrics, c.MetricsTokenFile = wrong.at, wrong.token
		if _, err := daemon.New(c, new(bytes.Buffer)); err == nil || !strings.Contains(err.Error(), wrong.want) {
			t.Errorf("%s, %s: %v; want %s", wrong.at, wrong.token, err, wrong.want)
		}
	}
}

func TestADaemonServesNoMetricsUnlessAsked(t *testing.T) {
	c := configs(t, 1)[0]
	c.StateDir = t.TempDir()
	log := run(t, c)
	mustAttach(t, c, "p/0")
	if _, err := os.Stat(filepath.Join(c.StateDir, "metrics.sock")); err == nil || strings.Contains(log.String(), "metrics") {
		t.Errorf("there is a socket, or the log says so: %v, %s", err, log)
	}
}
