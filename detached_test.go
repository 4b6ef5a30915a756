package weft

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/limits"
)

// The NIC expels a process in the middle of a long message, here because the process rings its
// doorbell without a command. The expulsion ends the receive. The rest of the message must not
// change the memory, because the memory belongs to the program again.
func TestTheMemoryOfAProcessThatIsThrownOutIsLeftAlone(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	links := NewSwitch()
	b, err := Open(ctx, Config{Name: Name{App: "b"}, Link: links.Link()})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	a, err := Open(ctx, Config{Name: Name{App: "a"}, Link: links.Link(), Nodes: []Node{{ID: b.NIC().ID(), Addr: b.NIC().Addr()}}})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	if _, err := a.WaitName(ctx, b.Name()); err != nil {
		t.Fatal(err)
	}
	buf, message, sent := make([]byte, 64<<20), bytes.Repeat([]byte{1}, 64<<20), make(chan error, 1)
	copied := func() uint64 { return b.NIC().Counters()["nic_copied_in"] }
	var op *Op
	resume := func() {}
	for midway := false; !midway; {
		before := copied()
		op = new(Op)
		if err = b.StartRecv(op, AnyProcess, 1, buf); err != nil {
			t.Fatal(err)
		}
		go func() { sent <- a.Send(ctx, b.Name(), 1, message) }()
		for copied() == before && ctx.Err() == nil {
			time.Sleep(50 * time.Microsecond)
		}
		held, goOn := make(chan struct{}), make(chan struct{})
		go a.nic.poller.Do(func(clock.Time) { close(held); <-goOn })
		<-held
		// Frames in flight arrive.
		for last := before; last != copied(); time.Sleep(time.Millisecond) {
			last = copied()
		}
		if resume = func() { close(goOn) }; op.Ended() { // everything has been sent
			resume()
			if _, err := op.Wait(ctx); err != nil || <-sent != nil {
				t.Fatal(err)
			}
			continue
		}
		midway = true
	}
	b.nic.poller.Do(func(clock.Time) {
		for range limits.EmptyRings + 2 {
			b.nic.engine.Ring(b.addr.Slot)
		}
	})
	if _, err := op.Wait(ctx); !errors.Is(err, ErrNICGone) {
		t.Fatalf("the receive has ended with %v; expected %v", err, ErrNICGone)
	}
	clear(buf)
	resume()
	<-sent
	if at := bytes.IndexByte(buf, 1); at >= 0 {
		t.Errorf("byte %d of the memory was written behind the end of the receive", at)
	}
}
