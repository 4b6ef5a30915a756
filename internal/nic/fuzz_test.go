package nic

import (
	"testing"
	"time"

	"github.com/weftnet/weft/internal/link/fault"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/internal/wire"
)

// FuzzHostilePeer lets a NIC with valid frames send anything: records of every type, with half of
// the fields right. It may harm only operations in which it takes part. The engine must not panic,
// keeps its limits, serves its own processes meanwhile, and holds nothing when the peer has gone.
func FuzzHostilePeer(f *testing.F) {
	all := make([]byte, 0, 512)
	for i := range cap(all) {
		all = append(all, byte(i*7))
	}
	f.Add(all)
	f.Add([]byte{2, 2, 2, 2, 3, 3, 4, 1, 0, 9, 9, 1, 4, 2, 11, 10, 0, 0})
	f.Fuzz(meetHostilePeer)
}

func meetHostilePeer(t *testing.T, script []byte) {
	w := newFabric(t, 2, fault.Config{})
	a, b, c := w.process(0, "a/0"), w.process(1, "b/0"), w.process(0, "c/0")
	w.known("a/0", "b/0", "c/0")
	h := hostile{script: script, victim: a, self: b}
	_, h.key, _ = a.e.AddRegion(a.slot, make([]byte, 4096))
	pr := a.e.peerOf(2)
	first := make([]byte, 1)
	b.recv("a/0", 5, 0, first)
	a.wantSent(a.send("b/0", 5, 0, first)) // so that there is credit
	w.settle()
	h.busy(a, b)
	h.session = pr.ep.Session()
	for steps := 0; len(h.script) > 0 && steps < 200; steps++ {
		if r := h.record(); wire.CheckRecords(r) == nil {
			(*handler)(a.e).Deliver(w.now, pr.ep, r)
		}
		w.step()
		if err := a.e.Limits(); err != nil {
			t.Fatal(err)
		}
	}
	data, buf := pattern(500, 1), make([]byte, 500)
	r := a.recv("c/0", 77, 0, buf)
	c.wantSent(c.send("a/0", 77, 0, data))
	w.until(time.Second, "a message between two processes of the victim", func() bool { return a.done(true, r) })

	w.engines = w.engines[:1] // the peer falls silent
	for i := range a.seg.Geometry().Contexts {
		a.post(vni.Command{Code: vni.CodeCancel, Context: uint16(i), Size: vni.CancelReceive})
		a.post(vni.Command{Code: vni.CodeCancel, Context: uint16(i), Size: vni.CancelSend})
		w.step()
	}
	pr.ep.Watch(1) // so that the peer is probed
	w.until(10*time.Second, "the peer given up", func() bool { return !pr.ep.Up() })
	w.noLeaks()
}

// hostile makes records out of a script.
type hostile struct {
	script       []byte
	victim, self *tester
	key          uint64
	session      uint32
}

// busy leaves the victim with operations of every kind in progress, to which records can refer.
func (h *hostile) busy(a, b *tester) {
	for i := range 3 {
		a.recv("b/0", 0, vni.AnyTag, make([]byte, 600*i))
		a.send("b/0", 1, 0, pattern(20_000*i, 1))
	}
	a.send("b/0", 1, vni.WantAccept, pattern(100, 1))
	a.multicast([]string{"b/0", "b/0"}, 1, pattern(700, 1)) // by a relay
	a.start(vni.CodeGet, &vni.SendContext{Flags: vni.WantNotify, Remote: vni.Remote{NIC: 2, Slot: b.slot, Gen: b.gen, Region: 1}}, make([]byte, 9000))
}

func (h *hostile) next() byte {
	if len(h.script) == 0 {
		return 0
	}
	x := h.script[0]
	h.script = h.script[1:]
	return x
}

// pick draws one of several values.
func pick[T any](h *hostile, values ...T) T { return values[int(h.next())%len(values)] }

func (h *hostile) number() uint64 {
	return pick[uint64](h, 0, 1, 100, 768, 1200, 4096, 9000, 16<<10, 40_000, 1<<20, 1<<40, 1<<63, 1<<64-1)
}

func (h *hostile) id() wire.FragmentID {
	return wire.FragmentID(uint32(h.next()%8) + 2048*uint32(h.next()%3))
}

func (h *hostile) envelope() wire.Envelope {
	return wire.Envelope{
		Flags: h.next() & (wire.FlagReply | wire.FlagAccept), DstSlot: pick(h, h.victim.slot, h.victim.slot, 0, 9),
		DstGen: pick(h, h.victim.gen, h.victim.gen, 5), SrcSlot: pick[uint16](h, h.self.slot, 0, 7), SrcGen: pick(h, h.self.gen, 1),
		Number: uint32(h.next() % 16), Token: h.token(), Tag: uint64(h.next() % 4),
	}
}

func (h *hostile) token() uint32 { return uint32(h.next()%4)<<16 | uint32(h.next()%8) }

func (h *hostile) remote() wire.Remote {
	return wire.Remote{
		Slot: pick(h, h.victim.slot, 9), Asker: uint16(h.next() % 3), Gen: pick(h, h.victim.gen, 5), Region: uint32(h.next() % 3),
		Token: h.token(), Key: pick(h, h.key, 5), Offset: h.number(), Length: h.number(),
	}
}

// relayBody appends the body of a relay, most of which is right: for up to three NICs, the victim
// and others.
func (h *hostile) relayBody(b []byte, message int) []byte {
	nics := 1 + int(h.next()%3)
	b = b[:wire.RelayHeadLen]
	head := wire.RelayHead{NIC: pick[uint64](h, 2, 2, 1, 9), Gen: pick(h, h.self.gen, h.self.gen, 1), Slot: pick[uint16](h, h.self.slot, h.self.slot, 7),
		NICs: uint16(nics) + pick[uint16](h, 0, 0, 0, 1), Token: h.token(), Tag: uint64(h.next() % 4)}
	head.Put(b)
	for i := range nics {
		n := wire.RelayNIC{NIC: pick[uint64](h, 1, 2, 9), Session: pick(h, h.session, h.session, 5), Receivers: 1 + uint16(h.next()%3)}
		if i == 0 && h.next()%8 != 0 {
			n.NIC = 1
		}
		b = b[:len(b)+wire.RelayNICLen]
		n.Put(b[len(b)-wire.RelayNICLen:])
		for range n.Receivers {
			v := wire.RelayReceiver{Gen: pick(h, h.victim.gen, h.victim.gen, 5), Number: uint32(h.next() % 16), Slot: pick(h, h.victim.slot, h.victim.slot, 0, 9)}
			b = b[:len(b)+wire.RelayReceiverLen]
			v.Put(b[len(b)-wire.RelayReceiverLen:])
		}
	}
	return b[:min(len(b)+message, 2048-wire.RelayLen)]
}

// record makes the next record, payload included.
func (h *hostile) record() wire.Record {
	b := make([]byte, 2048)
	n := pick(h, 0, 1, 100, 1200)
	flags := h.next() & 3
	e, m := h.envelope(), h.remote()
	t := wire.Type(2 + h.next()%15)
	if t > wire.TypeTable { // records about groups have a separate test
		t += wire.TypeRelay - wire.TypeTable - 1
	}
	switch t {
	case wire.TypeFrag:
		wire.PutFrag(b, &e, n)
	case wire.TypeEager:
		wire.PutEager(b, h.id(), h.number(), h.number(), &e, n)
	case wire.TypeChunk:
		wire.PutChunk(b, flags, h.id(), h.number(), n)
	case wire.TypeRequest:
		length := h.number()
		q := wire.Request{ID: h.id(), Length: length, Ready: min(h.number(), length), Packets: uint32(h.number()), PacketLen: uint32(h.number()), Envelope: e}
		q.Put(b)
	case wire.TypePermission:
		wire.PutPermission(b, flags, h.id(), h.number())
	case wire.TypeRefuse:
		wire.PutRefuse(b, flags, h.id(), pick(h, h.victim.slot, 9), h.token(), wire.Reason(h.next()%9))
	case wire.TypeAccept:
		wire.PutAccept(b, pick(h, h.victim.slot, 9), h.token())
	case wire.TypeWithdraw:
		wire.PutWithdraw(b, h.id(), &e)
	case wire.TypeCredit:
		wire.Credit{Flags: flags, Slot: pick(h, h.victim.slot, h.self.slot), Gen: pick(h, h.victim.gen, h.self.gen), Bytes: h.number()}.Put(b)
	case wire.TypePut:
		if id := h.id(); id != 0 {
			wire.PutLongPut(b, id, &m, min(h.number(), m.Length))
		} else {
			wire.PutPut(b, id, &m, n)
		}
	case wire.TypeGet:
		wire.PutGet(b, h.id(), h.number(), &m)
	case wire.TypeRelay:
		body := h.relayBody(b[wire.RelayLen:wire.RelayLen], n)
		if h.next()%4 != 0 { // a NIC that speaks for itself may well have a valid MAC
			h.self.e.relays.Sign(body)
		}
		wire.PutRelay(b, uint32(h.next()%4), pick[uint32](h, 0, 0, 50), uint32(len(body))+pick[uint32](h, 0, 0, 50, 1<<20), len(body))
	case wire.TypeRelayed:
		wire.PutRelayed(b, flags, uint32(h.next()%4), []uint64{uint64(h.next()), 0, 1 << 63}[:h.next()%4])
	case wire.TypeRun:
		e.Token = 0
		wire.PutRun(b, &e, [][]byte{make([]byte, n), nil, make([]byte, h.next()), make([]byte, h.next()%8)}[:2+h.next()%3])
	default:
		wire.PutTable(b, 60)
		for i := range 60 {
			b[wire.RecordLen+i] = pick(h, 0, 1, 'a', h.next())
		}
		b[wire.RecordLen] = h.next() % 7
	}
	length := int(b[2]) | int(b[3])<<8
	return wire.Record(b[:length:length])
}
