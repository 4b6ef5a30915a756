package ctl

import (
	"errors"
	"io"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// keeperLinks are the two ends of the connection between a daemon and a keeper.
func keeperLinks(t *testing.T) (daemon, keeper *KeeperLink) {
	t.Helper()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	var ends [2]*KeeperLink
	for i, fd := range pair {
		if ends[i], err = NewKeeperLink(os.NewFile(uintptr(fd), "keeper link")); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { ends[i].Close() })
	}
	return ends[0], ends[1]
}

// The daemon sends under the lock of all jobs, so a keeper that is stopped would stop them all.
func TestAKeeperThatReadsNothingStopsNoSender(t *testing.T) {
	daemon, keeper := keeperLinks(t)
	daemon.within = time.Millisecond
	err := ends(t, "packets that no keeper reads", func() (err error) {
		for err == nil {
			err = daemon.Tell(&ToKeeper{Stops: true})
		}
		return err
	})
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("%v; expected a timeout", err)
	}
	if err = daemon.Close(); err != nil {
		t.Fatal(err)
	}
	for err == nil {
		var m ToKeeper
		err = keeper.receive(&m)
	}
	if !errors.Is(err, io.EOF) {
		t.Errorf("behind the packets that were sent comes %v; expected io.EOF", err)
	}
}
