package wire_test

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/weftnet/weft/internal/wire"
)

// A Lone equals the output of Outer and PutFrag, word by word, and differs from every other
// frame.
func TestALoneIsAPlainWithOneFrag(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 7))
	for range 2000 {
		env := wire.Envelope{DstSlot: uint16(rng.Uint32()), SrcSlot: uint16(rng.Uint32()), DstGen: rng.Uint32(), SrcGen: rng.Uint32(),
			Number: rng.Uint32(), Tag: rng.Uint64()}
		index, counter, n := rng.Uint32(), rng.Uint64(), rng.IntN(700)
		want := make([]byte, wire.LoneLen+n)
		o := wire.Outer{Kind: wire.KindPlain, Index: index, Counter: counter}
		o.Put(want)
		wire.PutFrag(want[wire.OuterLen:], &env, n)
		for i := range n {
			want[wire.LoneLen+i] = byte(rng.Uint32())
		}

		l := wire.LoneOf(&env)
		l.SetMessage(rng.Uint32(), rng.Uint64(), rng.IntN(700)) // a previous message
		l.SetMessage(env.Number, env.Tag, n)
		l.SetOuter(o)
		var got []byte
		for _, w := range l {
			got = binary.LittleEndian.AppendUint64(got, w)
		}
		got = append(got, want[wire.LoneLen:]...)
		if !bytes.Equal(got, want) {
			t.Fatalf("% x; expected % x", got, want)
		}

		expected, r := wire.LoneOf(&env), got[wire.OuterLen:]
		if !expected.Heads(r, env.Number) || wire.FragTag(r) != env.Tag {
			t.Fatalf("% x is not known for what it is, with tag %d", r, env.Tag)
		}
		if expected.Heads(r, env.Number+1) || expected.Heads(r[:rng.IntN(len(r))], env.Number) || expected.Heads(append(r, 0), env.Number) {
			t.Fatalf("% x is taken for another", r)
		}
		at := rng.IntN(24) // the tag, which is last, is not for Heads to judge
		r[at] ^= 1 << rng.IntN(8)
		if expected.Heads(r, env.Number) {
			t.Fatalf("% x is taken though byte %d is damaged", r, at)
		}
	}
}
