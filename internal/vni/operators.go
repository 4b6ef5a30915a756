package vni

import (
	"encoding/binary"
	"math"
)

// combinations has what each operator makes of two elements of 64 bits.
var combinations = [...]func(a, b uint64) uint64{
	SumInt64:   func(a, b uint64) uint64 { return a + b },
	MinInt64:   func(a, b uint64) uint64 { return uint64(min(int64(a), int64(b))) },
	MaxInt64:   func(a, b uint64) uint64 { return uint64(max(int64(a), int64(b))) },
	AndInt64:   func(a, b uint64) uint64 { return a & b },
	OrInt64:    func(a, b uint64) uint64 { return a | b },
	XorInt64:   func(a, b uint64) uint64 { return a ^ b },
	SumFloat64: ofFloats(func(a, b float64) float64 { return a + b }),
	MinFloat64: ofFloats(func(a, b float64) float64 { return min(a, b) }),
	MaxFloat64: ofFloats(func(a, b float64) float64 { return max(a, b) }),
}

func ofFloats(f func(a, b float64) float64) func(a, b uint64) uint64 {
	return func(a, b uint64) uint64 { return math.Float64bits(f(math.Float64frombits(a), math.Float64frombits(b))) }
}

// Combine makes each element of to what a valid operator makes of it and of the same element of from, which is of the same
// length. Elements are little-endian, as everything on the wire.
func (o Operator) Combine(to, from []byte) {
	f, le := combinations[o], binary.LittleEndian
	for i := 0; i+8 <= min(len(to), len(from)); i += 8 {
		le.PutUint64(to[i:], f(le.Uint64(to[i:]), le.Uint64(from[i:])))
	}
}
