package wire_test

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/weftnet/weft/internal/wire"
)

// These tests write values and read them back. document_test.go checks that they are written
// where docs/wire.md says.

func TestOuterComesBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o, body := drawOuter(t), anyPayload.Draw(t, "body")
		got, rest, err := wire.ParseOuter(append(outerSample(o).bytes, body...))
		if err != nil || got != o || !bytes.Equal(rest, body) {
			t.Fatalf("ParseOuter = %+v, % x, %v; wrote %+v, % x", got, rest, err, o, body)
		}
	})
}

func TestHelloComesBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := drawHello(t)
		if got, err := wire.ParseHello(helloSample(h).bytes); err != nil || got != h {
			t.Fatalf("ParseHello = %+v, %v; wrote %+v", got, err, h)
		}
	})
}

func TestAckComesBack(t *testing.T) {
	var got wire.Ack // one Ack for all, as in rel: values of an earlier one must not show
	rapid.Check(t, func(t *rapid.T) {
		s := ackSample(drawAck(t))
		if err := got.Parse(s.bytes); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(s.means, ackFields(&got)); d != "" {
			t.Fatal(d)
		}
	})
}

func TestProbeComesBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawProbe(t)
		if got, err := wire.ParseProbe(probeSample(p).bytes); err != nil || got != p {
			t.Fatalf("ParseProbe = %+v, %v; wrote %+v", got, err, p)
		}
	})
}

func TestADatagramComesBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d, payload := drawDatagram(t)
		if got, rest, err := wire.ParseDatagram(datagramSample(d, payload).bytes); err != nil || got != d || len(rest) != len(payload) {
			t.Fatalf("ParseDatagram = %+v, %d bytes, %v; wrote %+v, %d bytes", got, len(rest), err, d, len(payload))
		}
	})
}

func TestAPartComesBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, payload := drawPart(t)
		if got, rest, err := wire.ParsePart(partSample(p, payload).bytes); err != nil || got != p || len(rest) != len(payload) {
			t.Fatalf("ParsePart = %+v, %d bytes, %v; wrote %+v, %d bytes", got, len(rest), err, p, len(payload))
		}
	})
}

func TestABodyOfAHandshakeComesBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h, zeros := drawHandshake(t)
		got, err := wire.ParseHandshake(handshakeSample(h, zeros).bytes)
		if len(h.Noise) == 0 {
			got.Noise = nil
		}
		if d := cmp.Diff(h, got); err != nil || d != "" {
			t.Fatalf("ParseHandshake: %v; wrote (-), read (+):\n%s", err, d)
		}
		c := drawCookie(t)
		if got, err := wire.ParseCookie(cookieSample(c).bytes); err != nil || got != c {
			t.Fatalf("ParseCookie = %+v, %v; wrote %+v", got, err, c)
		}
		r := drawRekey(t)
		if got, err := wire.ParseRekey(rekeySample(r).bytes); err != nil || !cmp.Equal(got, r) {
			t.Fatalf("ParseRekey = %+v, %v; wrote %+v", got, err, r)
		}
	})
}

func TestASegmentComesBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h, all := drawInner(t), rapid.SliceOfN(rapid.Custom(drawRecord), 0, 8).Draw(t, "records")
		got, rest, err := wire.ParseInner(append(innerSample(h).bytes, join(all...)...))
		if err != nil || got != h {
			t.Fatalf("ParseInner = %+v, %v; wrote %+v", got, err, h)
		}
		found := records(rest)
		if len(found) != len(all) {
			t.Fatalf("%d records, wrote %d", len(found), len(all))
		}
		for i, r := range found {
			if d := cmp.Diff(all[i].means, parsedRecord(r).means); d != "" {
				t.Fatalf("record %d, a %s: wrote (-), read (+):\n%s", i, all[i].name, d)
			}
		}
	})
}

// A header is built once for a fragment and patched for each of its pieces. The result must equal
// a header that is built anew.
func TestAPatchedPieceIsTheSameAsANewOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e, m := drawEnvelope(t), drawRemote(t)
		id, length := drawID(t), rapid.Uint64().Draw(t, "length")
		makers := map[wire.Type]func(b []byte, offset uint64, n int){
			wire.TypeChunk: func(b []byte, offset uint64, n int) { wire.PutChunk(b, wire.FlagGet, id, offset, n) },
			wire.TypeEager: func(b []byte, offset uint64, n int) { wire.PutEager(b, id, offset, length, &e, n) },
			wire.TypeFrag:  func(b []byte, _ uint64, n int) { wire.PutFrag(b, &e, n) },
			wire.TypePut:   func(b []byte, _ uint64, n int) { wire.PutPut(b, 0, &m, n) },
		}
		typ := rapid.SampledFrom([]wire.Type{wire.TypeChunk, wire.TypeEager, wire.TypeFrag, wire.TypePut}).Draw(t, "type")
		offset, n := rapid.Uint64().Draw(t, "offset"), rapid.IntRange(0, wire.MaxRecord-typ.HeaderLen()).Draw(t, "n")
		got, want := make([]byte, typ.HeaderLen()), make([]byte, typ.HeaderLen())
		makers[typ](got, 1, 2)
		wire.PatchPiece(got, offset, n)
		makers[typ](want, offset, n)
		if !bytes.Equal(got, want) {
			t.Fatalf("%v\npatched % x\nnew     % x", typ, got, want)
		}
	})
}

func TestWhatCannotBeAPieceIsNotPatched(t *testing.T) {
	for _, s := range oneOfEach() {
		switch wire.Type(s.bytes[0]) {
		case wire.TypeChunk, wire.TypeEager, wire.TypeFrag, wire.TypePut:
		default:
			mustPanic(t, "PatchPiece of a "+s.name, func() { wire.PatchPiece(s.bytes, 0, 1) })
		}
	}
}

func mustPanic(t *testing.T, what string, f func()) {
	t.Helper()
	defer func() {
		if recover() == nil {
			t.Errorf("%s did not panic", what)
		}
	}()
	f()
}

func TestALengthThatDoesNotFitPanics(t *testing.T) {
	b := make([]byte, 1<<17)
	var e wire.Envelope
	wire.PutFrag(b, &e, wire.MaxRecord-wire.FragLen) // the longest possible payload
	mustPanic(t, "PutFrag", func() { wire.PutFrag(b, &e, wire.MaxRecord-wire.FragLen+1) })
	mustPanic(t, "PutEager", func() { wire.PutEager(b, 1, 0, 1<<20, &e, wire.MaxRecord-wire.EagerLen+1) })
	mustPanic(t, "PutChunk", func() { wire.PutChunk(b, 0, 1, 0, wire.MaxRecord-wire.ChunkLen+1) })
	mustPanic(t, "PutPut", func() { wire.PutPut(b, 0, &wire.Remote{}, wire.MaxRecord-wire.PutLen+1) })
	mustPanic(t, "PutTable", func() { wire.PutTable(b, wire.MaxRecord-wire.RecordLen+1) })
	mustPanic(t, "PutVoid", func() { wire.PutVoid(b, wire.MaxRecord+1) })
	mustPanic(t, "PutRun", func() { wire.PutRun(b, &e, [][]byte{nil, b[1<<16:]}) })
	mustPanic(t, "PutRun of one", func() { wire.PutRun(b, &e, [][]byte{nil}) })
	mustPanic(t, "PutRun of too many", func() { wire.PutRun(b, &e, make([][]byte, wire.MaxRun+1)) })
	mustPanic(t, "PatchPiece", func() { wire.PatchPiece(b, 0, wire.MaxRecord-wire.FragLen+1) })
	mustPanic(t, "a Probe without room for itself", func() { wire.Probe{Size: wire.ProbeLen - 1}.Put(b) })
	mustPanic(t, "a Void without room for its header", func() { wire.PutVoid(b, wire.RecordLen-1) })
}
