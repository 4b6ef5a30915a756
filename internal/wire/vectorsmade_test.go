package wire_test

import (
	"encoding/hex"

	"github.com/weftnet/weft/internal/wire"
)

// The frames of vectors.json, good and bad, are made here.

// frame is a vector in the making: samples in the order of the frame.
type frame struct {
	name, note string
	cookie     uint64
	untagged   bool
	outer      wire.Outer
	body       []sample
}

func (f *frame) build() (b []byte, p parts) {
	if !f.untagged {
		f.outer.Flags |= wire.FlagTagged
	}
	outer := outerSample(f.outer)
	b = append(outer.bytes, join(f.body...)...)
	p.Kind, p.Outer = f.outer.Kind.String(), outer.means
	for _, s := range f.body {
		switch s.name {
		case "Hello":
			p.Hello = s.means
		case "Ack":
			p.Ack = s.means
		case "Probe":
			p.Probe = s.means
		case "Part":
			p.Part = s.means
		case "Datagram":
			p.Datagram = s.means
		case "Inner header":
			p.Inner = s.means
		default:
			p.Records = append(p.Records, s.means)
		}
	}
	if !f.untagged {
		tag := tagSample(b, f.cookie)
		b, p.Tag = append(b, tag.bytes...), tag.means
	}
	return b, p
}

const vectorCookie = 0xaabbccdd

func goodFrames() []frame {
	answer := goodHello
	answer.Index, answer.NIC, answer.Cookie, answer.EchoIncarnation, answer.EchoCounter = 42, 0x0a, vectorCookie, goodHello.Incarnation, 1
	ack := &wire.Ack{Flags: wire.AckCommand | wire.AckData, Reason: wire.AckGap, Words: [wire.Spaces]int{1, 2},
		Ack: [wire.Spaces]wire.Seq{100, 0xffffffff}, DelayNanos: 49_000, EchoCounter: 1234}
	ack.Selective = [wire.Spaces][wire.MaxAckWords]uint64{{1<<0 | 1<<3}, {1 << 63, 1 << 0}}
	full := &wire.Ack{Flags: wire.AckData, Words: [wire.Spaces]int{0, wire.MaxAckWords}, Ack: [wire.Spaces]wire.Seq{0, 7}, DelayNanos: 1<<32 - 1}
	for i := range full.Selective[wire.Data] {
		full.Selective[wire.Data][i] = 0xaaaaaaaaaaaaaaaa
	}
	hi := wire.Envelope{Flags: wire.FlagAccept, DstSlot: 3, SrcSlot: 5, DstGen: 1, SrcGen: 2, Number: 9, Token: 77, Tag: 0xdeadbeef}
	sent := hi
	sent.Flags, sent.Token = wire.FlagWhole, 0
	command := innerSample(wire.Inner{Space: wire.Command, Flags: wire.AckCommand, Seq: 101, Ack: [wire.Spaces]wire.Seq{200, 0}})
	data := innerSample(wire.Inner{Space: wire.Data, Flags: wire.AckCommand | wire.AckData, Seq: 0, Ack: [wire.Spaces]wire.Seq{0xffffffff, 0x80000000}})
	of := func(k wire.Kind, counter uint64) wire.Outer { return wire.Outer{Kind: k, Index: 42, Counter: counter} }

	all := []frame{
		{name: "hello", note: "cookie 0, index 0: no session yet", outer: wire.Outer{Kind: wire.KindHello, Counter: 1}, body: []sample{helloSample(goodHello)}},
		{name: "hello-ack", note: "index and cookie are those that the hello told", cookie: testCookie,
			outer: wire.Outer{Kind: wire.KindHelloAck, Index: goodHello.Index, Counter: 1}, body: []sample{helloSample(answer)}},
		{name: "data: one frag", note: "the message hello, taken apart in wire.md", outer: of(wire.KindData, 7), body: []sample{command, fragSample(hi, []byte("hello"))}},
		{name: "data: no records", note: "holds its place in the sequence", outer: of(wire.KindData, 8), body: []sample{command}},
		{name: "data: one record of each type", outer: of(wire.KindData, 9), body: append([]sample{data}, oneOfEach()...)},
		{name: "data: a piece of a message that counts as sent", note: "the first 5 of 1405 bytes", outer: of(wire.KindData, 23),
			body: []sample{data, eagerSample(4101, 0, 1405, sent, []byte("hello"))}},
		{name: "data: untagged", note: "as on a link that is checked by itself", untagged: true, outer: of(wire.KindData, 10), body: []sample{data, acceptSample(3, 77)}},
		{name: "ack: a gap in each space", outer: of(wire.KindAck, 11), body: []sample{ackSample(ack)},
			note: "command: up to 100 arrived, and 102 and 105; data: up to 4294967295, and 64 and 65, beyond the wrap"},
		{name: "ack: nothing selective", outer: of(wire.KindAck, 12), body: []sample{ackSample(&wire.Ack{Flags: wire.AckCommand, Reason: wire.AckDelayed, Ack: [wire.Spaces]wire.Seq{5, 0}, EchoCounter: 1})}},
		{name: "ack: a full space", note: "every second segment arrived", outer: of(wire.KindAck, 13), body: []sample{ackSample(full)}},
		{name: "probe: small", outer: of(wire.KindProbe, 14), body: []sample{probeSample(wire.Probe{ID: 1, Size: wire.ProbeLen})}},
		{name: "probe-reply: padded", outer: of(wire.KindProbeReply, 15), body: []sample{probeSample(wire.Probe{ID: 1 << 63, Size: 64})}},
		{name: "part: the first of two", outer: of(wire.KindPart, 16), body: []sample{partSample(wire.Part{Space: wire.Data, Seq: 102, Length: 100}, make([]byte, 64))}},
		{name: "part: the last of two", note: "it ends with its segment", outer: of(wire.KindPart, 17),
			body: []sample{partSample(wire.Part{Space: wire.Data, Seq: 102, Offset: 64, Length: 100}, make([]byte, 36))}},
		{name: "plain: one frag", note: "its number is one more than that of the segment before", untagged: true, outer: of(wire.KindPlain, 18),
			body: []sample{fragSample(hi, []byte("hello"))}},
		{name: "datagram: whole", outer: of(wire.KindDatagram, 19), body: []sample{datagramSample(wire.Datagram{ID: 7, Length: 5, Service: 1}, []byte("hello"))}},
		{name: "datagram: empty", outer: of(wire.KindDatagram, 20), body: []sample{datagramSample(wire.Datagram{ID: 8, Service: 255}, nil)}},
		{name: "datagram: the first of two pieces", outer: of(wire.KindDatagram, 21), body: []sample{datagramSample(wire.Datagram{ID: 9, Length: 100, Service: 1}, make([]byte, 64))}},
		{name: "datagram: the last of two pieces", note: "it ends with its datagram", outer: of(wire.KindDatagram, 22),
			body: []sample{datagramSample(wire.Datagram{ID: 9, Offset: 64, Length: 100, Service: 1}, make([]byte, 36))}},
		{name: "goodbye", outer: of(wire.KindGoodbye, 1<<64-1)},
	}
	for i := range all {
		if all[i].cookie == 0 && all[i].outer.Kind != wire.KindHello {
			all[i].cookie = vectorCookie
		}
	}
	return all
}

// badFrames are good ones with one thing wrong. The tag is put right again, except where it is the thing.
func badFrames() (all []badVector) {
	good := map[string][]byte{}
	for _, f := range goodFrames() {
		good[f.name], _ = f.build()
	}
	add := func(name, of, why string, cookie uint64, change func(b []byte) []byte) {
		b := change(append([]byte(nil), good[of]...))
		all = append(all, badVector{Name: name, Frame: hex.EncodeToString(b), Cookie: u64(cookie), Error: why})
	}
	resealed := func(name, of, why string, cookie uint64, change func(body []byte) []byte) {
		add(name, of, why, cookie, func(b []byte) []byte {
			b = change(b[:len(b)-wire.TagLen])
			n := len(b)
			b = append(b, make([]byte, wire.TagLen)...)
			return b[:wire.Seal(b, n, cookie)]
		})
	}
	set := func(at int, v ...byte) func(b []byte) []byte {
		return func(b []byte) []byte { copy(b[at:], v); return b }
	}
	const body, records = wire.OuterLen, wire.OuterLen + wire.InnerLen
	frag := "data: one frag"
	add("empty", frag, "short", vectorCookie, func(b []byte) []byte { return b[:0] })
	add("half an outer header", frag, "short", vectorCookie, func(b []byte) []byte { return b[:8] })
	add("no room for the tag", frag, "short", vectorCookie, func(b []byte) []byte { return b[:wire.OuterLen+wire.TagLen-1] })
	add("last byte lost", frag, "tag", vectorCookie, func(b []byte) []byte { return b[:len(b)-1] })
	add("one bit of the payload flipped", frag, "tag", vectorCookie, func(b []byte) []byte { b[len(b)-17] ^= 1; return b })
	add("another cookie", frag, "tag", vectorCookie+1, func(b []byte) []byte { return b })
	resealed("other magic", frag, "magic", vectorCookie, set(2, 'w'))
	resealed("version 2", frag, "version", vectorCookie, set(0, 2<<4|byte(wire.KindData)))
	resealed("kind 11", frag, "kind", vectorCookie, set(0, 1<<4|11))
	resealed("sealed", frag, "malformed", vectorCookie, set(1, wire.FlagTagged|wire.FlagSealed))
	resealed("key phase", frag, "malformed", vectorCookie, set(1, wire.FlagTagged|wire.FlagPhase))
	resealed("counter 0", frag, "malformed", vectorCookie, set(8, 0))
	resealed("index 0", frag, "malformed", vectorCookie, set(4, 0))
	resealed("hello with an index", "hello", "malformed", 0, set(4, 1))
	resealed("hello cut short", "hello", "short", 0, func(b []byte) []byte { return b[:len(b)-1] })
	resealed("hello, version range the wrong way round", "hello", "malformed", 0, set(body, 2, 1))
	add("plain with a record of type 0", "plain: one frag", "malformed", 0, set(wire.OuterLen, 0))
	resealed("third space", frag, "malformed", vectorCookie, set(body, 2))
	resealed("record of type 0", frag, "malformed", vectorCookie, set(records, 0))
	resealed("record of unknown type", frag, "malformed", vectorCookie, set(records, 200))
	resealed("record with unknown flag", frag, "malformed", vectorCookie, set(records+1, 1))
	resealed("record shorter than its header", frag, "malformed", vectorCookie, set(records+2, wire.FragLen-1))
	resealed("record longer than the body", frag, "short", vectorCookie, set(records+2, wire.FragLen+6))
	resealed("three bytes behind the last record", frag, "short", vectorCookie, func(b []byte) []byte { return append(b, 1, 0, 4) })
	overflow := func(s sample) func(b []byte) []byte {
		return func(b []byte) []byte { return append(b[:records], s.bytes...) }
	}
	resealed("chunk whose end overflows", frag, "malformed", vectorCookie, overflow(chunkSample(0, 1, 1<<64-4, []byte("hello"))))
	resealed("eager beyond its message", frag, "malformed", vectorCookie, overflow(eagerSample(1, 8, 12, wire.Envelope{}, []byte("hello"))))
	resealed("run of one message", frag, "malformed", vectorCookie, overflow(countAs(runSample(wire.Envelope{}, []byte("hello"), nil), 1)))
	resealed("run with more than it says", frag, "malformed", vectorCookie, overflow(tooLong(runSample(wire.Envelope{}, []byte("hello"), nil))))
	resealed("run whose lengths are not all there", frag, "malformed", vectorCookie, overflow(countAs(runSample(wire.Envelope{}, []byte("hello"), nil), 5)))
	resealed("run with a token", frag, "malformed", vectorCookie, overflow(poke(runSample(wire.Envelope{}, []byte("hello"), nil), 20)))
	resealed("put with less than it says", frag, "malformed", vectorCookie, overflow(putSample(0, wire.Remote{Length: 6}, []byte("hello"))))
	resealed("ack with words of a space not meant", "ack: a gap in each space", "malformed", vectorCookie, set(body, wire.AckData))
	resealed("ack with 65 words", "ack: a full space", "malformed", vectorCookie, set(body+3, 65))
	resealed("ack longer than its words", "ack: nothing selective", "malformed", vectorCookie, func(b []byte) []byte { return append(b, 0) })
	resealed("probe smaller than it says", "probe-reply: padded", "short", vectorCookie, func(b []byte) []byte { return b[:len(b)-1] })
	piece := "datagram: the first of two pieces"
	resealed("datagram that begins within a unit", piece, "malformed", vectorCookie, set(body+4, 1))
	resealed("datagram that ends within a unit", piece, "malformed", vectorCookie, set(body+14, 63))
	resealed("datagram longer than its length", piece, "malformed", vectorCookie, set(body+8, 63))
	resealed("datagram of too many bytes", piece, "malformed", vectorCookie, set(body+8, 1, 0x40))
	resealed("datagram with an empty piece", piece, "malformed", vectorCookie, set(body+14, 0))
	resealed("datagram whose zero is not", piece, "malformed", vectorCookie, set(body+13, 1))
	resealed("datagram longer than it says", piece, "malformed", vectorCookie, func(b []byte) []byte { return append(b, 0) })
	resealed("datagram shorter than it says", piece, "short", vectorCookie, func(b []byte) []byte { return b[:len(b)-1] })
	first := "part: the first of two"
	resealed("part that begins within a unit", first, "malformed", vectorCookie, set(body+8, 1))
	resealed("part that ends within a unit", first, "malformed", vectorCookie, set(body+2, 63))
	resealed("part beyond its segment", first, "malformed", vectorCookie, set(body+12, 63))
	resealed("part longer than it says", first, "malformed", vectorCookie, func(b []byte) []byte { return append(b, 0) })
	resealed("part shorter than it says", first, "short", vectorCookie, func(b []byte) []byte { return b[:len(b)-1] })
	return all
}

func makeVectors() vectors {
	v := vectors{About: "Frames of Weft; docs/wire.md tells how to read them. Written by go test ./internal/wire -run TestVectors -update.", Version: wire.Version}
	for _, f := range goodFrames() {
		b, p := f.build()
		v.Good = append(v.Good, goodVector{f.name, f.note, hex.EncodeToString(b), u64(f.cookie), p})
	}
	v.Bad = badFrames()
	for _, p := range seqPairs {
		v.Sequence = append(v.Sequence, sequenceVector{uint32(p.a), uint32(p.b), p.sub, p.before})
	}
	v.Relay = makeRelayVector()
	return v
}
