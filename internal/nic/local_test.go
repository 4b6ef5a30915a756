package nic

import (
	"testing"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/link"
	"github.com/weftnet/weft/internal/link/fault"
	"github.com/weftnet/weft/internal/link/mem"
	"github.com/weftnet/weft/internal/vni"
)

// watched is a link that calls asked whenever it is polled for frames.
type watched struct {
	*mem.Port
	asked func()
}

func (w *watched) Poll(now clock.Time, to link.Receiver) (int, clock.Time) {
	if w.asked != nil {
		w.asked()
	}
	return w.Port.Poll(now, to)
}

func TestAShortMessageOnOneNICIsThereBeforeTheLinkIsAsked(t *testing.T) {
	var w *watched
	f := newWideFabric(t, 1472, 1, fault.Config{}, func(c *Config) {
		w = &watched{Port: c.Link.(*mem.Port)}
		c.Link = w
	})
	a, b := f.process(0, "a/0"), f.process(0, "b/0")
	for _, n := range []int{0, 64, limits.StagedMessage, limits.StagedMessage + 1} {
		data, buf := pattern(n, 1), make([]byte, n)
		r := b.recv("a/0", 1, 0, buf)
		f.step()
		s := a.send("b/0", 1, 0, data)
		asked := 0
		w.asked = func() {
			if done, want := b.done(true, r) && a.done(false, s), n <= limits.StagedMessage; asked == 0 && done != want {
				t.Errorf("%d bytes: delivered and sent before the link is asked: %v, expected %v", n, done, want)
			}
			asked++
		}
		b.wantReceived(r, buf, data)
		a.wantSent(s)
		if w.asked = nil; asked == 0 {
			t.Errorf("%d bytes: the link was not asked", n)
		}
	}
	f.noLeaks()
}

func TestAShortMessageOnOneNICOvertakesNoLongOne(t *testing.T) {
	f := newFabric(t, 1, fault.Config{})
	a, b := f.process(0, "a/0"), f.process(0, "b/0")
	long, short := pattern(8*limits.LocalPiece, 1), pattern(64, 2)
	first, second := a.send("b/0", 1, 0, long), a.send("b/0", 1, 0, short)
	one, two := make([]byte, len(long)), make([]byte, len(long))
	b.wantReceived(b.recv("a/0", 1, 0, one), one, long)
	b.wantReceived(b.recv("a/0", 1, 0, two), two, short)
	a.wantSent(first)
	a.wantSent(second)
	f.noLeaks()
}

func TestAMessageOnOneNICPassesPUTsAndGETsOfMoreThanAPoll(t *testing.T) {
	f := newFabric(t, 1, fault.Config{})
	a, b := f.process(0, "a/0"), f.process(0, "b/0")
	there, hello, buf := make([]byte, 300*limits.LocalPiece), []byte("hello"), make([]byte, 5)
	id, key, err := b.e.AddRegion(b.slot, there)
	if err != nil {
		t.Fatal(err)
	}
	for _, code := range []vni.Code{vni.CodePut, vni.CodeGet} {
		r := b.recv("a/0", 1, 0, buf)
		long := a.start(code, &vni.SendContext{Flags: vni.WantNotify, Remote: vni.Remote{NIC: 1, Slot: b.slot, Gen: b.gen, Region: id, Key: key}}, make([]byte, len(there)))
		short := a.send("b/0", 1, 0, hello)
		b.wantReceived(r, buf, hello)
		a.wantSent(short)
		if a.done(false, long) {
			t.Errorf("%v: a message has come when it was over", code)
		}
		a.wantSent(long)
	}
	f.noLeaks()
}
