package nic

import (
	"encoding/binary"
	"math"

	"github.com/weftnet/weft/internal/vni"
)

// combine makes each 64-bit element of to what the operator makes of it and of the same element of from, which is of the
// same length. Elements are little-endian, as everything on the wire.
func combine(o vni.Operator, to, from []byte) {
	switch o {
	case vni.SumInt64:
		each(to, from, func(a, b uint64) uint64 { return a + b })
	case vni.MinInt64:
		each(to, from, func(a, b uint64) uint64 { return uint64(min(int64(a), int64(b))) })
	case vni.MaxInt64:
		each(to, from, func(a, b uint64) uint64 { return uint64(max(int64(a), int64(b))) })
	case vni.AndInt64:
		each(to, from, func(a, b uint64) uint64 { return a & b })
	case vni.OrInt64:
		each(to, from, func(a, b uint64) uint64 { return a | b })
	case vni.XorInt64:
		each(to, from, func(a, b uint64) uint64 { return a ^ b })
	case vni.SumFloat64:
		eachFloat(to, from, func(a, b float64) float64 { return a + b })
	case vni.MinFloat64:
		eachFloat(to, from, func(a, b float64) float64 { return min(a, b) })
	case vni.MaxFloat64:
		eachFloat(to, from, func(a, b float64) float64 { return max(a, b) })
	}
}

func each(to, from []byte, f func(a, b uint64) uint64) {
	le := binary.LittleEndian
	for i := 0; i+8 <= min(len(to), len(from)); i += 8 {
		le.PutUint64(to[i:], f(le.Uint64(to[i:]), le.Uint64(from[i:])))
	}
}

func eachFloat(to, from []byte, f func(a, b float64) float64) {
	each(to, from, func(a, b uint64) uint64 {
		return math.Float64bits(f(math.Float64frombits(a), math.Float64frombits(b)))
	})
}
