package rel

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/mutate"
	"github.com/weftnet/weft/internal/wire"
)

// grams sends numbered datagrams, and checks those that arrive.
type grams struct {
	from, to *node
	e        *Endpoint
	sent     map[uint64]int // session and number → length; the service is part of the number
	got      map[uint64]int
	number   uint32
	over     bool // the session is over
	waits    bool // all wait for the next turn
	err      error
}

func newGrams(from, to *node) *grams {
	g := &grams{from: from, to: to, e: from.open(to), sent: map[uint64]int{}, got: map[uint64]int{}}
	to.onGram = g.take
	return g
}

// fill writes the contents of datagram number k to a service: its number first, if there is
// room, then bytes that depend on both.
func fill(b []byte, k uint32, service uint8) {
	for i := range b {
		b[i] = byte(uint32(i)*2654435761>>13 ^ k*40503 ^ uint32(service))
	}
	if len(b) >= 4 {
		binary.LittleEndian.PutUint32(b, k)
	}
}

func gramKey(k uint32, service uint8) uint64 { return uint64(k)<<8 | uint64(service) }

// send sends a datagram of n bytes, at least 4; false if it could not be sent. Every other one
// is sent from parts, unless all are to wait for the next turn.
func (g *grams) send(n int) bool {
	service := uint8(g.number % 7)
	if g.number%2 > 0 && !g.waits {
		b := make([]byte, n)
		fill(b, g.number, service)
		first, second := n/3, n/3+n/2
		ok := g.e.SendDatagram(service, n, [][]byte{b[:first], nil, b[first:second], b[second:]}, g.from)
		clear(b)
		g.from.wake()
		if !ok {
			return false
		}
	} else {
		b := g.e.Datagram(service, n)
		g.from.wake()
		if b == nil {
			return false
		}
		fill(b, g.number, service)
	}
	g.sent[gramKey(g.number, service)] = n
	g.number++
	return true
}

// flushes counts the flushes of a driver, which takes frames unless it is full.
type flushes struct {
	*node
	n    int
	full bool
}

func (f *flushes) Flush(clock.Time) { f.n++ }

func (f *flushes) Reserve(to netip.AddrPort) []byte {
	if f.full {
		return nil
	}
	return f.node.Reserve(to)
}

func TestDatagramsThatLieReadyLeaveWithTheNextFlush(t *testing.T) {
	w, a, b, e := joined(t, nil)
	out := &flushes{node: a}
	for i, full := range []bool{false, true} {
		out.full = full
		data := []byte{byte(i), 2, 3, 4, 5}
		if !e.SendDatagram(1, 5, [][]byte{data[:2], data[2:]}, out) {
			t.Fatal("it is refused")
		}
		if waits := len(a.m.waiting) == 1; waits != full || out.n != i {
			t.Errorf("a driver that is full (%v): it waits (%v), behind %d flushes", full, waits, out.n)
		}
		clear(data)
		out.full = false
		a.m.SendDatagrams(w.now, out)
		a.m.SendDatagrams(w.now, out)
		if len(a.m.waiting) != 0 || out.n != i+1 {
			t.Errorf("%d wait, behind %d flushes; expected none, behind %d", len(a.m.waiting), out.n, i+1)
		}
		var got []byte
		b.onGram = func(_ *Endpoint, _ uint8, payload []byte) { got = bytes.Clone(payload) }
		w.runUntil(time.Millisecond, "a datagram", func() bool { return got != nil })
		if want := []byte{byte(i), 2, 3, 4, 5}; !bytes.Equal(got, want) {
			t.Errorf("%v has come, expected %v", got, want)
		}
	}
}

func (g *grams) take(_ *Endpoint, service uint8, payload []byte) {
	fail := func(format string, args ...any) {
		if g.err == nil {
			g.err = fmt.Errorf(format, args...)
		}
	}
	if len(payload) < 4 {
		fail("a datagram of %d bytes came", len(payload))
		return
	}
	k := binary.LittleEndian.Uint32(payload)
	key := gramKey(k, service)
	want := make([]byte, len(payload))
	fill(want, k, service)
	n, sent := g.sent[key]
	switch {
	case g.over:
		fail("datagram %d came when its session was over", k)
	case !sent || n != len(payload):
		fail("datagram %d came with %d bytes to service %d; it was sent: %v, with %d", k, len(payload), service, sent, n)
	case string(want) != string(payload):
		fail("datagram %d came with wrong bytes", k)
	}
	if g.got[key]++; g.got[key] > 1 {
		fail("datagram %d came %d times", k, g.got[key])
	}
}

// gramTrial sends datagrams, mixed with messages, through weather and returns how many arrived.
func gramTrial(t testing.TB, seed uint64, wt weather, defect mutate.Defect, reliable bool, length func() int) (g *grams) {
	w := newWorld(t, seed, wt)
	change := func(c *Config) {
		c.Defect = defect
		c.Reliable, c.Tagged = reliable, !reliable
		if seed%3 == 0 {
			c.MTU = 9000
		}
	}
	a, b := w.add(1, change), w.add(2, change)
	b.open(a)
	g = newGrams(a, b)
	g.e.Connect(w.now)
	a.wake()
	w.runUntil(20*time.Second, "the session", func() bool { return g.e.Up() && b.m.Endpoint(1).Up() })
	for i := range 150 {
		for range i % 4 {
			g.send(length())
		}
		a.frag(g.e, wire.Command, payload(i, 50))
		w.run(time.Duration(w.rng.IntN(40)) * time.Microsecond)
	}
	w.run(time.Second)
	w.check()
	if n := len(b.m.joinings) + len(a.m.waiting); n > 0 {
		t.Errorf("seed %d: %d datagrams are left", seed, n)
	}
	return g
}

func TestDatagramsComeWholeOnceAndOnlyAsTheyWereSent(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		wt := weather{loss: rapid.Float64Range(0, 0.2).Draw(rt, "loss"), dup: rapid.Float64Range(0, 0.2).Draw(rt, "dup"),
			reorder: rapid.Float64Range(0, 0.5).Draw(rt, "reorder"), corrupt: rapid.Float64Range(0, 0.1).Draw(rt, "corrupt"), jitter: 300 * time.Microsecond}
		reliable := rapid.Bool().Draw(rt, "reliable")
		if reliable {
			wt = weather{}
		}
		most := rapid.SampledFrom([]int{100, 3000, wire.MaxDatagram}).Draw(rt, "longest")
		length := func() int { return rapid.IntRange(4, most).Draw(rt, "length") }
		g := gramTrial(t, rapid.Uint64().Draw(rt, "seed"), wt, mutate.None, reliable, length)
		if g.err != nil {
			rt.Fatal(g.err)
		}
		st := g.to.m.Stats()
		if int(st.DatagramReceives) != len(g.got) || int(g.from.m.Stats().DatagramSends) != len(g.sent) {
			rt.Fatalf("%d sent and %d received are counted; they are %d and %d", g.from.m.Stats().DatagramSends, st.DatagramReceives, len(g.sent), len(g.got))
		}
		if clear := wt.loss+wt.corrupt+wt.reorder == 0; clear && len(g.got) != len(g.sent) || len(g.got) == 0 {
			rt.Fatalf("%d of %d came", len(g.got), len(g.sent))
		}
	})
}

func TestDefectsOfDatagramsDoHarm(t *testing.T) {
	for _, d := range []mutate.Defect{mutate.DatagramReplayed, mutate.DatagramMixed, mutate.DatagramUnfinished, mutate.TagIgnored} {
		wt := weather{loss: 0.1, dup: 0.1, reorder: 0.2, corrupt: 0.05, jitter: 300 * time.Microsecond}
		harm := false
		for seed := range uint64(20) {
			sizes := []int{100, 3000, 3000, 12_000}
			i := 0
			g := gramTrial(t, seed, wt, d, false, func() int { i++; return sizes[i%len(sizes)] })
			harm = harm || g.err != nil
		}
		if !harm {
			t.Errorf("%v: nothing went wrong in 20 seeds", d)
		}
	}
}

// The pieces of a datagram that arrived belong to their session: the rest does not complete it
// in the next one.
func TestADatagramEndsWithItsSession(t *testing.T) {
	w, a, b, e := joined(t, nil)
	w.run(time.Millisecond)
	g := newGrams(a, b)
	n := 0
	w.filter = func(from, _ *node, frame []byte) bool {
		o, _, _ := wire.ParseOuter(frame)
		if o.Kind == wire.KindDatagram {
			n++
		}
		return o.Kind != wire.KindDatagram || n != 2
	}
	g.send(4000)
	w.run(time.Millisecond)
	if len(b.m.joinings) != 1 || len(g.got) != 0 {
		t.Fatalf("%d are under way and %d have come; want one under way", len(b.m.joinings), len(g.got))
	}
	g.waits = true
	g.send(100)
	a.m.Close(w.now, a)
	g.over = true
	w.run(time.Second)
	if len(b.m.joinings) != 0 || b.m.Stats().DatagramsIncomplete != 1 || a.m.Stats().DatagramsNoSession != 1 {
		t.Errorf("%d are left, %d incomplete and %d without a session are counted", len(b.m.joinings), b.m.Stats().DatagramsIncomplete, a.m.Stats().DatagramsNoSession)
	}
	if g.err != nil {
		t.Error(g.err)
	}
	if e.Datagram(1, 10) != nil {
		t.Error("there is room for one without a session")
	}
}

// lengths counts the lengths of the frames that a node sends.
type lengths struct {
	*node
	of map[int]int // how many frames have a length
}

func (l *lengths) Commit(n int) {
	l.of[n]++
	l.node.Commit(n)
}

func TestAllFramesOfDatagramsInPiecesHaveOneLength(t *testing.T) {
	for _, n := range []int{1500, 4000, 4182, 8200, wire.MaxDatagram - 1} {
		w, a, b, _ := joined(t, nil)
		g := newGrams(a, b)
		for range 5 {
			if !g.send(n) {
				t.Fatalf("%d bytes: not sent", n)
			}
		}
		l := &lengths{a, map[int]int{}}
		a.m.Progress(w.now, l)
		for length, frames := range l.of {
			if most := 5*n + frames*(wire.OuterLen+wire.DatagramLen+wire.TagLen+wire.PartUnit); frames*length > most {
				t.Errorf("five datagrams of %d bytes took %d frames of %d; expected %d bytes at most", n, frames, length, most)
			}
		}
		w.run(time.Millisecond)
		if len(l.of) != 1 || len(g.got) != 5 || g.err != nil {
			t.Errorf("five datagrams of %d bytes left in frames of these lengths: %v; %d have come, %v", n, l.of, len(g.got), g.err)
		}
		w.check()
	}
}

// few is a driver that takes only left more frames.
type few struct {
	*node
	left int
}

func (f *few) Reserve(to netip.AddrPort) []byte {
	if f.left == 0 {
		return nil
	}
	return f.node.Reserve(to)
}

func (f *few) Commit(n int) {
	f.left--
	f.node.Commit(n)
}

func TestADatagramComesWholeWhosePathChangesAfterItsFirstPieces(t *testing.T) {
	for _, before := range []int{700, 1472, 4000} {
		for _, after := range []int{700, 1472, 4000, 9000} {
			for pieces := 1; pieces < 5; pieces++ {
				w, a, b, _ := joined(t, func(c *Config) { c.MTU = 9000 })
				g := newGrams(a, b)
				if !g.send(8200) {
					t.Fatal("not sent")
				}
				g.e.holdTo(g.e.live, before)
				a.m.Progress(w.now, &few{a, pieces})
				g.e.holdTo(g.e.live, after)
				w.run(time.Millisecond)
				if st := b.m.Stats(); len(g.got) != 1 || g.err != nil || st.Malformed > 0 {
					t.Errorf("frames of %d bytes, and of %d behind the first %d: %d have come, %d frames are malformed, %v", before, after, pieces, len(g.got), st.Malformed, g.err)
				}
				w.check()
			}
		}
	}
}

func TestWhatCannotBeSentIsRefusedAndCounted(t *testing.T) {
	w, a, _, e := joined(t, nil)
	if e.Datagram(1, wire.MaxDatagram+1) != nil {
		t.Error("there is room for one that is too long")
	}
	for range limits.DatagramsWaiting {
		if e.Datagram(1, 10) == nil {
			t.Fatal("there is no room for as many as may wait")
		}
	}
	if e.Datagram(1, 10) != nil {
		t.Error("there is room for more than may wait")
	}
	if st := e.m.stats; st.DatagramsTooLong != 1 || st.DatagramsUnsent != 1 {
		t.Errorf("%d too long and %d too many are counted, want one each", st.DatagramsTooLong, st.DatagramsUnsent)
	}
	if _, next := a.m.Progress(w.now, deaf{a}); next <= w.now || len(a.m.waiting) != limits.DatagramsWaiting {
		t.Errorf("of a driver that takes nothing Progress wants to be called in %v; %d wait", next.Sub(w.now), len(a.m.waiting))
	}
	a.m.Progress(w.now, a)
	if st := e.m.stats; st.DatagramSends != limits.DatagramsWaiting || len(a.m.waiting) != 0 {
		t.Errorf("%d were sent, %d wait", st.DatagramSends, len(a.m.waiting))
	}
}

// A peer that begins datagrams and does not end them uses bounded memory, and none of it for
// long.
func TestDatagramsThatNeverBecomeWholeAreBounded(t *testing.T) {
	w, a, b, e := joined(t, nil)
	w.run(time.Millisecond)
	s := e.live
	begin := func(id uint32, length int, service uint8) {
		f := a.Reserve(s.addr)
		d := wire.Datagram{ID: id, Length: uint32(length), Service: service}
		d.Put(f[wire.OuterLen:], wire.PartUnit)
		a.Commit(s.packets.seal(wire.KindDatagram, f, wire.OuterLen+wire.DatagramLen+wire.PartUnit, nil))
	}
	for i := range 100 {
		begin(uint32(i), wire.MaxDatagram, 1)
		begin(uint32(i), 640, 1) // the same, with another length
		begin(uint32(i), wire.MaxDatagram, 2)
	}
	w.run(time.Millisecond)
	st := b.m.Stats()
	if len(b.m.joinings) != limits.DatagramsJoining || st.DatagramsIncomplete != 100-limits.DatagramsJoining || st.Malformed != 200 {
		t.Errorf("%d are under way, %d incomplete, %d malformed", len(b.m.joinings), st.DatagramsIncomplete, st.Malformed)
	}
	for len(b.m.joinings) > 0 {
		b.m.forgetJoining(0)
	}
	// As if as many other peers had begun one each.
	for i := range limits.DatagramsJoiningInAll {
		b.m.joinings = append(b.m.joinings, &joining{id: uint32(i), until: w.now.Add(limits.DatagramPatience), assembly: assembly{session: &session{joining: 1}, buf: b.m.pool.buffer(64)}})
		b.m.joinings[len(b.m.joinings)-1].session.endpoint = &Endpoint{m: b.m}
	}
	begin(1000, wire.MaxDatagram, 1)
	w.run(time.Millisecond)
	if st := b.m.Stats(); st.DatagramsNoRoom != 1 || len(b.m.joinings) != limits.DatagramsJoiningInAll {
		t.Errorf("%d pieces without room are counted, %d datagrams are under way", st.DatagramsNoRoom, len(b.m.joinings))
	}
	w.run(2 * limits.DatagramPatience)
	if len(b.m.joinings) != 0 {
		t.Errorf("%d are left when their time is over", len(b.m.joinings))
	}
	w.check()
	w.quiet()
}
