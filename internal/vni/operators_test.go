package vni

import (
	"encoding/binary"
	"math"
	"testing"
)

func TestEveryOperatorCombinesElementByElement(t *testing.T) {
	i := func(v int64) uint64 { return uint64(v) }
	f := math.Float64bits
	for op, c := range map[Operator][3]uint64{
		SumInt64: {i(-5), i(3), i(-2)}, MinInt64: {i(-5), i(3), i(-5)}, MaxInt64: {i(-5), i(3), i(3)},
		AndInt64: {6, 3, 2}, OrInt64: {6, 3, 7}, XorInt64: {6, 3, 5},
		SumFloat64: {f(-0.5), f(2), f(1.5)}, MinFloat64: {f(-0.5), f(2), f(-0.5)}, MaxFloat64: {f(-0.5), f(2), f(2)},
	} {
		to, from := make([]byte, 24), make([]byte, 24)
		for at := 0; at < 24; at += 16 { // the element between is zero in both
			binary.LittleEndian.PutUint64(to[at:], c[0])
			binary.LittleEndian.PutUint64(from[at:], c[1])
		}
		op.Combine(to, from)
		for at := 0; at < 24; at += 16 {
			if got := binary.LittleEndian.Uint64(to[at:]); got != c[2] {
				t.Errorf("operator %d of %#x and %#x: %#x, expected %#x", op, c[0], c[1], got, c[2])
			}
		}
	}
	if n := len(combinations); n != int(MaxFloat64)+1 || Operator(n).Valid() {
		t.Errorf("%d combinations; the last operator is %d", n, MaxFloat64)
	}
}
