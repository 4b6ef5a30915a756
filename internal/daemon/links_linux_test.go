package daemon_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/daemon"
	"github.com/weftnet/weft/internal/fabric"
	"github.com/weftnet/weft/internal/link/xdp"
	"github.com/weftnet/weft/internal/registry/file"
	"github.com/weftnet/weft/internal/testbed"
)

// site is two daemons that know one another, both on this host or each on its own.
type site struct {
	c   []daemon.Config
	bed *testbed.Testbed // nil: this host
}

// run runs the ith daemon inside the test, and returns its log.
func (s *site) run(t *testing.T, i int) *logWriter {
	t.Helper()
	w := &logWriter{t: t}
	var d *daemon.Daemon
	open := func() (err error) {
		d, err = daemon.New(s.c[i], w)
		return err
	}
	var err error
	if s.bed == nil {
		err = open()
	} else {
		err = s.bed.Host(i).Do(open)
	}
	if errors.Is(err, xdp.ErrUnavailable) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	serve(t, w, d)
	return w
}

// child runs the ith daemon in its own process.
func (s *site) child(t *testing.T, i int) *exec.Cmd {
	t.Helper()
	if s.bed == nil {
		return child(t, "daemon", marshal(t, s.c[i]))
	}
	c := s.bed.Host(i).Command(context.Background(), "/proc/self/exe")
	return begin(t, c.Cmd, c.Start, "daemon", marshal(t, s.c[i]))
}

// onLinks runs a test over every kind of link that a daemon may have: on one host, and between
// hosts whose network loses some of all frames.
func onLinks(t *testing.T, loss float64, test func(t *testing.T, s *site)) {
	t.Run("udp", func(t *testing.T) { test(t, &site{c: configs(t, 2)}) })
	for _, link := range []string{"udp", "xdp"} {
		t.Run(link+" between hosts", func(t *testing.T) { test(t, onHosts(t, link, testbed.Config{Loss: loss})) })
	}
}

// onHosts returns two daemons with a link between hosts.
func onHosts(t *testing.T, link string, c testbed.Config) *site {
	t.Helper()
	c.Hosts = 2
	bed, err := testbed.New(c)
	if errors.Is(err, testbed.ErrUnavailable) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { bed.Close() })
	s := &site{c: configs(t, 2), bed: bed}
	var nodes []file.Entry
	for i := range s.c {
		s.c[i].Link, s.c[i].Listen = link, fmt.Sprintf("%v:%d", bed.Host(i).Addr(), daemon.DefaultPort)
		nodes = append(nodes, file.Entry{Address: s.c[i].Listen})
	}
	for i := range s.c {
		s.c[i].Nodes = nodes
	}
	return s
}

// A user who asks for AF_XDP by name and may not have it is told why. If the daemon may choose,
// it takes another link, and the log says why (decision 12).
func TestALinkThatCannotBeHadIsRefusedByNameAndReplacedIfNobodyNamedIt(t *testing.T) {
	bed, err := testbed.New(testbed.Config{Hosts: 2})
	if errors.Is(err, testbed.ErrUnavailable) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { bed.Close() })
	listen := fmt.Sprintf("%v:%d", bed.Host(0).Addr(), daemon.DefaultPort)
	for _, test := range []struct {
		c    daemon.Config
		user uint32
		want []string // in its output
	}{
		{daemon.Config{Link: "xdp", Listen: listen}, 65534, []string{"failed: ", "interface eth0: ", "AF_XDP unavailable", "needs CAP_NET_ADMIN"}},
		{daemon.Config{Link: "auto", Prefer: "latency", Listen: listen}, 65534, []string{"ready", "link=udp", "AF_XDP unavailable", "needs CAP_NET_ADMIN"}},
		{daemon.Config{Link: "xdp", Listen: listen, MTU: 5000}, 0, []string{"failed: ", "interface eth0: MTU of 5000 bytes: not in "}},
		{daemon.Config{Link: "auto", Prefer: "latency", Listen: listen, MTU: 5000}, 0, []string{"ready", "link=udp", "interface eth0: MTU of 5000 bytes: not in "}},
		{daemon.Config{Link: "xdp", Listen: "127.0.0.1:0"}, 0, []string{"failed: ", "AF_XDP unavailable: the address is 127.0.0.1; expected one of a network interface"}},
		{daemon.Config{Link: "auto", Prefer: "latency", Listen: "127.0.0.1:0"}, 0, []string{"ready", "link=udp", "AF_XDP unavailable: the address is 127.0.0.1"}},
	} {
		dir, err := os.MkdirTemp("", "weft") // not t.TempDir, which another user may not enter
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { os.RemoveAll(dir) })
		if err := os.Chmod(dir, 0o777|os.ModeSticky); err != nil {
			t.Fatal(err)
		}
		test.c.Socket, test.c.StateDir = dir+"/sock", dir+"/state"
		x := bed.Host(0).Command(t.Context(), "/proc/self/exe")
		// the key file of the tests is root's
		x.Env = append(os.Environ(), fabric.FileVariable+"=", roleVariable+"=daemon="+marshal(t, test.c))
		x.SysProcAttr.Credential = &syscall.Credential{Uid: test.user, Gid: test.user}
		said := &logWriter{t: t, done: true}
		x.Stdout, x.Stderr = said, said
		if err := x.Start(); errors.Is(err, os.ErrPermission) {
			t.Skip("another user cannot run the test's binary")
		} else if err != nil {
			t.Fatal(err)
		}
		over := start(x.Wait)
		all := func() bool {
			return !slices.ContainsFunc(test.want, func(w string) bool { return !strings.Contains(said.String(), w) })
		}
		for end := time.Now().Add(patience); !all() && time.Now().Before(end); {
			time.Sleep(5 * time.Millisecond)
		}
		if !all() {
			t.Errorf("link %q, prefer %q, as user %d: it says %q; expected %q", test.c.Link, test.c.Prefer, test.user, said, test.want)
		}
		x.Process.Kill()
		<-over
	}
}
