package sweep

import (
	"github.com/weftnet/weft/internal/wire"
)

// This file holds the forgeries of attackers that have no key and have read frames. Indices and
// counters are visible in every frame.

// forge sends frames with the header of a session and a guessed tag. The shortest has 32 bytes.
// The counter is the next one or much higher.
func (x *intruder) forge() {
	from, to, index, counter, ok := x.session()
	if !ok {
		return
	}
	for range 4 {
		o := wire.Outer{
			Kind: pick(x.rng, wire.KindGoodbye, wire.KindGoodbye, wire.KindData, wire.KindAck, wire.KindProbe,
				wire.KindDatagram, wire.KindRekey, wire.KindPart),
			Flags: wire.FlagSealed, Index: index, Counter: counter + 1 + uint64(x.rng.IntN(1<<x.rng.IntN(20))),
		}
		if x.rng.IntN(2) == 0 {
			o.Flags |= wire.FlagPhase
		}
		if o.Kind == wire.KindData && x.rng.IntN(2) == 0 {
			o.Flags |= wire.FlagClear
		}
		b := x.garbage(o, pick(x.rng, 0, 0, 16, 80, 700))
		x.attacks.Forged++
		x.inject(pick(x.rng, from, from, from, hostThief), to, b)
	}
}

// garbage returns a frame with a header, n random bytes and a random tag.
func (x *intruder) garbage(o wire.Outer, n int) []byte {
	b := make([]byte, wire.OuterLen+n+wire.TagLen)
	o.Put(b)
	for i := wire.OuterLen; i < len(b); i++ {
		b[i] = byte(x.rng.Uint32())
	}
	return b
}

// downgrade sends frames of a plain link, or of a link without tags.
func (x *intruder) downgrade() {
	from, to, index, counter, ok := x.session()
	if !ok {
		return
	}
	counter += 1 + uint64(x.rng.IntN(10_000))
	switch x.rng.IntN(4) {
	case 0:
		x.plainHello(from, to)
	case 1: // a genuine frame with other flags
		if k, ok := x.tape.any(x.rng); ok {
			b := append([]byte(nil), k.frame...)
			k.outer.Flags = pick(x.rng, 0, wire.FlagTagged, k.outer.Flags^wire.FlagPhase,
				k.outer.Flags^wire.FlagClear, k.outer.Flags|wire.FlagTagged)
			k.outer.Counter += uint64(x.rng.IntN(2) * 10_000)
			k.outer.Put(b)
			x.inject(k.from, k.to, b)
		}
	case 2: // as from a program in the driver of the peer
		o := wire.Outer{Kind: wire.KindDatagram, Flags: wire.FlagTagged, Index: index | wire.ResidentBit,
			Counter: counter}
		x.plain(from, to, o, 40)
	default:
		o := wire.Outer{Kind: pick(x.rng, wire.KindGoodbye, wire.KindProbe, wire.KindAck, wire.KindData),
			Flags: wire.FlagTagged, Index: index, Counter: counter}
		x.plain(from, to, o, pick(x.rng, 0, wire.ProbeLen, 32))
	}
	x.attacks.Plain++
}

// plain sends a frame with a checksum and, if a Hello has shown it, the cookie of its session.
func (x *intruder) plain(from, to int, o wire.Outer, n int) {
	b := x.garbage(o, n)
	if o.Kind == wire.KindProbe && n >= wire.ProbeLen {
		wire.Probe{ID: 1, Size: uint32(n)}.Put(b[wire.OuterLen:])
	}
	wire.Seal(b, wire.OuterLen+n, x.thief.cookies[o.Index&^wire.ResidentBit])
	x.inject(from, to, b)
}

// plainHello sends a Hello in the name of a NIC, as NICs do on plain links.
func (x *intruder) plainHello(from, to int) {
	h := x.boast(from)
	b := make([]byte, wire.OuterLen+wire.HelloLen+wire.TagLen)
	o := wire.Outer{Kind: pick(x.rng, wire.KindHello, wire.KindHelloAck), Flags: wire.FlagTagged, Counter: 1 << 40}
	if o.Kind == wire.KindHelloAck {
		o.Index = h.Index
	}
	o.Put(b)
	h.Put(b[wire.OuterLen:])
	wire.Seal(b, wire.OuterLen+wire.HelloLen, 0)
	x.inject(pick(x.rng, from, hostThief), to, b)
}

// boast returns a Hello in the name of a NIC, with a later life and time than any other.
func (x *intruder) boast(as int) wire.Hello {
	x.thief.index++
	return wire.Hello{
		MinVersion: wire.Version, MaxVersion: wire.Version, Index: x.thief.index, NIC: x.ids[as],
		Incarnation: pick[uint64](x.rng, 1<<63, 1<<63, 1, 2), EchoCounter: pick[uint64](x.rng, 1<<62, 1<<62, 1),
		MTUCommand: 1452, MTUData: 1452, WinCommand: 4096, WinData: 4096, ReceiveCapacity: 1 << 20, AckDelayMicros: 100,
	}
}
