package xdp_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/link/linktest"
	"github.com/weftnet/weft/internal/link/xdp"
	"github.com/weftnet/weft/internal/testbed"
)

func TestFramesAreAnnouncedOnlyToWhoSleeps(t *testing.T) {
	bed := hosts(t, testbed.Config{})
	a, b := listen(t, bed.Host(0), xdp.Config{}), listen(t, bed.Host(1), xdp.Config{})
	arrives(t, a, b, "the first frames") // the way is known
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
