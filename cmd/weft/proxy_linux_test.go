package main

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/testenv"
)

// An HTTP server and client over TCP, with two proxies between them: one with an embedded NIC,
// one attached to a daemon.
func TestAProxyCarriesTCP(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.Copy(w, strings.NewReader(r.URL.Path)) }))
	defer server.Close()
	nic, clients := testenv.Loopback(t), testenv.Loopback(t)
	runWeft(t, "web/0 carries connections from web/0:http to "+server.Listener.Addr().String()+", with a NIC at "+nic,
		"proxy", "--from", "web/0:http", "--to", server.Listener.Addr().String(), "--listen", nic, "--drain", "1s")
	socket := filepath.Join(t.TempDir(), "a.sock")
	startNIC(t, "--socket", socket, "--listen", "127.0.0.1:0", "--node", nic)
	runWeft(t, "carries connections from "+clients+" to web/0:http", "proxy", "--from", clients, "--to", "web/0:http", "--socket", socket, "--drain", "1s")
	unix := filepath.Join(t.TempDir(), "web.sock")
	if left, err := net.ListenUnix("unix", &net.UnixAddr{Name: unix, Net: "unix"}); err != nil {
		t.Fatal(err)
	} else {
		left.SetUnlinkOnClose(false) // as a killed process leaves it
		left.Close()
	}
	runWeft(t, "local/0 carries connections from "+unix, "proxy", "--from", unix, "--to", "web/0:http", "--name", "local/0", "--socket", socket, "--drain", "1s")

	asked := testenv.Loopback(t)
	runWeft(t, "carries connections from "+asked+" to fabric", "proxy", "--from", asked, "--to", "fabric", "--name", "asked/0", "--socket", socket, "--drain", "1s")
	through := &http.Transport{Proxy: http.ProxyURL(&url.URL{Scheme: "socks5h", Host: asked})}
	defer through.CloseIdleConnections()
	if r, err := (&http.Client{Transport: through, Timeout: patience}).Get("http://http.0.web.weft/asked"); err != nil {
		t.Error(err)
	} else if got, err := io.ReadAll(r.Body); r.Body.Close() != nil || err != nil || string(got) != "/asked" {
		t.Errorf("by SOCKS5: %q, %v", got, err)
	}

	for name, address := range map[string]string{"tcp": clients, "unix": unix} {
		transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, name, address)
		}}
		client := &http.Client{Transport: transport, Timeout: patience}
		r, err := client.Get("http://web/" + name)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got, err := io.ReadAll(r.Body)
		if r.Body.Close(); err != nil || string(got) != "/"+name {
			t.Errorf("%s: %q, %v", name, got, err)
		}
		transport.CloseIdleConnections()
	}
}

// One proxy is the process of both services, so neither finds the name taken.
func TestOneProxyCarriesSeveralServicesOfOneProcess(t *testing.T) {
	answer := func(text string) string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, text) }))
		t.Cleanup(s.Close)
		return s.Listener.Addr().String()
	}
	socket := filepath.Join(t.TempDir(), "a.sock")
	startNIC(t, "--socket", socket, "--listen", "127.0.0.1:0")
	runWeft(t, "web/0 carries connections from web/0:b to ", "proxy", "--from", "web/0:a", "--to", answer("first"),
		"--from", "web/0:b", "--to", answer("second"), "--socket", socket, "--drain", "1s")
	one, two := testenv.Loopback(t), testenv.Loopback(t)
	status := filepath.Join(t.TempDir(), "status.sock")
	runWeft(t, "carries connections from "+two+" to web/0:b", "proxy", "--from", one, "--to", "web/0:a", "--from", two, "--to", "web/0:b",
		"--socket", socket, "--drain", "1s", "--status", status)
	for address, want := range map[string]string{one: "first", two: "second"} {
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience}
		r, err := client.Get("http://" + address)
		if err != nil {
			t.Errorf("%s: %v", want, err)
			continue
		}
		if got, err := io.ReadAll(r.Body); r.Body.Close() != nil || err != nil || string(got) != want {
			t.Errorf("%s: %q, %v; expected %q", address, got, err, want)
		}
	}
	if code, out, errs := weft("stat", "--proxy", status); code != 0 || !strings.Contains(out, "at "+one+", "+two+": 2 connections") {
		t.Errorf("weft stat --proxy: %d %q %q; expected both listeners and both connections", code, out, errs)
	}
}

// Service managers restart commands that end. A proxy that stayed would accept connections, and
// fail each.
func TestAProxyEndsWithTheDaemonThatItIsAProcessOf(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "a.sock")
	for end, args := range map[string][]string{
		"clients": {"--from", testenv.Loopback(t), "--to", "web/0:http"},
		"server":  {"--from", "web/0:http", "--to", "127.0.0.1:1"},
	} {
		nic, _ := startNIC(t, "--socket", socket, "--listen", "127.0.0.1:0")
		var out, errs lockedBuffer
		ended := make(chan int, 1)
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		go func() { ended <- run(ctx, append([]string{"proxy", "--socket", socket}, args...), &out, &errs) }()
		for deadline := time.Now().Add(patience); !strings.Contains(out.String(), "carries connections"); time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%s: no proxy: %s", end, errs.String())
			}
		}
		nic.Process.Kill()
		select {
		case status := <-ended:
			if status != exitFailed || !strings.Contains(errs.String(), "own NIC gone") {
				t.Errorf("%s: status %d, standard error %q; want %d and that its NIC is gone", end, status, errs.String(), exitFailed)
			}
		case <-time.After(patience):
			t.Fatalf("%s: the proxy goes on without its daemon", end)
		}
	}
}

func TestAProxySaysWhatIsWrong(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	long := "/" + strings.Repeat("x", 107)
	for _, c := range []struct {
		line   string
		status int
		want   string
	}{
		{"proxy --from a/0:x", exitUsage, "--from is given 1 times and --to 0 times: expected a --to for each --from"},
		{"proxy --to a/0:x --to b/0:x --from 127.0.0.1:1", exitUsage, "--from is given 1 times and --to 2 times: expected a --to for each --from"},
		{"proxy --from a/0:x --to 127.0.0.1:1 --from b/0:x --to 127.0.0.1:2", exitUsage, "--from b/0:x beside services of a/0: expected services of one process"},
		{"proxy --from 127.0.0.1:1 --to a/0:x --from 127.0.0.1:2 --to b", exitUsage, "--from 127.0.0.1:2 and --to b: expected one on the fabric"},
		{"proxy --from a/0:x --to b/0:y", exitUsage, "--from a/0:x and --to b/0:y: expected one on the fabric, such as app/0:http, and one on this host"},
		{"proxy --from 127.0.0.1:1 --to /tmp/x", exitUsage, "--from 127.0.0.1:1 and --to /tmp/x: expected one on the fabric"},
		{"proxy --from a/0:x --to 127.0.0.1", exitUsage, "--to 127.0.0.1: address 127.0.0.1: missing port in address; expected HOST:PORT, such as 127.0.0.1:8080, or the path of a unix socket"},
		{"proxy --from a.sock --to a/0:x", exitUsage, "--from a.sock: address a.sock: missing port in address; expected HOST:PORT, such as 127.0.0.1:8080, or the path of a unix socket, with a / in it, such as ./a.sock"},
		{"proxy --from a/0:x --to 127.0.0.1:80800", exitUsage, "--to 127.0.0.1:80800: "},
		{"proxy --from a/0:x --to 127.0.0.1:0", exitUsage, "--to 127.0.0.1:0: port 0 cannot be dialed; expected"},
		{"proxy --from a/0:x --to " + long, exitUsage, "--to " + long + ": " + long + " is a path of 108 bytes; expected at most 107"},
		{"proxy --from a/0:x --to 127.0.0.1:1 --listen 127.0.0.1:0 --status " + long, exitFailed, "proxy: status socket: " + long + "."},
		{"proxy --from localhost:nothing --to a/0:x", exitUsage, "--from localhost:nothing: "},
		{"proxy --from fabric --to 127.0.0.1:1", exitUsage, "--from fabric: expected a service of a process, such as app/0:http"},
		{"proxy --from a/0 --to 127.0.0.1:1", exitUsage, `stream: address "a/0" has no service`},
		{"proxy --from a/0:x --to 127.0.0.1:1 --name b/0", exitUsage, "--name with --from a/0:x: expected one or the other, since --from already names the proxy a/0"},
		{"proxy --from a/0:x --to 127.0.0.1:1 --keepalive 999ms", exitUsage, "--keepalive is 999ms: expected 1s or more"},
		{"proxy --from a/0:x --to 127.0.0.1:1 --patience -1s", exitUsage, "--patience is -1s: expected 0 or more"},
		{"proxy --from a/0:x --to 127.0.0.1:1 --drain -1s", exitUsage, "--drain is -1s: expected 0 or more"},
		{"proxy --from " + taken.Addr().String() + " --to a/0:x --listen 127.0.0.1:0", exitFailed, "listen tcp " + taken.Addr().String()},
	} {
		status, _, stderr := weft(strings.Fields(c.line)...)
		if status != c.status || !strings.HasPrefix(stderr, "weft: "+c.want) {
			t.Errorf("weft %s: status %d, standard error %q; want %d and %q", c.line, status, stderr, c.status, c.want)
		}
	}
}
