package wire_test

import (
	"testing"

	"github.com/weftnet/weft/internal/wire"
)

// The hot path: sixteen small messages in one frame, written and read.

const (
	smallMessages = 16
	smallPayload  = 32
)

var payload [smallPayload]byte

// putData writes a frame of small messages, as rel and nic together do, and returns its length.
func putData(b []byte, counter uint64, e *wire.Envelope) int {
	wire.Outer{Kind: wire.KindData, Flags: wire.FlagTagged, Index: 1, Counter: counter}.Put(b)
	h := wire.Inner{Space: wire.Command, Flags: wire.AckCommand | wire.AckData, Seq: wire.Seq(counter)}
	h.Put(b[wire.OuterLen:])
	n := wire.OuterLen + wire.InnerLen
	for range smallMessages {
		wire.PutFrag(b[n:], e, smallPayload)
		n += wire.FragLen + copy(b[n+wire.FragLen:], payload[:])
	}
	return n
}

// parseData reads a frame and returns a sum that keeps the compiler from removing the work.
func parseData(frame []byte) (sum uint64, err error) {
	_, rest, err := wire.ParseOuter(frame)
	if err != nil {
		return 0, err
	}
	h, rest, err := wire.ParseInner(rest)
	if err != nil {
		return 0, err
	}
	sum = uint64(h.Seq)
	for len(rest) > 0 {
		var r wire.Record
		r, rest = wire.NextRecord(rest)
		e := r.Frag()
		sum += e.Tag + uint64(len(r.Payload()))
	}
	return sum, nil
}

func TestNothingIsAllocated(t *testing.T) {
	b, e, m := make([]byte, 2048), &wire.Envelope{Tag: 1}, &wire.Remote{Length: 4}
	var ack wire.Ack
	q := &wire.Request{ID: 1, Length: 9}
	hello := goodHello
	run := [][]byte{payload[:], payload[:9], nil}
	bad := append(join(oneOfEach()...), 0)
	for name, f := range map[string]func(){
		"data frame": func() {
			n := wire.Seal(b, putData(b, 1, e), testCookie)
			n, err := wire.Open(b[:n], testCookie)
			if err != nil {
				panic(err)
			}
			if _, err = parseData(b[:n]); err != nil {
				panic(err)
			}
		},
		"ack": func() {
			a := wire.Ack{Flags: wire.AckData, Words: [wire.Spaces]int{0, 64}}
			a.Put(b)
			if err := ack.Parse(b[:a.Len()]); err != nil {
				panic(err)
			}
		},
		"hello": func() {
			hello.Put(b)
			if _, err := wire.ParseHello(b); err != nil {
				panic(err)
			}
		},
		"probe": func() {
			wire.Probe{Size: 1400}.Put(b)
			if _, err := wire.ParseProbe(b[:1400]); err != nil {
				panic(err)
			}
		},
		"records": func() {
			wire.PutEager(b, 1, 0, 9, e, 4)
			wire.PatchPiece(b, 4, 5)
			wire.PutWithdraw(b[100:], 1, e)
			wire.PutPut(b[200:], 0, m, 4)
			wire.PutGet(b[300:], 1, 0, m)
			q.Put(b[400:])
			wire.PutPermission(b[500:], 0, 1, 9)
			wire.PutRefuse(b[600:], 0, 1, 2, 3, wire.ReasonRange)
			wire.PutAccept(b[700:], 1, 2)
			wire.Credit{Bytes: 1}.Put(b[800:])
			wire.PutVoid(b[900:], 80)
			wire.PutRun(b[1000:], e, run)
		},
		"records with an error at the end": func() {
			if wire.CheckRecords(bad) == nil {
				panic("taken")
			}
		},
	} {
		if n := testing.AllocsPerRun(100, f); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

func BenchmarkPutData(b *testing.B) {
	frame, e := make([]byte, 2048), &wire.Envelope{Tag: 1}
	for i := 0; b.Loop(); i++ {
		putData(frame, uint64(i), e)
	}
}

func BenchmarkParseData(b *testing.B) {
	frame := make([]byte, 2048)
	frame = frame[:putData(frame, 1, &wire.Envelope{Tag: 1})]
	for b.Loop() {
		if _, err := parseData(frame); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkTag measures the tag of a frame of small messages, written and read: the cost that an
// unchecked link saves.
func BenchmarkTag(b *testing.B) {
	frame := make([]byte, 2048)
	n := putData(frame, 1, &wire.Envelope{Tag: 1})
	b.SetBytes(int64(2 * n))
	for b.Loop() {
		whole := wire.Seal(frame, n, testCookie)
		if _, err := wire.Open(frame[:whole], testCookie); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkPatchPiece(b *testing.B) {
	header := make([]byte, wire.ChunkLen)
	wire.PutChunk(header, 0, 1, 0, 0)
	for i := 0; b.Loop(); i++ {
		wire.PatchPiece(header, uint64(i), 1400)
	}
}
