package nic

import (
	"bytes"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/link/fault"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/internal/wire"
)

// letter starts a datagram to a process and returns its context.
func (p *tester) letter(to *tester, tag uint64, parts ...[]byte) int {
	p.f.t.Helper()
	return p.startSized(vni.CodeSendDatagram, 0, &vni.SendContext{NIC: to.e.ID(), Slot: to.slot, Gen: to.gen, Tag: tag, Flags: vni.WantNotify}, parts...)
}

// recvLetter posts a receive of a datagram.
func (p *tester) recvLetter(tag uint64, flags uint32, parts ...[]byte) int {
	p.f.t.Helper()
	c := &vni.ReceiveContext{Tag: tag, Flags: flags | vni.WantNotify, PoolIndex: vni.NoPool}
	for _, b := range parts {
		c.Len += uint64(len(b))
	}
	i, ok := p.v.TakeReceive()
	if !ok {
		p.f.t.Fatal("no receive context is free")
	}
	p.v.SetReceive(i, c)
	p.v.SetDirect(true, i, parts)
	p.post(vni.Command{Code: vni.CodeReceiveDatagram, Context: uint16(i)})
	p.f.until(time.Second, "the command is read", func() bool { return !p.e.process(p.slot).vni.Pending() })
	return i
}

// correspondents makes two processes, of one NIC or of two that have a session.
func correspondents(t *testing.T, place int) (f *fabric, a, b *tester) {
	f = newFabric(t, 2, fault.Config{})
	a, b = f.process(0, "a/0"), f.process(place, "b/0")
	f.known("a/0", "b/0")
	return f, a, b
}

var letterPlaces = map[string]int{"one NIC": 0, "two NICs": 1}

func TestADatagramOfAProcessIsPutInThePiecesOfTheReceiveThatHasItsTag(t *testing.T) {
	for name, place := range letterPlaces {
		t.Run(name, func(t *testing.T) {
			_, a, b := correspondents(t, place)
			for _, n := range []int{0, 1, 4096, 4096 + 100, wire.MaxLetter} {
				page, rest, other := make([]byte, min(n, 4096)), make([]byte, n-min(n, 4096)), make([]byte, 10)
				o := b.recvLetter(6, 0, other)
				r := b.recvLetter(7, 0, page, rest)
				want := pattern(n, 9)
				a.wantSent(a.letter(b, 7, want[:n/2], want[n/2:]))
				c := b.finish(true, r)
				if c.Status != vni.StatusOK || c.Len != uint64(n) || c.Full != c.Len || c.Tag != 7 || c.From != a.name || c.NIC != a.e.ID() || c.Slot != a.slot || c.Gen != a.gen {
					t.Errorf("a datagram of %d bytes came as %+v", n, c)
				}
				if !bytes.Equal(append(bytes.Clone(page), rest...), want) {
					t.Errorf("a datagram of %d bytes came with other bytes", n)
				}
				a.wantSent(a.letter(b, 6))
				b.finish(true, o)
			}
		})
	}
}

func TestOfSeveralReceivesOfDatagramsTheFirstOneIsServed(t *testing.T) {
	_, a, b := correspondents(t, 1)
	bufs := [3][]byte{make([]byte, 1), make([]byte, 1), make([]byte, 1)}
	any1, tagged, any2 := b.recvLetter(0, vni.AnyTag, bufs[0]), b.recvLetter(5, 0, bufs[1]), b.recvLetter(0, vni.AnyTag, bufs[2])
	for i := range 3 {
		a.wantSent(a.letter(b, 5, []byte{byte('1' + i)}))
	}
	for _, r := range []int{any1, tagged, any2} {
		b.finish(true, r)
	}
	if got := string(bufs[0]) + string(bufs[1]) + string(bufs[2]); got != "123" {
		t.Errorf("three datagrams went to the receives in the order %q", got)
	}
}

func TestADatagramThatNobodyAwaitsIsCountedAndGone(t *testing.T) {
	for name, place := range letterPlaces {
		t.Run(name, func(t *testing.T) {
			f, a, b := correspondents(t, place)
			unwanted := func(n uint64) func() bool {
				return func() bool { return b.e.Count(vni.NICDatagramsUnwanted) == n }
			}
			a.wantSent(a.letter(b, 7, []byte("none is posted")))
			f.until(time.Second, "it is unwanted", unwanted(1))
			buf := make([]byte, 20)
			r := b.recvLetter(8, 0, buf)
			m := b.recv("", 7, 0, buf) // for a message, not for a datagram
			a.wantSent(a.letter(b, 7, []byte("another tag")))
			f.until(time.Second, "another is unwanted", unwanted(2))
			former := *b
			former.gen--
			a.wantSent(a.letter(&former, 8, []byte("of an earlier life")))
			f.until(time.Second, "a third is unwanted", unwanted(3))
			b.post(vni.Command{Code: vni.CodeCancel, Context: uint16(r), Size: vni.CancelReceive})
			if c := b.finish(true, r); c.Status != vni.StatusCancelled {
				t.Errorf("a receive that is cancelled ended with %v", c.Status)
			}
			a.wantSent(a.letter(b, 8, []byte("too late")))
			f.until(time.Second, "a fourth is unwanted", unwanted(4))
			if b.done(true, m) {
				t.Error("a datagram has come as a message")
			}
		})
	}
}

func TestADatagramThatIsTooLongForItsReceiveIsCutShort(t *testing.T) {
	for name, place := range letterPlaces {
		t.Run(name, func(t *testing.T) {
			_, a, b := correspondents(t, place)
			buf := make([]byte, 4)
			r := b.recvLetter(1, 0, buf)
			a.wantSent(a.letter(b, 1, []byte("longer")))
			if c := b.finish(true, r); c.Status != vni.StatusTruncated || c.Len != 4 || c.Full != 6 || string(buf) != "long" {
				t.Errorf("it came as %+v with %q", c, buf)
			}
		})
	}
}

func TestADatagramThatCannotLeaveFails(t *testing.T) {
	f, a, b := correspondents(t, 1)
	fails := func(what string, i int, want vni.Status) {
		t.Helper()
		if c := a.finish(false, i); c.Status != want {
			t.Errorf("a datagram %s ended with %v, want %v", what, c.Status, want)
		}
	}
	fails("that is too long", a.letter(b, 1, make([]byte, wire.MaxLetter+1)), vni.StatusBadArgument)
	fails("that wants an answer", a.start(vni.CodeSendDatagram, &vni.SendContext{Receiver: b.name, Flags: vni.WantNotify | vni.WantAccept}, nil), vni.StatusBadArgument)
	fails("to a name that no process has", a.start(vni.CodeSendDatagram, &vni.SendContext{Receiver: vni.Name{App: b.name.App, Index: 77}, Flags: vni.WantNotify}, nil), vni.StatusNameUnknown)
	fails("to a NIC that is not there", a.start(vni.CodeSendDatagram, &vni.SendContext{NIC: 12345, Slot: 1, Gen: 1, Flags: vni.WantNotify}, nil), vni.StatusUnreachable)
	buf := make([]byte, 3)
	r := b.recvLetter(3, 0, buf)
	a.wantSent(a.start(vni.CodeSendDatagram, &vni.SendContext{Receiver: b.name, Tag: 3, Flags: vni.WantNotify}, []byte("yes")))
	if b.finish(true, r); string(buf) != "yes" {
		t.Errorf("a datagram to a name came as %q", buf)
	}
	if n := b.e.Count(vni.NICDatagramsReceived); n != 1 || f.engines[0].Count(vni.NICDatagramsSent) != 1 {
		t.Errorf("%d sent and %d received are counted, want 1", f.engines[0].Count(vni.NICDatagramsSent), n)
	}
}

func TestAFilterSeesEachDatagram(t *testing.T) {
	for name, place := range letterPlaces {
		t.Run(name, func(t *testing.T) {
			f, a, b := correspondents(t, place)
			var seen []Arrival
			b.e.Guard(b.slot, b.gen, func(m *Arrival) bool {
				seen = append(seen, *m)
				return m.Tag == 1
			})
			buf := make([]byte, 10)
			r := b.recvLetter(0, vni.AnyTag, buf)
			a.wantSent(a.letter(b, 1, []byte("dropped")))
			a.wantSent(a.letter(b, 2, []byte("passes")))
			if c := b.finish(true, r); c.Tag != 2 {
				t.Errorf("datagram %d passed the filter, want 2", c.Tag)
			}
			if len(seen) != 2 || seen[0].From != a.name || seen[0].Addr.Slot != a.slot || seen[0].Length != 7 || b.e.Count(vni.NICFiltered) != 1 {
				t.Errorf("the filter saw %+v", seen)
			}
			f.run(time.Millisecond)
		})
	}
}

func TestAReceiveOfADatagramThatNamesASenderIsRefused(t *testing.T) {
	f, a, b := correspondents(t, 1)
	i, _ := b.v.TakeReceive()
	b.v.SetReceive(i, &vni.ReceiveContext{Sender: a.name, Flags: vni.WantNotify, PoolIndex: vni.NoPool})
	b.v.SetDirect(true, i, nil)
	b.post(vni.Command{Code: vni.CodeReceiveDatagram, Context: uint16(i)})
	if c := b.finish(true, i); c.Status != vni.StatusBadArgument {
		t.Errorf("it ended with %v", c.Status)
	}
	f.run(time.Millisecond)
}

func TestADatagramByTheStraightWayLeavesWithTheNextPoll(t *testing.T) {
	f := newFabric(t, 2, fault.Config{})
	a, b := f.riders()
	for what, to := range map[string]vni.StraightSend{
		"by name":    {To: b.name},
		"by address": {NIC: b.e.ID(), Slot: b.slot, Gen: b.gen},
	} {
		buf := make([]byte, 4096)
		r := b.recvLetter(7, 0, buf)
		to.Tag, to.Len = 7, len(buf)
		want := pattern(len(buf), 5)
		data := bytes.Clone(want)
		if sent, _ := a.way.Datagram(&to, [][]byte{data[:1000], nil, data[1000:1100], data[1100:]}); !sent {
			t.Fatalf("%s: it is refused", what)
		}
		clear(data) // its memory is the caller's again
		if c := b.finish(true, r); c.Status != vni.StatusOK || c.Len != uint64(len(buf)) || c.From != a.name || c.Slot != a.slot || c.Gen != a.gen || !bytes.Equal(buf, want) {
			t.Errorf("%s: it came as %+v, or with other bytes", what, c)
		}
	}
	if n := a.e.Count(vni.NICDatagramsSent); n != 2 {
		t.Errorf("%d datagrams are counted, want 2", n)
	}
}

// A datagram that leaves is counted as work once, by the poll with which it leaves.
func TestAPollWithWhichADatagramLeavesIsNotIdle(t *testing.T) {
	f := newFabric(t, 2, fault.Config{})
	a, b := f.riders()
	poll := func() int {
		f.now = f.now.Add(time.Microsecond)
		work, _ := a.e.Poll(f.now)
		return work
	}
	for what, send := range map[string]func(){
		"by the straight way": func() { a.way.Datagram(&vni.StraightSend{To: b.name, Tag: 7}, nil) },
		"of a service":        func() { a.e.Datagram(b.e.ID(), 77, 5) },
		"by a command":        func() { a.letter(b.tester, 7) },
	} {
		for poll() > 0 {
		}
		if send(); poll() == 0 {
			t.Errorf("a datagram %s: the poll with which it leaves says that it did nothing", what)
		}
		if n := poll(); n > 0 {
			t.Errorf("a datagram %s: the poll behind that says that it did %d things", what, n)
		}
	}
}

// A command that a start form has posted is also left to the next poll, so it needs one: while the
// NIC listens to the queue, nothing else rings for it.
func TestAFlushIsFollowedByAPollIfSomethingWaitsForOne(t *testing.T) {
	f := newFabric(t, 2, fault.Config{})
	a, b := f.riders()
	for what, start := range map[string]func(){
		"a datagram by a command":   func() { a.letter(b.tester, 7) },
		"a message by a command":    func() { a.send(b.name.String(), 7, 0, make([]byte, 5000)) },
		"a message that was held":   func() { a.ride(b.tester, 7, true, make([]byte, 10)) },
		"a datagram of the service": nil, // it leaves with the Flush
	} {
		f.until(time.Second, "nothing waits", a.way.Flush)
		if start == nil {
			a.e.Datagram(b.e.ID(), 77, 5)
			if !a.way.Flush() {
				t.Errorf("%s: it has left, and a poll is to follow", what)
			}
			continue
		}
		if start(); a.way.Flush() {
			t.Errorf("%s waits, and no poll is to follow", what)
		}
	}
	f.run(time.Second)
}

func TestTheStraightWayRefusesDatagramsThatCannotLeave(t *testing.T) {
	f := newFabric(t, 2, fault.Config{})
	a, b := f.riders()
	other := f.process(0, "c/0")
	f.known("a/0", "c/0")
	there := vni.StraightSend{NIC: b.e.ID(), Slot: b.slot, Gen: b.gen}
	long := there
	long.Len = wire.MaxLetter + 1
	for what, m := range map[string]vni.StraightSend{
		"that is too long":              long,
		"to a name that nothing has":    {To: vni.Name{App: b.name.App, Index: 77}},
		"to a NIC that is not known":    {NIC: 12345, Slot: 1, Gen: 1},
		"to a process of the same NIC":  {To: other.name},
		"to an address of the same NIC": {NIC: a.e.ID(), Slot: other.slot, Gen: other.gen},
	} {
		if sent, full := a.way.Datagram(&m, [][]byte{make([]byte, m.Len)}); sent || full {
			t.Errorf("a datagram %s may leave, or as soon as there is room", what)
		}
	}
	n := 0
	for sent := true; sent; sent, _ = a.way.Datagram(&there, nil) {
		n++
	}
	if _, full := a.way.Datagram(&there, nil); n == 1 || !full {
		t.Errorf("after %d that wait there is no room, and a poll is not to make some", n)
	}
	f.until(time.Second, "a poll makes room", func() bool { sent, _ := a.way.Datagram(&there, nil); return sent })
	if st := a.e.rel.Stats(); st.DatagramsUnsent > 0 {
		t.Errorf("%d are counted as refused though all have left in the end", st.DatagramsUnsent)
	}
	a.way.Close(f.now)
	if sent, _ := a.way.Datagram(&there, nil); sent {
		t.Error("a datagram may leave that comes after Close")
	}
}
