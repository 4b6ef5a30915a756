package rel

import (
	"testing"
	"time"

	"github.com/weftnet/weft/internal/wire"
)

// FuzzReceive hands a module with an open and a half-open session frames made from the input:
// unchanged, and with the outer header, index and tag corrected, so that the inner parts are
// reached. Nothing may crash, the counts must agree, and the session must still carry a message.
func FuzzReceive(f *testing.F) {
	f.Add([]byte{}, uint8(0))
	f.Add([]byte("WF WF WF WF WF WF WF WF WF WF"), uint8(0))
	for k := wire.KindHello; k <= wire.KindDatagram; k++ {
		f.Add(make([]byte, 96), uint8(k))
	}
	f.Add(helloFrame(1, 5, 9, nil)[wire.OuterLen:], uint8(wire.KindHello))
	data := make([]byte, 16+32)
	wire.PutFrag(data[16:], &wire.Envelope{}, 0)
	f.Add(data, uint8(wire.KindData))
	ack := wire.Ack{Flags: 3, EchoCounter: 1}
	body := make([]byte, ack.Len())
	ack.Put(body)
	f.Add(body, uint8(wire.KindAck))
	part := make([]byte, wire.PartLen+wire.PartUnit)
	p := wire.Part{Space: wire.Data, Seq: 7, Length: 2 * wire.PartUnit}
	p.Put(part, wire.PartUnit)
	f.Add(part, uint8(wire.KindPart))
	datagram := make([]byte, wire.DatagramLen+wire.PartUnit)
	d := wire.Datagram{ID: 7, Length: 2 * wire.PartUnit}
	d.Put(datagram, wire.PartUnit)
	f.Add(datagram, uint8(wire.KindDatagram))
	f.Fuzz(func(t *testing.T, input []byte, kind uint8) {
		kind %= 16
		if len(input) > 4000 {
			return
		}
		w := newWorld(t, 1, weather{})
		probing := func(c *Config) { c.Narrow = true }
		a, b := w.add(1, probing), w.add(2, probing)
		e := a.open(b)
		b.open(a)
		e.Connect(w.now)
		a.wake()
		w.run(10 * time.Millisecond)
		s := b.m.Endpoint(1).live
		b.m.Receive(w.now, address(3), helloFrame(3, 1, 1, nil))

		b.m.Receive(w.now, a.addr, input)
		frame := make([]byte, wire.OuterLen+len(input)+wire.TagLen)
		for i, index := range []uint32{0, s.index, b.m.strangers[3].next.index} {
			from, cookie := a.addr, uint64(0)
			switch i {
			case 1:
				cookie = s.packets.cookies.ours
			case 2:
				from, cookie = address(3), b.m.strangers[3].next.packets.cookies.ours
			}
			wire.Outer{Kind: wire.Kind(kind), Flags: wire.FlagTagged, Index: index, Counter: 1000}.Put(frame)
			copy(frame[wire.OuterLen:], input)
			b.m.Receive(w.now, from, frame[:wire.Seal(frame, wire.OuterLen+len(input), cookie)])
			if b.m.strangers[3] == nil || b.m.strangers[3].next == nil {
				break
			}
		}
		b.wake()
		w.run(10 * time.Millisecond)
		w.check()
		w.weather = weather{delay: 10 * time.Microsecond}
		for range 100 {
			if a.frag(a.open(b), wire.Command, "after") {
				break
			}
			w.run(100 * time.Millisecond)
		}
		w.run(5 * time.Second)
		// Good forgeries of these kinds may end the session.
		if k := wire.Kind(kind); len(b.got) != 1 && k != wire.KindData && k != wire.KindPart && k != wire.KindGoodbye {
			t.Errorf("the message after all did not arrive: %v, node 1 was told %v, node 2 %v", b.got, a.downs, b.downs)
		}
		if w.polls > 5000 {
			t.Errorf("%d polls for a message", w.polls)
		}
		w.check()
	})
}
