package ctl

import (
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// keeperLinks returns the two ends of the connection between a daemon and a keeper.
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

// The daemon sends under the lock of all jobs, so a stopped keeper would block them all.
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

func TestALinkOfAKeeperIsAPacketSocketAndEndsWithEither(t *testing.T) {
	before := openFiles(t)
	f, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := NewKeeperLink(f); err == nil {
		t.Error("a file is taken for a link")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	out, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	if f, err = out.(*net.TCPConn).File(); err != nil {
		t.Fatal(err)
	}
	if _, err := NewKeeperLink(f); err == nil || !strings.Contains(err.Error(), "is no unix socket") {
		t.Errorf("a TCP socket: %v", err)
	}
	out.Close()
	l.Close()
	closedAgain(t, "links that are none", before)

	daemon, keeper := keeperLinks(t)
	if err := daemon.Tell(&ToKeeper{Await: &KeeperAwait{Name: "x"}}); err != nil {
		t.Fatal(err)
	}
	if err := daemon.Tell(&ToKeeper{Begin: &KeeperBegin{Reserve: wholeReserve()}}); err != nil {
		t.Fatal(err)
	}
	for i, want := range []bool{true, false} {
		m, err := keeper.Told()
		if err != nil || (m.Await != nil) != want {
			t.Fatalf("packet %d: %+v, %v", i, m, err)
		}
	}
	if err := daemon.Tell(&ToKeeper{Await: &KeeperAwait{}}); err != nil {
		t.Fatal(err)
	}
	if _, err := keeper.Told(); !errors.Is(err, ErrBadRequest) {
		t.Errorf("an early start behind the reservation: %v", err)
	}
	if err := keeper.Answer(&FromKeeper{Started: []int{4}}); err != nil {
		t.Fatal(err)
	}
	if m, err := daemon.Answered(); err != nil || len(m.Started) != 1 {
		t.Errorf("%+v, %v", m, err)
	}
	if err := keeper.Answer(&FromKeeper{Ranks: []RankInfo{{Standing: &Standing{}}}}); err != nil {
		t.Fatal(err)
	}
	if _, err := daemon.Answered(); !errors.Is(err, ErrBadRequest) {
		t.Errorf("a rank with what only the NIC knows: %v", err)
	}
	if err := keeper.Close(); err != nil {
		t.Fatal(err)
	}
	if m, err := daemon.Answered(); m != nil || !errors.Is(err, io.EOF) {
		t.Errorf("behind the end of the keeper: %+v, %v; expected io.EOF", m, err)
	}
	if m, err := keeper.Told(); m != nil || !errors.Is(err, io.EOF) {
		t.Errorf("behind its own end: %+v, %v; expected io.EOF", m, err)
	}
}
