package wire_test

import (
	"encoding/hex"

	"github.com/weftnet/weft/internal/wire"
)

// This file makes the frames of vectors.json, good and bad.

// frame is a vector in the making: samples in the order of the frame.
type frame struct {
	name, note string
	cookie     uint64
	untagged   bool
	sealed     bool // a handshake frame: MACs replace the tag
	outer      wire.Outer
	body       []sample
}

func (f *frame) build() (b []byte, p parts) {
	switch {
	case f.sealed:
		f.outer.Flags |= wire.FlagSealed
	case !f.untagged:
		f.outer.Flags |= wire.FlagTagged
	}
	outer := outerSample(f.outer)
	b = append(outer.bytes, join(f.body...)...)
	p.Kind, p.Outer = f.outer.Kind.String(), outer.means
	for _, s := range f.body {
		switch s.name {
		case "Hello":
			p.Hello = s.means
		case "Handshake":
			p.Handshake = s.means
		case "Cookie":
			p.Flood = s.means
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
	if f.sealed {
		macs := macsSample(b, vectorFabric, nil)
		b, p.MACs = append(b, macs.bytes...), macs.means
	} else if !f.untagged {
		tag := tagSample(b, f.cookie)
		b, p.Tag = append(b, tag.bytes...), tag.means
	}
	return b, p
}

const vectorCookie = 0xaabbccdd

// vectorFabric is the fabric key of the handshake frames.
var vectorFabric = numbers(0x40, 32)

// numbers returns n bytes, each one more than the one before.
func numbers(from byte, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = from + byte(i)
	}
	return b
}

// handshakeFrames returns the frames that open a sealed pair. Their Noise messages are not real,
// since this package knows nothing of Noise; docs/wire/sealed.json has real ones.
func handshakeFrames() []frame {
	of := func(pattern, message uint8, index uint32, noise, zeros int) []sample {
		return []sample{handshakeSample(wire.Handshake{
			Pattern: pattern, Message: message, Index: index, MinVersion: 1, MaxVersion: 1, Noise: numbers(0, noise),
		}, zeros)}
	}
	var cookie wire.Cookie
	copy(cookie.Nonce[:], numbers(0x80, len(cookie.Nonce)))
	copy(cookie.Sealed[:], numbers(0xa0, len(cookie.Sealed)))
	return []frame{
		{name: "sealed hello: XX", note: "zeros make it as long as its answer", sealed: true, outer: wire.Outer{Kind: wire.KindHello, Counter: 1}, body: of(wire.PatternXX, 1, 17, 128, 64)},
		{name: "sealed hello: IK", sealed: true, outer: wire.Outer{Kind: wire.KindHello, Counter: 2}, body: of(wire.PatternIK, 1, 17, 192, 0)},
		{name: "sealed hello-ack: XX", sealed: true, outer: wire.Outer{Kind: wire.KindHelloAck, Index: 17, Counter: 1}, body: of(wire.PatternXX, 2, 42, 192, 0)},
		{name: "sealed hello-ack: no version in common", note: "pattern 0 and no Noise message", sealed: true,
			outer: wire.Outer{Kind: wire.KindHelloAck, Index: 17, Counter: 2}, body: of(wire.PatternNone, 2, 1, 0, 0)},
		{name: "finish", sealed: true, outer: wire.Outer{Kind: wire.KindFinish, Index: 42, Counter: 1}, body: of(wire.PatternXX, 3, 17, 64, 0)},
		{name: "cookie", sealed: true, outer: wire.Outer{Kind: wire.KindCookie, Index: 17, Counter: 9}, body: []sample{cookieSample(cookie)}},
	}
}

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
	all = append(all, handshakeFrames()...)
	for i := range all {
		if !all[i].sealed && all[i].cookie == 0 && all[i].outer.Kind != wire.KindHello {
			all[i].cookie = vectorCookie
		}
	}
	return all
}

// badFrames returns good frames with one thing wrong. The tag is corrected afterwards, except
// where the tag is the wrong thing.
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
	resealed("kind 14", frag, "kind", vectorCookie, set(0, 1<<4|14))
	resealed("sealed and tagged", frag, "malformed", vectorCookie, set(1, wire.FlagTagged|wire.FlagSealed))
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
	return append(all, badHandshakes(good)...)
}

// badHandshakes returns handshake frames with one thing wrong. The MACs are corrected afterwards,
// except where they are the wrong thing.
func badHandshakes(good map[string][]byte) (all []badVector) {
	add := func(name, of, why string, change func(b []byte) []byte) {
		b := change(append([]byte(nil), good[of]...))
		all = append(all, badVector{Name: name, Frame: hex.EncodeToString(b), Cookie: u64(0), Fabric: hex.EncodeToString(vectorFabric), Error: why})
	}
	signed := func(name, of, why string, change func(b []byte) []byte) {
		add(name, of, why, func(b []byte) []byte {
			b = change(b[:len(b)-2*wire.MACLen])
			return append(b, macsSample(b, vectorFabric, nil).bytes...)
		})
	}
	set := func(at int, v ...byte) func(b []byte) []byte {
		return func(b []byte) []byte { copy(b[at:], v); return b }
	}
	const body, xx, finish = wire.OuterLen, "sealed hello: XX", "finish"
	add("sealed hello with one bit of the Noise message flipped", xx, "mac", func(b []byte) []byte { b[40] ^= 1; return b })
	add("sealed hello with one bit of mac1 flipped", xx, "mac", func(b []byte) []byte { b[len(b)-20] ^= 1; return b })
	add("finish without its last byte", finish, "mac", func(b []byte) []byte { return b[:len(b)-1] })
	add("finish of 59 bytes", finish, "mac", func(b []byte) []byte { return b[:wire.HandshakeLeast-1] })
	signed("finish that is not sealed", finish, "malformed", set(1, 0))
	signed("sealed hello with a key phase", xx, "malformed", set(1, wire.FlagSealed|wire.FlagPhase))
	signed("sealed hello with an index", xx, "malformed", set(4, 1))
	signed("handshake of pattern 3", xx, "malformed", set(body, 3))
	signed("handshake of no pattern with a Noise message", xx, "malformed", set(body, 0))
	signed("handshake of message 4", xx, "malformed", set(body+1, 4))
	signed("handshake with a Noise message beyond its end", xx, "short", set(body+2, 193))
	signed("handshake with other bytes than zeros at its end", xx, "malformed", func(b []byte) []byte { b[len(b)-1] = 1; return b })
	signed("handshake of index 0", xx, "malformed", set(body+4, 0))
	signed("handshake, version range the wrong way round", xx, "malformed", set(body+8, 2, 1))
	signed("handshake whose zero is not", xx, "malformed", set(body+10, 1))
	signed("cookie with a byte too many", "cookie", "malformed", func(b []byte) []byte { return append(b, 0) })
	signed("cookie with a byte too few", "cookie", "short", func(b []byte) []byte { return b[:len(b)-1] })
	return all
}

func makeVectors() vectors {
	v := vectors{About: "Frames of Weft; docs/wire.md tells how to read them. Written by go test ./internal/wire -run TestVectors -update.", Version: wire.Version}
	for _, f := range goodFrames() {
		b, p := f.build()
		g := goodVector{Name: f.name, Note: f.note, Frame: hex.EncodeToString(b), Cookie: u64(f.cookie), Decoded: p}
		if f.sealed {
			g.Fabric = hex.EncodeToString(vectorFabric)
		}
		v.Good = append(v.Good, g)
	}
	v.Bad = badFrames()
	for _, p := range seqPairs {
		v.Sequence = append(v.Sequence, sequenceVector{uint32(p.a), uint32(p.b), p.sub, p.before})
	}
	v.Relay = makeRelayVector()
	return v
}
