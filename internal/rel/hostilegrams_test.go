package rel

import (
	"bytes"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/wire"
)

// FuzzHostileDatagrams makes a peer send datagram frames that are tagged and make no sense:
// pieces that overlap, lengths and services that differ between pieces, offsets that wrap, sizes
// beyond the frame, datagrams without an end. A simple second implementation decides which of
// them form a datagram. At the same time a peer that keeps to the protocol sends datagrams to
// the same NIC, which all arrive.
func FuzzHostileDatagrams(f *testing.F) {
	f.Add(bytes.Repeat([]byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13}, 40))
	f.Add(bytes.Repeat([]byte{1, 0, 0, 3, 1, 1, 0, 3, 9}, 60))
	f.Fuzz(func(t *testing.T, script []byte) { newGramVandal(t, script).run() })
}

// gramVandal plays a script of datagram frames to a module.
type gramVandal struct {
	t       testing.TB
	script  []byte
	w       *world
	bad, to *node
	e       *Endpoint // from the bad peer to its victim
	honest  *grams
	others  uint64 // frames of the honest peer's datagrams
	model   gramModel
	came    []gram // handed over, and not compared with the model yet
	frames  uint64
	deepest int
	handed  uint64
}

// gram is a datagram that was handed over.
type gram struct {
	service uint8
	payload []byte
}

// gramModel is the expected effect of a peer's frames, byte by byte.
type gramModel struct {
	open                          []*openGram // oldest first
	due                           []gram      // expected to have been handed over
	malformed, incomplete, frames uint64
}

type openGram struct {
	id      uint32
	service uint8
	buf     []byte
	have    []bool
	until   clock.Time
}

func newGramVandal(t testing.TB, script []byte) *gramVandal {
	w := newWorld(t, 9, weather{})
	v := &gramVandal{t: t, script: script, w: w, bad: w.add(1, nil), to: w.add(2, nil)}
	good := w.add(3, nil)
	v.to.open(v.bad)
	v.to.open(good)
	v.honest = newGrams(good, v.to)
	take := v.to.onGram
	v.to.onGram = func(e *Endpoint, service uint8, payload []byte) {
		if e.NIC() == 1 {
			v.came = append(v.came, gram{service, bytes.Clone(payload)})
		} else {
			take(e, service, payload)
		}
	}
	v.e = v.bad.open(v.to)
	for _, e := range []*Endpoint{v.e, v.honest.e} {
		e.Connect(w.now)
	}
	v.bad.wake()
	good.wake()
	w.runUntil(time.Second, "the sessions", func() bool { return v.e.Up() && v.honest.e.Up() && v.to.ups == 2 })
	w.run(time.Millisecond)
	return v
}

func (v *gramVandal) next() byte {
	if len(v.script) == 0 {
		return 0
	}
	x := v.script[0]
	v.script = v.script[1:]
	return x
}

// sendHonest makes the other peer send a datagram of n bytes.
func (v *gramVandal) sendHonest(n int) {
	most := (v.honest.e.live.path.size - wire.OuterLen - wire.DatagramLen - wire.TagLen) / wire.PartUnit * wire.PartUnit
	if v.honest.send(n) {
		v.others += uint64((n + most - 1) / most)
	}
}

// number draws a number that is right for some field, or out of range, or wraps.
func (v *gramVandal) number() uint32 {
	list := [...]uint32{0, 64, 128, 640, 1216, 1280, 2560, 3000, 3840, wire.MaxDatagram - 64, wire.MaxDatagram, wire.MaxDatagram + 64, 63, 1, 1 << 31, 1<<32 - 64, 1<<32 - 1}
	return list[int(v.next())%len(list)]
}

// run plays the script, and checks the effect after each frame.
func (v *gramVandal) run() {
	for n := 0; len(v.script) > 0 && n < 2000; n++ {
		switch k := v.next() % 32; {
		case k == 0:
			v.pass(time.Duration(v.next()) * time.Millisecond)
		case k == 1:
			v.sendHonest(4 + int(v.next())*64)
			v.pass(100 * time.Microsecond)
		case k < 4: // a whole one, in a few pieces
			v.whole()
		default:
			v.piece()
		}
		v.check()
	}
	v.pass(limits.DatagramPatience + 10*time.Millisecond)
	v.check()
	v.judge()
}

// piece sends one piece of a few unfinished datagrams, right in most of its fields.
func (v *gramVandal) piece() {
	d := wire.Datagram{ID: uint32(v.next() % 12), Offset: uint32(v.next()%6) * 640, Length: []uint32{2560, 2560, 2560, 3000, v.number()}[v.next()%5], Service: v.next() % 2}
	n := []int{640, 640, 1280, 440, int(v.number()), 0}[v.next()%6]
	if v.next()%16 == 0 {
		d.Offset = v.number()
	}
	if v.next()%8 == 0 {
		d.ID = uint32(v.next())<<8 | uint32(v.next()) // a flood of new ones
	}
	v.send(d, n, min(n, 1400), v.next())
}

// whole sends all pieces of a datagram, so that it arrives unless others have used its id, or
// pushed it out.
func (v *gramVandal) whole() {
	d := wire.Datagram{ID: uint32(v.next() % 12), Length: 64 + uint32(v.next())*20, Service: v.next() % 2}
	for ; d.Offset < d.Length; d.Offset += 1280 {
		v.send(d, int(min(d.Length-d.Offset, 1280)), int(min(d.Length-d.Offset, 1280)), v.next())
	}
}

// send hands the victim a frame whose header claims size bytes, and which has n.
func (v *gramVandal) send(d wire.Datagram, size, n int, seed byte) {
	frame := make([]byte, wire.OuterLen+wire.DatagramLen+n+wire.TagLen)
	body := frame[wire.OuterLen:]
	d.Put(body, size)
	for i := range n {
		body[wire.DatagramLen+i] = seed + byte(i/64)
	}
	n = v.e.live.packets.seal(wire.KindDatagram, frame, wire.OuterLen+wire.DatagramLen+n, nil)
	v.model.take(v.w.now, d, size, body[wire.DatagramLen:n-wire.OuterLen-v.e.tagLen()])
	v.to.m.Receive(v.w.now, v.bad.addr, frame[:n])
	v.frames++
}

// take computes the expected effect of a frame.
func (g *gramModel) take(now clock.Time, d wire.Datagram, size int, payload []byte) {
	end := uint64(d.Offset) + uint64(uint16(size))
	switch {
	case d.Length > wire.MaxDatagram, d.Offset%wire.PartUnit != 0, end > uint64(d.Length), end < uint64(d.Length) && size%wire.PartUnit != 0,
		uint16(size) == 0 && d.Length > 0, int(uint16(size)) != len(payload):
		g.malformed++
		return
	case len(payload) == int(d.Length):
		g.frames++
		g.due = append(g.due, gram{d.Service, bytes.Clone(payload)})
		return
	}
	o := g.find(d.ID)
	if o == nil {
		if len(g.open) == limits.DatagramsJoining {
			g.open = g.open[1:]
			g.incomplete++
		}
		o = &openGram{d.ID, d.Service, make([]byte, d.Length), make([]bool, d.Length), now.Add(limits.DatagramPatience)}
		g.open = append(g.open, o)
	}
	if len(o.buf) != int(d.Length) || o.service != d.Service {
		g.malformed++
		return
	}
	g.frames++
	for i, x := range payload {
		o.buf[int(d.Offset)+i], o.have[int(d.Offset)+i] = x, true
	}
	for _, h := range o.have {
		if !h {
			return
		}
	}
	g.close(o)
	g.due = append(g.due, gram{o.service, o.buf})
}

func (g *gramModel) find(id uint32) *openGram {
	for _, o := range g.open {
		if o.id == id {
			return o
		}
	}
	return nil
}

func (g *gramModel) close(o *openGram) {
	for i := range g.open {
		if g.open[i] == o {
			g.open = append(g.open[:i:i], g.open[i+1:]...)
			return
		}
	}
}

// pass lets time pass.
func (v *gramVandal) pass(d time.Duration) {
	v.to.wake()
	v.w.run(d)
	v.to.poll()
	for len(v.model.open) > 0 && v.model.open[0].until <= v.w.now {
		v.model.open = v.model.open[1:]
		v.model.incomplete++
	}
}

// check compares the datagrams that were handed over, and those that are kept, with the model.
func (v *gramVandal) check() {
	v.t.Helper()
	if len(v.came) != len(v.model.due) {
		v.t.Fatalf("%d datagrams were handed over, expected %d", len(v.came), len(v.model.due))
	}
	for i, g := range v.came {
		if want := v.model.due[i]; g.service != want.service || !bytes.Equal(g.payload, want.payload) {
			v.t.Fatalf("a datagram of %d bytes came to service %d, expected %d bytes to service %d, or other bytes", len(g.payload), g.service, len(want.payload), want.service)
		}
	}
	v.handed += uint64(len(v.came))
	v.came, v.model.due = v.came[:0], v.model.due[:0]
	kept, held := 0, 0
	for _, j := range v.to.m.joinings {
		if held += cap(j.buf); j.session.endpoint.nic == 1 {
			kept++
		}
	}
	if v.deepest = max(v.deepest, kept); kept != len(v.model.open) || kept > limits.DatagramsJoining || held > 2*limits.DatagramsJoining*wire.MaxDatagram {
		v.t.Fatalf("%d datagrams are put together, in %d bytes; expected %d", kept, held, len(v.model.open))
	}
	if spare := v.to.m.spareJoinings.Made(); spare > limits.DatagramsJoiningInAll {
		v.t.Fatalf("%d places for datagrams are spare", spare)
	}
}

// judge checks the counts, and that the honest peer has lost nothing.
func (v *gramVandal) judge() {
	v.t.Helper()
	st, g := v.to.m.Stats(), &v.model
	got := [...]uint64{st.DatagramFrames - v.others, st.Malformed, st.DatagramsIncomplete, st.DatagramReceives - uint64(len(v.honest.got)), st.DatagramsNoRoom}
	if want := [...]uint64{g.frames, g.malformed, g.incomplete, v.handed, 0}; got != want || g.frames+g.malformed != v.frames {
		v.t.Errorf("of %d frames: taken, malformed, incomplete, handed over and without room are %v, expected %v", v.frames, got, want)
	}
	if h := v.honest; h.err != nil || len(h.got) != len(h.sent) {
		v.t.Errorf("%d of %d datagrams of another peer came: %v", len(h.got), len(h.sent), h.err)
	}
	if n := len(v.to.m.joinings); n > 0 || len(v.to.downs) > 0 {
		v.t.Errorf("%d datagrams are left, sessions ended: %v", n, v.to.downs)
	}
	v.w.check()
}

// The events that the fuzzer depends on must happen.
func TestDatagramsThatMakeNoSenseHarmNobodyElse(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 5))
	var handed, malformed, incomplete, full, honest uint64
	for range 60 {
		script := make([]byte, 1000+rng.IntN(4000))
		for i := range script {
			script[i] = byte(rng.Uint32())
		}
		v := newGramVandal(t, script)
		v.run()
		handed, malformed, incomplete = handed+v.handed, malformed+v.model.malformed, incomplete+v.model.incomplete
		honest += uint64(len(v.honest.got))
		if v.deepest == limits.DatagramsJoining {
			full++
		}
	}
	t.Logf("%d handed over, %d malformed, %d incomplete, %d of another peer; as many as there may be were under way in %d scripts", handed, malformed, incomplete, honest, full)
	for what, n := range map[string]uint64{"handed over": handed, "malformed": malformed, "incomplete": incomplete, "of another peer": honest, "scripts with a full table": full} {
		if n < 30 {
			t.Errorf("%d datagrams or frames were %s", n, what)
		}
	}
}

// A flood from as many peers as there is room for leaves others their share, and is forgotten
// when it stops.
func TestAFloodOfUnfinishedDatagramsIsCountedAndForgotten(t *testing.T) {
	const peers = limits.DatagramsJoiningInAll/limits.DatagramsJoining + 3
	w := newWorld(t, 11, weather{})
	to := w.add(1, nil)
	var es []*Endpoint
	for i := range peers {
		n := w.add(2+i, nil)
		to.open(n)
		e := n.open(to)
		e.Connect(w.now)
		n.wake()
		es = append(es, e)
	}
	w.runUntil(time.Second, "the sessions", func() bool { return to.ups == peers })
	w.run(time.Millisecond)
	last := w.nodes[peers] // keeps to the protocol
	es, honest := es[:peers-1], es[peers-1]
	g := &grams{from: last, to: to, e: honest, sent: map[uint64]int{}, got: map[uint64]int{}}
	for k := range uint32(3 * limits.DatagramsJoining) {
		for i, e := range es {
			frame := make([]byte, wire.OuterLen+wire.DatagramLen+64+wire.TagLen)
			d := wire.Datagram{ID: k, Length: wire.MaxDatagram}
			d.Put(frame[wire.OuterLen:], 64)
			n := e.live.packets.seal(wire.KindDatagram, frame, wire.OuterLen+wire.DatagramLen+64, nil)
			to.m.Receive(w.now, w.nodes[1+i].addr, frame[:n])
		}
	}
	st := to.m.Stats()
	if n := len(to.m.joinings); n != limits.DatagramsJoiningInAll || st.DatagramsNoRoom == 0 || st.DatagramsIncomplete == 0 {
		t.Errorf("%d are put together, %d had no room, %d were given up", n, st.DatagramsNoRoom, st.DatagramsIncomplete)
	}
	if sum := int(st.DatagramsNoRoom+st.DatagramsIncomplete) + len(to.m.joinings); sum != len(es)*3*limits.DatagramsJoining {
		t.Errorf("%d of %d are accounted for", sum, len(es)*3*limits.DatagramsJoining)
	}
	to.onGram = g.take
	g.send(9000)
	w.run(time.Millisecond)
	if len(g.got) != 1 || g.err != nil {
		t.Errorf("%d datagrams of a peer that sends whole ones came in the middle of it: %v", len(g.got), g.err)
	}
	to.wake()
	w.run(limits.DatagramPatience + time.Millisecond)
	if n := len(to.m.joinings); n != 0 {
		t.Errorf("%d are put together when nothing came for so long", n)
	}
}
