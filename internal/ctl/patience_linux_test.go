package ctl

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// accepted returns the daemon's end of a connection whose other end is quiet.
func accepted(t *testing.T) (daemon *Client, quiet *Conn) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "nic.sock")
	l, err := Listen(path, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	quiet = dial(t, path)
	if daemon, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { daemon.Close() })
	return daemon, quiet
}

// ends returns the error with which f ends. A hang fails the test.
func ends(t *testing.T, what string, f func() error) error {
	t.Helper()
	ended := make(chan error, 1)
	go func() { ended <- f() }()
	select {
	case err := <-ended:
		return err
	case <-time.After(time.Minute):
		t.Fatalf("%s: it has not ended after a minute", what)
		return nil
	}
}

// Without a bound, a client that reads no replies would hold the slot of its process, and delay
// the end of the daemon.
func TestAClientThatReadsNothingHoldsUpNoReply(t *testing.T) {
	daemon, _ := accepted(t)
	daemon.patience = time.Millisecond
	err := ends(t, "replies that no client reads", func() (err error) {
		for err == nil {
			err = daemon.Reply(&Reply{})
		}
		return err
	})
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("%v; expected a timeout", err)
	}
}

// A client that has gone is turned away without an error.
func TestAClientThatHasGoneIsTurnedAway(t *testing.T) {
	daemon, quiet := accepted(t)
	if err := quiet.Close(); err != nil {
		t.Fatal(err)
	}
	if err := ends(t, "turning away", func() error { return daemon.TurnAway(ErrRefused) }); err != nil {
		t.Error(err)
	}
}

// The daemon turns only a few clients away at once. Clients that send no request must not keep
// the others from learning their reason.
func TestAClientThatAsksNothingIsTurnedAwayAllTheSame(t *testing.T) {
	daemon, quiet := accepted(t)
	daemon.askPatience = time.Millisecond
	if err := ends(t, "turning away", func() error { return daemon.TurnAway(ErrRefused) }); err != nil {
		t.Errorf("%v; expected the connection to close", err)
	}
	if _, err := quiet.Nodes(t.Context()); !errors.Is(err, ErrNICGone) {
		t.Errorf("the client then asks: %v; expected %v", err, ErrNICGone)
	}
}
