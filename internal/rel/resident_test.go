package rel

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/wire"
)

// reply returns a frame as a program in the driver of a NIC makes it, by the keys that the NIC
// has of the session.
func reply(k DriverKeys, kind wire.Kind, counter uint64, payload []byte) []byte {
	n := wire.OuterLen + wire.DatagramLen + len(payload)
	b := make([]byte, n+wire.TagLen)
	wire.Outer{Kind: kind, Flags: wire.FlagTagged, Index: k.ReplyIndex, Counter: counter}.Put(b)
	d := wire.Datagram{ID: uint32(counter), Length: uint32(len(payload)), Service: 2}
	d.Put(b[wire.OuterLen:], len(payload))
	copy(b[wire.OuterLen+wire.DatagramLen:], payload)
	wire.Seal(b, n, k.ReplyCookie)
	return b
}

// Frames of a program in a peer's driver have their own counters: they neither use up the
// engine's counters nor are judged by them.
func TestFramesOfAPeersDriverHaveCountersOfTheirOwn(t *testing.T) {
	w := newWorld(t, 5, weather{})
	a, b := w.add(1, nil), w.add(2, nil)
	e := a.open(b)
	g := newGrams(b, a) // from the peer's engine
	var came [][]byte
	engines := a.onGram
	a.onGram = func(e *Endpoint, service uint8, payload []byte) {
		if service == 2 && len(payload) == 3 {
			came = append(came, bytes.Clone(payload))
		} else {
			engines(e, service, payload)
		}
	}
	if _, ok := g.e.DriverKeys(); ok {
		t.Error("there are keys of a session that is not open")
	}
	e.Connect(w.now)
	a.wake()
	w.runUntil(time.Second, "the session", func() bool { return e.Up() && g.e.Up() })
	keys, ok := g.e.DriverKeys()
	mine, _ := e.DriverKeys()
	if !ok || keys.Index != mine.ReplyIndex&^wire.ResidentBit || keys.Cookie != mine.ReplyCookie || keys.ReplyIndex != mine.Index|wire.ResidentBit || keys.Most < 1000 {
		t.Fatalf("%+v and %+v, %v", keys, mine, ok)
	}
	// The engine's counters exceed those of the driver now.
	for range 10 {
		g.send(100)
		w.run(time.Millisecond)
	}
	before := e.m.stats
	heard := e.live.acks
	from := b.addr
	damaged := reply(keys, wire.KindDatagram, 7, []byte("bad"))
	damaged[wire.OuterLen+wire.DatagramLen] ^= 1
	for _, frame := range [][]byte{
		reply(keys, wire.KindDatagram, 1, []byte("one")),
		reply(keys, wire.KindDatagram, 1, []byte("one")), // again
		reply(keys, wire.KindDatagram, 3, []byte("tri")), // and one …
		reply(keys, wire.KindDatagram, 2, []byte("two")), // … that it has overtaken
		reply(keys, wire.KindDatagram, 2, []byte("two")), // again
		damaged, //
		reply(keys, wire.KindGoodbye, 8, []byte("end")), // only the engine sends these
		reply(keys, wire.KindDatagram, 7, []byte("all!")[:3]),
	} {
		a.m.Receive(w.now, from, frame)
	}
	if want := [][]byte{[]byte("one"), []byte("tri"), []byte("two"), []byte("all")}; len(came) != len(want) {
		t.Fatalf("%q came, expected %q", came, want)
	} else {
		for i := range want {
			if !bytes.Equal(came[i], want[i]) {
				t.Errorf("%q came, expected %q", came, want)
			}
		}
	}
	after := e.m.stats
	if after.Replays != before.Replays+2 || after.CRCErrors != before.CRCErrors+1 || !e.Up() {
		t.Errorf("%d replays and %d errors, expected 2 and 1; up: %v", after.Replays-before.Replays, after.CRCErrors-before.CRCErrors, e.Up())
	}
	if e.live.acks != heard {
		t.Error("the driver's counters are taken for the engine's in acknowledgements")
	}
	for range 10 { // and the engine's continue
		g.send(100)
		w.run(time.Millisecond)
	}
	a.m.sessions.remove(e.live)
	if len(a.m.sessions.apart) != 0 {
		t.Error("a session that is over leaves its driver's counters behind")
	}
	if len(g.got) != 20 || g.err != nil {
		t.Errorf("%d of 20 datagrams of the engine have come: %v", len(g.got), g.err)
	}
}

// plainPair is a sealed pair that admits plain datagrams of programs.
func plainPair(t *testing.T) (w *world, a, b *node, ea, eb *Endpoint) {
	w = newWorld(t, 1, weather{delay: 100 * time.Microsecond})
	plain := func(s *Security) { s.PlainResident = true }
	a, b = w.add(1, sealAs(1, plain)), w.add(2, sealAs(2, plain))
	ea, eb = a.open(b), b.open(a)
	ea.Connect(w.now)
	a.wake()
	w.runUntil(time.Second, "the session", func() bool { return ea.Up() && eb.Up() })
	w.run(time.Second)
	return w, a, b, ea, eb
}

// forge returns a datagram that an eavesdropper can make after a plain one of the same session.
func forge(s *session, counter uint64, service uint8, payload string) []byte {
	n := wire.OuterLen + wire.DatagramLen + len(payload)
	b := make([]byte, n+wire.TagLen)
	wire.Outer{Kind: wire.KindDatagram, Flags: wire.FlagTagged, Index: s.index, Counter: counter}.Put(b)
	d := wire.Datagram{ID: 9, Length: uint32(len(payload)), Service: service}
	d.Put(b[wire.OuterLen:], len(payload))
	copy(b[wire.OuterLen+wire.DatagramLen:], payload)
	wire.Seal(b, n, s.packets.cookies.ours)
	return b
}

func TestAForgedPlainDatagramLeavesTheSealedSessionAsItIs(t *testing.T) {
	w, a, b, ea, eb := plainPair(t)
	var came []string
	a.onGram = func(_ *Endpoint, service uint8, payload []byte) {
		came = append(came, fmt.Sprint(service, " ", string(payload)))
	}
	acks := ea.live.acks.newest
	a.m.Receive(w.now, b.addr, forge(ea.live, 1<<63, wire.ServiceProgram, "forged"))
	if len(came) != 1 {
		t.Fatalf("%q came; expected the datagram of a program, which is not protected", came)
	}
	a.m.Receive(w.now, b.addr, forge(ea.live, 1<<63+1, wire.ServiceProcess, "for a process"))
	a.m.Receive(w.now, address(66), forge(ea.live, 1<<63+2, wire.ServiceProgram, "from elsewhere"))
	if len(came) != 1 || ea.live.roams != nil {
		t.Errorf("%q came; a probe of the forger's address: %v", came, ea.live.roams != nil)
	}
	if ea.live.acks.newest != acks {
		t.Errorf("the next acknowledgement echoes counter %d", ea.live.acks.newest)
	}
	for i := range 20 {
		b.frag(eb, wire.Command, fmt.Sprint("sealed ", i))
		w.run(time.Millisecond)
	}
	w.run(5 * time.Second)
	if len(a.got) != 20 || len(a.downs)+len(b.downs) > 0 {
		t.Errorf("%d of 20 sealed messages came; sessions ended: %v %v", len(a.got), a.downs, b.downs)
	}
}
