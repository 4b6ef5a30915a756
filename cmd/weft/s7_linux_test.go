package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/proxy"
	"github.com/weftnet/weft/internal/testenv"
)

// S7: a proxy once accepted 5,000 clients that said nothing, and kept them all.
func TestS7FiveThousandIdleSOCKSClientsAreBounded(t *testing.T) {
	const idle = 5000
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil || files.Cur < 2*idle+1000 {
		t.Skipf("this process may have %d files (%v); expected %d, for both ends of %d connections", files.Cur, err, 2*idle+1000, idle)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.Copy(w, strings.NewReader(r.URL.Path)) }))
	defer server.Close()
	nic, asked := testenv.Loopback(t), testenv.Loopback(t)
	runWeft(t, "web/0 carries connections", "proxy", "--from", "web/0:http", "--to", server.Listener.Addr().String(), "--listen", nic, "--drain", "0s")
	status := filepath.Join(t.TempDir(), "proxy.sock")
	runWeft(t, "carries connections from "+asked+" to fabric", "proxy", "--from", asked, "--to", "fabric", "--listen", "127.0.0.1:0", "--node", nic, "--status", status, "--drain", "0s")
	for range idle {
		c, err := net.DialTimeout("tcp", asked, patience)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_, _ = c.Write([]byte{5}) // it fails if the client gave way already
	}
	through := &http.Transport{Proxy: http.ProxyURL(&url.URL{Scheme: "socks5h", Host: asked})}
	defer through.CloseIdleConnections()
	r, err := (&http.Client{Transport: through, Timeout: patience}).Get("http://http.0.web.weft/real")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(r.Body); r.Body.Close() != nil || err != nil || string(got) != "/real" {
		t.Errorf("a client behind %d idle ones reads %q, %v", idle, got, err)
	}
	// Only the newest idle clients are left. The others gave way before their time was up.
	var s proxy.Status
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		code, stdout, stderr := weft("stat", "--proxy", status, "--json")
		if err := json.Unmarshal([]byte(stdout), &s); code != 0 || err != nil {
			t.Fatalf("status %d, %q, %q, %v", code, stdout, stderr, err)
		}
		if s.Counts.Accepted > idle && s.Counts.Open <= 300 {
			break
		}
		if s.Counts.Accepted > idle && time.Now().After(deadline) {
			t.Fatalf("%d connections are open, of which one is used; want at most 300", s.Counts.Open)
		}
	}
	_, stdout, _ := weft("stat", "--proxy", status)
	_, line, _ := strings.Cut(stdout, "\nturned away: ")
	gaveWay := 0
	if _, err := fmt.Sscanf(line, "%d gave way to others without a request", &gaveWay); err != nil || gaveWay == 0 {
		t.Errorf("weft stat does not count the clients that gave way: %q, %v", stdout, err)
	}
}
