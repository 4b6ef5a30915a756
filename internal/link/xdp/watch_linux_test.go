package xdp_test

import (
	"bytes"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weftnet/weft/internal/link/linktest"
	"github.com/weftnet/weft/internal/link/xdp"
	"github.com/weftnet/weft/internal/testbed"
)

func TestFramesAreAnnouncedOnlyToWhoSleeps(t *testing.T) {
	bed := hosts(t, testbed.Config{})
	a, b := listen(t, bed.Host(0), xdp.Config{}), listen(t, bed.Host(1), xdp.Config{})
	arrives(t, a, b, "the first frames") // the path is known
	last := []byte("the last of them")
	linktest.Send(t, a, b.Addr(), last)
	for in := (linktest.Inbox{}); len(in.Frames) == 0 || !bytes.Equal(in.Frames[len(in.Frames)-1], last); {
		linktest.Collect(t, b, &in, len(in.Frames)+1)
	}
	for range 3 {
		linktest.Send(t, a, b.Addr(), []byte("to one that is awake"))
		for began := time.Now(); !b.Glance(); {
			if time.Since(began) > time.Minute {
				t.Fatal("nothing came")
			}
		}
		if b.Announced() {
			t.Error("a frame is announced to a driver that does not sleep")
		}
		if !b.Sleep() {
			t.Error("Sleep overlooks a frame that has come before")
		}
		b.Poll(0, &linktest.Inbox{})
		if ready := b.Sleep(); ready || b.Sleep() {
			t.Error("Sleep finds a frame, and none has come")
		}
		linktest.Send(t, a, b.Addr(), []byte("to one that sleeps"))
		for began := time.Now(); !b.Announced(); {
			if time.Since(began) > time.Minute {
				t.Fatal("a frame has not been announced to a driver that sleeps")
			}
		}
		b.Awake()
		if b.Announced() {
			t.Error("announced to a driver that is awake again")
		}
	}
	b.Close()
	b.Awake()
	if b.Sleep() {
		t.Error("a closed driver has frames")
	}
}

// The ordinary socket is polled only from time to time. But after it has woken the user, the
// next poll must find its frame. Otherwise the user would sleep and wake repeatedly.
func TestWhatWakesASleeperIsHandedOverByTheNextPoll(t *testing.T) {
	bed := hosts(t, testbed.Config{})
	x, u := listen(t, bed.Host(0), xdp.Config{}), plain(t, bed.Host(0), bed.Host(0).Addr())
	for i := range 5 {
		var in linktest.Inbox
		for end := time.Now().Add(time.Minute); x.Sleep(); x.Poll(0, &in) {
			if time.Now().After(end) {
				t.Fatal("there are frames, and none has been sent")
			}
		}
		linktest.Send(t, u, x.Addr(), []byte("from this host"))
		fds := []unix.PollFd{{Fd: int32(x.Fd()), Events: unix.POLLIN}}
		if n, err := unix.Poll(fds, 60_000); n != 1 {
			t.Fatal("the descriptor has not become readable: ", err)
		}
		x.Awake()
		if n, _ := x.Poll(0, &in); n != 1 {
			t.Errorf("sleep %d: the first poll behind it brings %d frames; expected 1", i, n)
			linktest.Collect(t, x, &in, 1)
		}
	}
}
