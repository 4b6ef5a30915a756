package daemon_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/ctl"
)

// These errors tell a program why it cannot attach, for example one that opens its own NIC in
// that case.

func TestAttachSaysThatTheNICIsFull(t *testing.T) {
	c := configs(t, 1)[0]
	c.MaxProcesses = 1
	run(t, c)
	mustAttach(t, c, "a/0")
	if _, err := attach(t.Context(), c.Socket, "a/1"); !errors.Is(err, weft.ErrFull) {
		t.Errorf("the process after the last: %v; expected %v", err, weft.ErrFull)
	}
}

func TestAttachSaysThatTheNameIsTaken(t *testing.T) {
	c := configs(t, 1)[0]
	run(t, c)
	mustAttach(t, c, "dup/0")
	_, err := attach(t.Context(), c.Socket, "dup/0")
	if !errors.Is(err, weft.ErrNameTaken) {
		t.Fatalf("the second process of a name: %v; expected %v", err, weft.ErrNameTaken)
	}
	if s := err.Error(); strings.Count(s, "is taken") != 1 || !strings.Contains(s, "dup/0 is the process at slot") {
		t.Errorf("%q; expected that it says once that the name is taken, and by which process", s)
	}
}

func TestAttachSaysThatTheDaemonIsOfAnotherVersion(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "nic.sock")
	l, err := ctl.Listen(socket, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() { // a daemon of the next release, as far as this one sees it
		for {
			c, err := l.Accept()
			if errors.Is(err, net.ErrClosed) {
				return
			}
			c.TurnAway(fmt.Errorf("%w: got version %d, this daemon has %d", ctl.ErrVersion, ctl.Version, ctl.Version+1))
		}
	}()
	if _, err := attach(t.Context(), socket, "a/0"); !errors.Is(err, weft.ErrOtherVersion) {
		t.Errorf("%v; expected %v", err, weft.ErrOtherVersion)
	}
}

func TestAttachSaysThatTheDaemonIsNotTrusted(t *testing.T) {
	dir := dirForAll(t)
	if err := os.Chmod(dir, 0o777|os.ModeSticky); err != nil {
		t.Fatal(err)
	}
	c := configs(t, 1)[0]
	c.Socket = filepath.Join(dir, "nic.sock")
	outsiderRuns(t, "daemon", marshal(t, c))
	_, err := attach(t.Context(), c.Socket, "a/0")
	if !errors.Is(err, weft.ErrNotTrusted) || !strings.Contains(err.Error(), dir) {
		t.Errorf("in a directory that others can write: %v; expected %v, and the directory %s", err, weft.ErrNotTrusted, dir)
	}
}

// The error of a daemon that hangs used to be "context deadline exceeded" only.
func TestAttachNamesTheDaemonThatDoesNotAnswer(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "nic.sock")
	l, err := ctl.Listen(socket, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	asked := make(chan error, 1)
	go func() {
		c, err := l.Accept()
		if err == nil {
			defer c.Close()
			_, err = c.Receive()
		}
		asked <- err
		cancel()
		<-t.Context().Done()
	}()
	_, err = attach(ctx, socket, "a/0")
	if err := ends(t, "the request", asked); err != nil {
		t.Fatal(err)
	}
	waited := regexp.MustCompile(`the daemon at ` + regexp.QuoteMeta(socket) + fmt.Sprintf(` \(process %d\)`, os.Getpid()) + ` has not answered for [0-9.ms]+:`)
	if !errors.Is(err, context.Canceled) || !waited.MatchString(err.Error()) {
		t.Errorf("%v; expected %v, with %s", err, context.Canceled, waited)
	}
}

func TestAttachSaysThatItIsNotPermitted(t *testing.T) {
	dir := dirForAll(t)
	// A socket that no other user may connect to, and a daemon that does not serve this user.
	for i, allowed := range [][]int{nil, {12345}} {
		c := configs(t, 1)[0]
		c.Socket, c.AllowUIDs = filepath.Join(dir, fmt.Sprintf("%d.sock", i)), allowed
		run(t, c)
		out := outsiderSays(t, "outsider="+c.Socket)
		if !strings.HasPrefix(out, "not permitted: ") || !strings.Contains(out, "allow_uids") {
			t.Errorf("with allow_uids %v an outsider was told %q; expected that it is not permitted, and the word allow_uids", allowed, out)
		}
	}
}
