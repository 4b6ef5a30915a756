package wire_test

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/weftnet/weft/internal/wire"
)

// seqPairs are numbers around the wrap with their expected results; vectors.json has them too.
var seqPairs = []struct {
	a, b   wire.Seq
	sub    int
	before bool
}{
	{0, 0, 0, false},
	{1, 0, 1, false},
	{0, 1, -1, true},
	{0, math.MaxUint32, 1, false},
	{math.MaxUint32, 0, -1, true},
	{4095, math.MaxUint32 - 10, 4106, false},
	{math.MaxUint32 - 10, 4095, -4106, true},
	{math.MaxInt32, 0, math.MaxInt32, false},
	{0, math.MaxInt32, -math.MaxInt32, true},
	{1<<31 + 1, 0, -math.MaxInt32, true},
	{1 << 31, 0, math.MinInt32, true}, // exactly half way round: each is before the other
	{0, 1 << 31, math.MinInt32, true},
}

func TestSequenceNumbersCompareAcrossTheWrap(t *testing.T) {
	for _, p := range seqPairs {
		if got := p.a.Sub(p.b); got != p.sub {
			t.Errorf("%d - %d = %d, want %d", p.a, p.b, got, p.sub)
		}
		if got := p.a.Before(p.b); got != p.before {
			t.Errorf("%d before %d: %v, want %v", p.a, p.b, got, p.before)
		}
	}
}

// The simple version: numbers of 64 bits that never wrap, compared as numbers.
func TestSequenceNumbersBehaveLikeNumbersThatNeverWrap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		start := rapid.OneOf(rapid.Int64Range(0, 1<<40), rapid.Int64Range(1<<32-5000, 1<<32+5000)).Draw(t, "start")
		steps := rapid.IntRange(-math.MaxInt32, math.MaxInt32).Draw(t, "steps")
		a, b := wire.Seq(uint32(start)), wire.Seq(uint32(start+int64(steps)))
		if a.Add(steps) != b {
			t.Errorf("%d + %d = %d, want %d", a, steps, a.Add(steps), b)
		}
		if b.Sub(a) != steps || a.Sub(b) != -steps {
			t.Errorf("%d - %d = %d, want %d", b, a, b.Sub(a), steps)
		}
		if a.Before(b) != (steps > 0) || b.Before(a) != (steps < 0) {
			t.Errorf("%d before %d: %v, and back: %v; they are %d apart", a, b, a.Before(b), b.Before(a), steps)
		}
	})
}
