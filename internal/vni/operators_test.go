package coll

import (
	"encoding/binary"
	"math"
	"testing"

	"github.com/weftnet/weft/internal/vni"
)

func TestEveryOperatorCombinesElementByElement(t *testing.T) {
	i := func(v int64) uint64 { return uint64(v) }
	f := math.Float64bits
	for op, c := range map[vni.Operator][3]uint64{
		vni.SumInt64: {i(-5), i(3), i(-2)}, vni.MinInt64: {i(-5), i(3), i(-5)}, vni.MaxInt64: {i(-5), i(3), i(3)},
		vni.AndInt64: {6, 3, 2}, vni.OrInt64: {6, 3, 7}, vni.XorInt64: {6, 3, 5},
		vni.SumFloat64: {f(-0.5), f(2), f(1.5)}, vni.MinFloat64: {f(-0.5), f(2), f(-0.5)}, vni.MaxFloat64: {f(-0.5), f(2), f(2)},
	} {
		to, from := make([]byte, 24), make([]byte, 24)
		for at := 0; at < 24; at += 16 { // the element between is zero in both
			binary.LittleEndian.PutUint64(to[at:], c[0])
			binary.LittleEndian.PutUint64(from[at:], c[1])
		}
		combine(op, to, from)
		for at := 0; at < 24; at += 16 {
			if got := binary.LittleEndian.Uint64(to[at:]); got != c[2] {
				t.Errorf("operator %d of %#x and %#x: %#x, expected %#x", op, c[0], c[1], got, c[2])
			}
		}
	}
	if n := len(combinations); n != int(vni.MaxFloat64)+1 || vni.Operator(n).Valid() {
		t.Errorf("%d combinations; the last operator is %d", n, vni.MaxFloat64)
	}
}
