package nic

import (
	"testing"
	"time"

	"github.com/weftnet/weft/internal/link/fault"
	"github.com/weftnet/weft/internal/vni"
)

// probe posts a probe, or a receive with a ticket.
func (p *tester) probe(code vni.Code, c vni.ReceiveContext) int {
	p.f.t.Helper()
	i, ok := p.v.TakeReceive()
	if !ok {
		p.f.t.Fatal("no receive context is free")
	}
	c.Flags, c.PoolIndex = c.Flags|vni.WantNotify, vni.NoPool
	p.v.SetReceive(i, &c)
	p.v.SetDirect(true, i, nil)
	p.post(vni.Command{Code: code, Context: uint16(i)})
	p.f.until(time.Second, "the command is read", func() bool { return !p.e.process(p.slot).vni.Pending() })
	return i
}

func TestATicketTakesItsMessageOrNone(t *testing.T) {
	eachPlace(t, func(t *testing.T, f *fabric, a, b *tester) {
		a.send("b/0", 3, 0, nil)
		first := b.finish(true, b.probe(vni.CodeProbe, vni.ReceiveContext{Flags: vni.AnyTag}))
		ticket := first.Full - first.Len
		if first.Status != vni.StatusOK || first.From != a.name || first.Tag != 3 || ticket == 0 {
			t.Fatalf("a probe was told %+v", first)
		}
		a.wantSent(a.send("b/0", 3, vni.WantAccept, nil))
		for _, wrong := range []vni.ReceiveContext{{Tag: 3, Most: ticket + 1}, {Tag: 4, Most: ticket}, {Tag: 3, Most: ticket, Sender: b.name}} {
			if c := b.finish(true, b.probe(vni.CodeReceive, wrong)); c.Status != vni.StatusWithdrawn {
				t.Errorf("a receive with %+v, where ticket %d is of tag 3, ended with %+v", wrong, ticket, c)
			}
		}
		for n, want := range []vni.Status{vni.StatusOK, vni.StatusWithdrawn} {
			if c := b.finish(true, b.probe(vni.CodeReceive, vni.ReceiveContext{Tag: 3, Most: ticket})); c.Status != want {
				t.Errorf("receive %d with the ticket ended with %+v, want %v", n, c, want)
			}
		}
		if c := b.finish(true, b.probe(vni.CodeProbe, vni.ReceiveContext{Tag: 3})); c.Full-c.Len == ticket {
			t.Errorf("the second message has ticket %d, as the first had", ticket)
		}
		b.finish(true, b.recv("", 3, 0, nil))
	})
}

func TestAProbeEndsAsAReceiveWould(t *testing.T) {
	f := newFabric(t, 2, fault.Config{})
	a, b := f.process(0, "a/0"), f.process(1, "b/0")
	f.known("a/0", "b/0")
	i, _ := b.v.TakeReceive()
	b.v.SetReceive(i, &vni.ReceiveContext{Flags: vni.WantNotify, PoolIndex: vni.NoPool, Size: 1, Len: 8})
	b.v.SetDirect(true, i, [][]byte{make([]byte, 8)})
	b.post(vni.Command{Code: vni.CodeProbe, Context: uint16(i)})
	if c := b.finish(true, i); c.Status != vni.StatusBadArgument {
		t.Errorf("a probe with memory ended with %v", c.Status)
	}
	if c := b.finish(true, b.probe(vni.CodeProbe, vni.ReceiveContext{Flags: vni.AnyTag, Most: 1})); c.Status != vni.StatusWithdrawn {
		t.Errorf("a probe that does not wait ended with %v", c.Status)
	}
	cancelled := b.probe(vni.CodeProbe, vni.ReceiveContext{Flags: vni.AnyTag})
	b.post(vni.Command{Code: vni.CodeCancel, Context: uint16(cancelled), Size: vni.CancelReceive})
	if c := b.finish(true, cancelled); c.Status != vni.StatusCancelled {
		t.Errorf("a probe that was cancelled ended with %v", c.Status)
	}
	b.wantSent(b.send("a/0", 1, 0, []byte("a session")))
	named := b.probe(vni.CodeProbe, vni.ReceiveContext{Sender: a.name, Flags: vni.AnyTag})
	f.kill(0)
	if c := b.finish(true, named); c.Status != vni.StatusUnreachable {
		t.Errorf("a probe for a process whose NIC is silent ended with %v", c.Status)
	}
	if p := b.e.process(b.slot); p.probes.n != 0 {
		t.Errorf("%d probes are left", p.probes.n)
	}
}

func TestWhateverWaitsForANameEndsWithTheNICOnWhichItComes(t *testing.T) { // decision 7
	f := newFabric(t, 2, fault.Config{})
	b := f.process(1, "b/0")
	later, _ := vni.ParseName("a/0")
	waits := []int{b.recv("a/0", 1, 0, nil), b.probe(vni.CodeProbe, vni.ReceiveContext{Sender: later, Tag: 2})}
	f.process(0, "a/0")
	f.known("a/0", "b/0")
	f.kill(0)
	for i, what := range []string{"receive", "probe"} {
		if c := b.finish(true, waits[i]); c.Status != vni.StatusUnreachable {
			t.Errorf("a %s ended with %v", what, c.Status)
		}
	}
}

// The messages in a closed ring wait again, and so a probe reports them if it has waited for
// longer than the ring was there.
func TestAProbeIsToldOfWhatAClosedRingGivesBack(t *testing.T) {
	eachPlace(t, func(t *testing.T, f *fabric, a, b *tester) {
		w := b.gather(nil, 3, 64, 0)
		a.wantSent(a.send("b/0", 3, 0, []byte("back")))
		f.until(time.Second, "it is in the ring", func() bool { return w.entry().ring.unread == 1 })
		probe := b.probe(vni.CodeProbe, vni.ReceiveContext{Tag: 3})
		f.run(time.Millisecond)
		if b.done(true, probe) {
			t.Fatal("a probe is told of what is in a ring")
		}
		w.close()
		if c := b.finish(true, probe); c.Status != vni.StatusOK || c.Len != 4 {
			t.Errorf("told %v, of %d bytes", c.Status, c.Len)
		}
	})
}
