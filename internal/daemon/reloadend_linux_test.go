package daemon

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/ctl"
)

// A reload waits for the names of hosts, each for seconds. The service manager kills a daemon that
// waits for them at its end.
func TestADaemonEndsWhileAReloadReadsTheConfiguration(t *testing.T) {
	s, heard := supervised(t)
	reading, release := make(chan struct{}), make(chan struct{})
	defer close(release)
	c := Config{Socket: filepath.Join(t.TempDir(), "nic.sock"), Listen: "127.0.0.1:0", Supervisor: s}
	c.Reread = func() (Config, error) {
		close(reading)
		<-release
		return Config{}, errors.New("too late")
	}
	d, err := New(c, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx) }()
	d.Reload()
	<-reading
	cancel()
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Fatal("the daemon waits for the reload")
	}
	if err := s.Reloading(); err != nil { // comes after all that the daemon said
		t.Fatal(err)
	}
	var all []string
	for reloading := 0; reloading < 2; {
		switch text, _, _ := strings.Cut(<-heard, "\n"); text {
		case "RELOADING=1":
			reloading++
		case "WATCHDOG=1":
		default:
			all = append(all, text)
		}
	}
	if want := []string{"READY=1", "STOPPING=1"}; !slices.Equal(all, want) {
		t.Errorf("beside the reload, the supervisor heard %q; expected %q", all, want)
	}
}

func TestALookUpForNodesAddDoesNotHoldUpTheEndOfADaemon(t *testing.T) {
	asked, release := make(chan struct{}), make(chan struct{})
	var once sync.Once
	before := net.DefaultResolver
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		once.Do(func() { close(asked) })
		<-release
		return nil, errors.New("no name server")
	}}
	t.Cleanup(func() { close(release); net.DefaultResolver = before })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	d := &Daemon{door: &door{ctx: ctx}}
	c := &ctl.Client{Peer: ctl.Peer{UID: os.Getuid()}}
	err := d.answerNode(c, &ctl.NodeChange{Do: ctl.NodeAdd, Node: "host.weft.invalid"})
	if !errors.Is(err, ctl.ErrNICGone) {
		t.Errorf("the daemon ends, and the request with %v", err)
	}
	select { // the lookup has read the resolver
	case <-asked:
	case <-time.After(time.Minute):
		t.Error("no name server is asked")
	}
}

// The path of the socket may be the next daemon's by then.
func TestAReloadLeavesTheSocketAloneAfterHangUp(t *testing.T) {
	d := startWatched(t, 1, func(int, *Config) {})[0]
	if err := d.hangUp(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(d.Socket(), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	next := *d.live.Load()
	next.mode = 0o666
	d.live.Store(&next)
	if err := d.letIn(); err != nil {
		t.Error(err)
	}
	if st, err := os.Stat(d.Socket()); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("%v: mode %v", err, st.Mode())
	}
}

// A reload may remove a user after the daemon has accepted a connection, and before it knows it.
func TestAUserWhoWasRemovedMeanwhileDoesNotAttach(t *testing.T) {
	d := startWatched(t, 1, func(int, *Config) {})[0]
	k := &client{conn: &ctl.Client{Peer: ctl.Peer{UID: os.Getuid() + 7}}}
	var s *session
	err := d.answerAttach(k, &s, &ctl.Attach{Name: "a/0"})
	if !errors.Is(err, ctl.ErrRefused) || s != nil {
		t.Errorf("the answer is %v; expected %v", err, ctl.ErrRefused)
	}
	if !d.says("process not attached", "expected the daemon's user, root, or one of allow_uids") {
		t.Error("the log does not say so")
	}
}
