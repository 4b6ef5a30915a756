package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weftnet/weft/internal/testenv"
)

// ofUser returns the line that weft proxy password prints for a user.
func ofUser(t *testing.T, user, password string) string {
	t.Helper()
	c := exec.Command("/proc/self/exe", "proxy", "password", user)
	c.Env, c.Stdin = append(os.Environ(), asWeft+"=1"), strings.NewReader(password+"\n")
	out, err := c.Output()
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func TestAProxyLetsUsersInAlone(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.Copy(w, strings.NewReader(r.URL.Path)) }))
	defer server.Close()
	users := filepath.Join(t.TempDir(), "users")
	if err := os.WriteFile(users, []byte(ofUser(t, "alice", "open sesame")), 0o600); err != nil {
		t.Fatal(err)
	}
	nic, port := testenv.Loopback(t), testenv.Loopback(t)
	runWeft(t, "web/0 carries connections", "proxy", "--from", "web/0:http", "--to", server.Listener.Addr().String(), "--listen", nic, "--drain", "0s")
	runWeft(t, " carries connections from ", "proxy", "--from", port, "--to", "fabric", "--auth", users, "--listen", "127.0.0.1:0", "--node", nic, "--drain", "0s")
	get := func(user *url.Userinfo) (string, error) {
		through := &http.Transport{Proxy: http.ProxyURL(&url.URL{Scheme: "socks5h", Host: port, User: user})}
		defer through.CloseIdleConnections()
		r, err := (&http.Client{Transport: through, Timeout: patience}).Get("http://http.0.web.weft/in")
		if err != nil {
			return "", err
		}
		defer r.Body.Close()
		b, err := io.ReadAll(r.Body)
		return string(b), err
	}
	if got, err := get(url.UserPassword("alice", "open sesame")); err != nil || got != "/in" {
		t.Errorf("alice reads %q, %v", got, err)
	}
	// With users, a proxy may have an address that other hosts reach.
	if err := (&proxyFlags{ways: []proxyWay{{from: "0.0.0.0:1", to: toFabric}}, auth: users}).completeAuth(); err != nil {
		t.Errorf("with --auth: %v", err)
	}
	if err := (&proxyFlags{ways: []proxyWay{{from: "0.0.0.0:1", to: toFabric}}, insecure: true}).completeAuth(); err != nil {
		t.Errorf("with --insecure: %v", err)
	}
	// The users of one way do not guard another.
	two := []proxyWay{{from: "0.0.0.0:1", to: toFabric}, {from: "0.0.0.0:2", to: "web/0:http"}}
	if err := (&proxyFlags{ways: two, auth: users}).completeAuth(); err == nil || !strings.Contains(err.Error(), "--from 0.0.0.0:2: other hosts could enter") {
		t.Errorf("a way beside one with --auth: %v", err)
	}
	for what, user := range map[string]*url.Userinfo{"a wrong password": url.UserPassword("alice", "x"), "no user": nil, "an unknown user": url.UserPassword("bob", "open sesame")} {
		if got, err := get(user); err == nil {
			t.Errorf("%s: it reads %q", what, got)
		}
	}
}

// Without it, other hosts of the LAN enter the fabric, or use the device.
func TestWhatOtherHostsReachNeedsAuthenticationOrAWord(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	hash := "$2a$10$" + strings.Repeat("a", 53)
	open := file("open", "alice:"+hash, 0o640)
	plain := file("plain", "alice:secret", 0o600)
	cert, key, ca := nbdCertificates(t, dir)
	shown := file("shown-key.pem", string(contents(t, key)), 0o644)
	nbd := "mem nbd --server mem/0 --size 1MiB"
	for _, c := range []struct {
		line   string
		status int
		want   string
	}{
		{"proxy --from 0.0.0.0:0 --to fabric", exitUsage, "--from 0.0.0.0:0: other hosts could enter the fabric through it without a password; expected --auth FILE, or an address of 127.0.0.0/8, or --insecure"},
		{"proxy --from :0 --to fabric", exitUsage, "--from :0: other hosts could enter"},
		{"proxy --from [::]:0 --to a/0:x", exitUsage, "--from [::]:0: other hosts could enter the fabric through it without a password; expected an address of 127.0.0.0/8, or --insecure"},
		{"proxy --from 127.0.0.1:0 --to a/0:x --auth " + plain, exitUsage, "--auth with --to a/0:x: expected --to fabric"},
		{"proxy --from 127.0.0.1:0 --to fabric --auth " + open, exitFailed, "--auth: " + open + " has mode 0640: others may read or write it; expected 0600 (chmod 600 " + open + ")"},
		{"proxy --from 127.0.0.1:0 --to fabric --auth " + plain, exitFailed, "--auth " + plain + `: line 1: user "alice": the hash is not one of bcrypt`},
		{"proxy --from 127.0.0.1:0 --to fabric --auth " + dir, exitFailed, "--auth: " + dir + " is no regular file"},
		{"proxy --from 127.0.0.1:0 --to fabric --auth /no/such", exitFailed, "--auth: open /no/such: no such file"},
		{"proxy --from 127.0.0.1:0 --to fabric --connections 0", exitUsage, `invalid argument "0" for "--connections" flag: expected a whole number from 1 to 65536`},
		{"proxy password", exitUsage, "no arguments: expected weft proxy password USER"},
		{nbd + " --tcp 0.0.0.0:0", exitUsage, "--tcp 0.0.0.0:0: other hosts could read and write the device; expected --tls-cert, --tls-key and --tls-ca, or an address of 127.0.0.0/8, or --insecure"},
		{nbd + " --unix " + dir + "/s --tls-cert " + cert, exitUsage, `--tls-cert is "` + cert + `", --tls-key "" and --tls-ca "", with --unix: expected --tcp`},
		{nbd + " --tcp 127.0.0.1:0 --tls-cert " + cert, exitUsage, `--tls-cert is "` + cert + `" and --tls-key is "": expected both or none`},
		{nbd + " --tcp 127.0.0.1:0 --tls-ca " + ca, exitUsage, `--tls-ca is "` + ca + `" without --tls-cert: expected`},
		{nbd + " --tcp 127.0.0.1:0 --tls-cert " + cert + " --tls-key " + shown, exitFailed, "--tls-key: " + shown + " has mode 0644: others may read"},
		{nbd + " --tcp 127.0.0.1:0 --tls-cert " + key + " --tls-key " + key, exitFailed, "--tls-cert " + key + " and --tls-key " + key + ": tls: "},
		{nbd + " --tcp 127.0.0.1:0 --tls-cert " + cert + " --tls-key " + key + " --tls-ca " + key, exitFailed, "--tls-ca " + key + " has no certificate; expected one or more in PEM"},
	} {
		status, _, stderr := weft(strings.Fields(c.line)...)
		if status != c.status || !strings.HasPrefix(stderr, "weft: "+c.want) {
			t.Errorf("weft %s: status %d, standard error %q; want %d and %q", c.line, status, stderr, c.status, c.want)
		}
	}
}

// contents reads a file.
func contents(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
