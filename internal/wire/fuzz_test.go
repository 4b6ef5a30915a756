package wire_test

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/weftnet/weft/internal/wire"
)

// The code writes any accepted input back as the same bytes: a frame has one spelling. A rejected
// input must not cause a panic.

// FuzzFrame parses a whole frame from any sender, as a receiver does. If the tag is wrong, it
// sets a right one and tries again, since no fuzzer guesses a checksum.
func FuzzFrame(f *testing.F) {
	for _, g := range goodFrames() {
		b, _ := g.build()
		f.Add(b, g.cookie)
	}
	for k := range wire.Kind(16) { // every kind with every set of flags that a link may expect
		for _, flags := range []uint8{0, wire.FlagTagged, wire.FlagSealed, wire.FlagSealed | wire.FlagPhase, wire.FlagSealed | wire.FlagClear} {
			b := make([]byte, wire.OuterLen, wire.OuterLen+40)
			wire.Outer{Kind: k, Flags: flags, Index: 7, Counter: 3}.Put(b)
			f.Add(append(b, make([]byte, 40)...), uint64(0))
		}
	}
	f.Fuzz(func(t *testing.T, frame []byte, cookie uint64) {
		o, rest, err := wire.ParseOuter(frame)
		index := uint32(1)
		if len(frame) >= 8 {
			index = max(binary.LittleEndian.Uint32(frame[4:]), 1) // no session has index 0
		}
		next, ok := wire.ParseNext(frame, wire.Outer{Flags: wire.FlagTagged, Index: index}.Word())
		want := err == nil && o.Kind != wire.KindHello && o.Flags == wire.FlagTagged && frame[0]>>4 == wire.Version
		if ok != want || ok && next != o {
			t.Fatalf("ParseNext = %+v, %v; ParseOuter = %+v, %v", next, ok, o, err)
		}
		checkNextSealed(t, frame, index, o, err)
		if err != nil {
			return
		}
		if o.Flags&wire.FlagSealed != 0 {
			checkSealed(t, o.Kind, rest)
			return
		}
		if frame[0]>>4 == wire.Version {
			same(t, "outer header", outerSample(o).bytes, frame[:wire.OuterLen])
		}
		if o.Flags&wire.FlagTagged != 0 {
			if len(rest) < wire.TagLen {
				if _, err := wire.Open(frame, cookie); err != wire.ErrShort {
					t.Fatalf("no room for the tag, but Open = %v", err)
				}
				return
			}
			if _, err := wire.Open(frame, cookie); err != nil {
				frame = bytes.Clone(frame)
				wire.Seal(frame, len(frame)-wire.TagLen, cookie)
			}
			n, err := wire.Open(frame, cookie)
			if err != nil {
				t.Fatalf("Open of a sealed frame: %v", err)
			}
			rest = frame[wire.OuterLen:n]
			if o.Kind == wire.KindData {
				checkLone(t, frame, rest, cookie)
			}
		}
		checkBody(t, o.Kind, rest)
	})
}

// checkNextSealed compares ParseNext on a sealed link with ParseOuter.
func checkNextSealed(t *testing.T, frame []byte, index uint32, o wire.Outer, err error) {
	next, ok := wire.ParseNext(frame, wire.Outer{Flags: wire.FlagSealed, Index: index}.Word())
	want := err == nil && o.Flags&wire.FlagSealed != 0 && !o.Kind.OfHandshake() && frame[0]>>4 == wire.Version
	if ok != want || ok && next != o {
		t.Fatalf("on a sealed link ParseNext = %+v, %v; ParseOuter = %+v, %v", next, ok, o, err)
	}
}

// checkSealed checks the parts of a sealed frame that this package can read: bodies of
// handshakes. Others are encrypted. A Rekey is read as if it were not.
func checkSealed(t *testing.T, k wire.Kind, rest []byte) {
	switch {
	case k == wire.KindRekey:
		checkRekey(t, rest)
	case !k.OfHandshake() || len(rest) < 2*wire.MACLen:
	case k == wire.KindCookie:
		checkCookie(t, rest[:len(rest)-2*wire.MACLen])
	default:
		checkHandshake(t, rest[:len(rest)-2*wire.MACLen])
	}
}

// FuzzHandshake parses bytes as each body of a handshake.
func FuzzHandshake(f *testing.F) {
	for _, h := range []wire.Handshake{goodHandshake, {Pattern: wire.PatternIK, Message: 3, Index: 1, MinVersion: 1, MaxVersion: 255, Noise: make([]byte, 200)},
		{Message: 2, Index: 1 << 31, MinVersion: 2, MaxVersion: 2}} {
		f.Add(handshakeSample(h, 0).bytes)
		f.Add(handshakeSample(h, 9).bytes)
	}
	f.Add(cookieSample(wire.Cookie{}).bytes)
	f.Add(rekeySample(wire.Rekey{Message: 1, Number: 1, Noise: []byte{1}}).bytes)
	f.Add(rekeySample(wire.Rekey{Message: 2, Number: 65535, Noise: make([]byte, 96)}).bytes)
	f.Fuzz(func(t *testing.T, b []byte) {
		checkHandshake(t, b)
		checkCookie(t, b)
		checkRekey(t, b)
	})
}

func checkHandshake(t *testing.T, b []byte) {
	h, err := wire.ParseHandshake(b)
	if err != nil {
		return
	}
	same(t, "handshake", handshakeSample(h, len(b)-h.Len()).bytes, b)
	mustBeShort(t, b[:h.Len()], func(b []byte) error { _, err := wire.ParseHandshake(b); return err })
}

func checkCookie(t *testing.T, b []byte) {
	if c, err := wire.ParseCookie(b); err == nil {
		same(t, "cookie", cookieSample(c).bytes, b)
		mustBeShort(t, b, func(b []byte) error { _, err := wire.ParseCookie(b); return err })
	}
}

func checkRekey(t *testing.T, b []byte) {
	if r, err := wire.ParseRekey(b); err == nil {
		same(t, "rekey", rekeySample(r).bytes, b)
		mustBeShort(t, b[:wire.RekeyHead], func(b []byte) error { _, err := wire.ParseRekey(b); return err })
	}
}

// mustBeShort parses every prefix of a good body, and some of them of a long one.
func mustBeShort(t *testing.T, b []byte, parse func(b []byte) error) {
	t.Helper()
	for n := 0; n < len(b); n += 1 + n/64 {
		if err := parse(b[:n:n]); err != wire.ErrShort {
			t.Fatalf("the first %d bytes of %d: %v", n, len(b), err)
		}
	}
}

// checkLone compares NextChunk and OpenInto, which accept an expected frame, with ParseInner and
// Open.
func checkLone(t *testing.T, frame, body []byte, cookie uint64) {
	h, records, err := wire.ParseInner(body)
	if err != nil || len(records) == 0 {
		return
	}
	r, rest := wire.NextRecord(records)
	if len(rest) > 0 || r.Type() != wire.TypeChunk || r.Flags() != 0 || len(r.Payload()) == 0 {
		return
	}
	before := h
	before.Seq = h.Seq.Add(-1)
	id, offset := r.Chunk()
	next := before.After(id, offset)
	n := len(r.Payload())
	if next.ID() != id || next.Offset() != offset || next.Begins(body) != n {
		t.Fatalf("a chunk of fragment %d at %d of %d bytes is not known for what is expected", id, offset, n)
	}
	for bit := range 8 * (wire.InnerLen + wire.ChunkLen) {
		if at := bit / 8; at >= 8 && at < wire.InnerLen { // acknowledgements
			continue
		}
		body[bit/8] ^= 1 << (bit % 8)
		if next.Begins(body) != 0 {
			t.Fatalf("it is taken for that with bit %d flipped", bit)
		}
		body[bit/8] ^= 1 << (bit % 8)
	}
	to := make([]byte, n)
	if !wire.OpenInto(to, frame, cookie) || !bytes.Equal(to, r.Payload()) {
		t.Fatal("the tag is good, and OpenInto does not find it so")
	}
	if wire.OpenInto(to, frame, cookie+1) {
		t.Fatal("OpenInto takes another cookie")
	}
	frame[len(frame)-wire.TagLen-1] ^= 1
	if wire.OpenInto(to, frame, cookie) {
		t.Fatal("OpenInto takes a damaged frame")
	}
	frame[len(frame)-wire.TagLen-1] ^= 1
}

func checkBody(t *testing.T, k wire.Kind, body []byte) {
	switch k {
	case wire.KindHello, wire.KindHelloAck:
		checkHello(t, body)
	case wire.KindData:
		checkSegment(t, body)
	case wire.KindAck:
		checkAck(t, body)
	case wire.KindProbe, wire.KindProbeReply:
		checkProbe(t, body)
	case wire.KindDatagram:
		checkDatagram(t, body)
	case wire.KindPart:
		checkPart(t, body)
	case wire.KindPlain:
		_ = wire.CheckRecords(body)
	}
}

func same(t *testing.T, what string, got, want []byte) {
	t.Helper()
	if !bytes.Equal(got, want) {
		t.Fatalf("%s came back as\n% x, was\n% x", what, got, want)
	}
}

func FuzzHello(f *testing.F) {
	f.Add(helloSample(goodHello).bytes)
	f.Fuzz(checkHello)
}

func checkHello(t *testing.T, b []byte) {
	h, err := wire.ParseHello(b)
	if err != nil {
		return
	}
	want := bytes.Clone(b[:wire.HelloLen])
	clear(want[2:4]) // a later version's field, ignored
	clear(want[68:72])
	same(t, "hello", helloSample(h).bytes, want)
}

func FuzzAck(f *testing.F) {
	for _, g := range goodFrames() {
		if g.outer.Kind == wire.KindAck {
			f.Add(g.body[0].bytes)
		}
	}
	f.Fuzz(checkAck)
}

func checkAck(t *testing.T, b []byte) {
	var a wire.Ack
	if a.Parse(b) == nil {
		same(t, "ack", ackSample(&a).bytes, b)
	}
}

func FuzzProbe(f *testing.F) {
	f.Add(probeSample(wire.Probe{ID: 7, Size: wire.ProbeLen}).bytes)
	f.Add(probeSample(wire.Probe{ID: 7, Size: 50}).bytes)
	f.Fuzz(checkProbe)
}

func checkProbe(t *testing.T, b []byte) {
	if p, err := wire.ParseProbe(b); err == nil {
		same(t, "probe", probeSample(p).bytes, b)
	}
}

func FuzzDatagram(f *testing.F) {
	f.Add(datagramSample(wire.Datagram{ID: 7, Offset: 64, Length: 200, Service: 1}, make([]byte, 128)).bytes)
	f.Add(datagramSample(wire.Datagram{ID: 7, Offset: 192, Length: 200}, make([]byte, 8)).bytes)
	f.Add(append(datagramSample(wire.Datagram{ID: 7, Offset: 192, Length: 200}, make([]byte, 8)).bytes, make([]byte, 56)...))
	f.Add(datagramSample(wire.Datagram{}, nil).bytes)
	f.Fuzz(checkDatagram)
}

func checkDatagram(t *testing.T, b []byte) {
	if d, payload, err := wire.ParseDatagram(b); err == nil {
		again := datagramSample(d, payload).bytes
		same(t, "datagram", append(again, make([]byte, len(b)-len(again))...), b)
	}
}

func FuzzLetter(f *testing.F) {
	f.Add(letter(0))
	f.Add(letter(100))
	f.Fuzz(func(t *testing.T, b []byte) {
		l, payload, err := wire.ParseLetter(b)
		if err != nil {
			return
		}
		again := make([]byte, wire.LetterLen, len(b))
		l.Put(again)
		same(t, "letter", append(again, payload...), b)
	})
}

// letter returns a Letter with n bytes.
func letter(n int) []byte {
	b := make([]byte, wire.LetterLen+n)
	(&wire.Letter{Tag: 0x0102030405060708, DstGen: 9, SrcGen: 10, DstSlot: 11, SrcSlot: 12}).Put(b)
	return b
}

func FuzzPart(f *testing.F) {
	f.Add(partSample(wire.Part{Space: wire.Data, Seq: 7, Offset: 64, Length: 200}, make([]byte, 128)).bytes)
	f.Add(partSample(wire.Part{Seq: 7, Offset: 192, Length: 200}, make([]byte, 8)).bytes)
	f.Fuzz(checkPart)
}

func checkPart(t *testing.T, b []byte) {
	if p, payload, err := wire.ParsePart(b); err == nil {
		same(t, "part", partSample(p, payload).bytes, b)
	}
}

func FuzzSegment(f *testing.F) {
	inner := innerSample(wire.Inner{Space: wire.Data, Flags: wire.AckData, Seq: 1})
	f.Add(inner.bytes)
	f.Add(append(inner.bytes, join(oneOfEach()...)...))
	f.Fuzz(checkSegment)
}

func checkSegment(t *testing.T, b []byte) {
	h, rest, err := wire.ParseInner(b)
	if head, ok := wire.ParseHead(b); !ok && err == nil || err == nil && head != h {
		t.Fatalf("ParseHead = %+v, %v; ParseInner = %+v", head, ok, h)
	}
	if err != nil {
		if len(rest) != 0 {
			t.Fatal("records in spite of an error")
		}
		return
	}
	same(t, "inner header", innerSample(h).bytes, b[:wire.InnerLen])
	checkRecords(t, rest)
}

// FuzzRecords also compares CheckRecords with its simple version.
func FuzzRecords(f *testing.F) {
	for _, s := range oneOfEach() {
		f.Add(s.bytes)
	}
	f.Add(join(oneOfEach()...))
	doc := readDocument(f)
	lens := recordHeaderLens(f, doc)
	f.Fuzz(func(t *testing.T, b []byte) {
		err := wire.CheckRecords(b)
		if want := recordsGood(doc, lens, b); (err == nil) != want {
			t.Fatalf("CheckRecords = %v, the dumb version says good = %v", err, want)
		}
		if want := err == nil && len(b) > 0 && wire.Record(b).Type() == wire.TypeFrag && len(records(b)) == 1; wire.LoneFrag(b) != want {
			t.Fatalf("LoneFrag(% x) = %v; expected %v", b, !want, want)
		}
		if err == nil {
			checkRecords(t, b)
		}
	})
}

func checkRecords(t *testing.T, b []byte) {
	n := 0
	for _, r := range records(b) {
		n += len(r)
		want := bytes.Clone(r)
		if r.Type() == wire.TypeVoid {
			clear(want[wire.RecordLen:]) // ignored, whatever it is
		}
		same(t, r.Type().String(), parsedRecord(r).bytes, want)
	}
	if n != len(b) {
		t.Fatalf("records of %d bytes in %d", n, len(b))
	}
}
