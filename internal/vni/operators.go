package vni

import (
	"encoding/binary"
	"math"
)

// Operator is the way in which a Reduce combines two elements, and their type. It is sent in
// pieces on the wire, so a number keeps its meaning.
type Operator uint8

const (
	SumInt64 Operator = iota + 1
	MinInt64
	MaxInt64
	AndInt64
	OrInt64
	XorInt64
	SumFloat64
	MinFloat64
	MaxFloat64
	SumUint64
	MinUint64
	MaxUint64
	AndUint64
	OrUint64
	XorUint64
	SumInt32
	MinInt32
	MaxInt32
	AndInt32
	OrInt32
	XorInt32
	SumUint32
	MinUint32
	MaxUint32
	AndUint32
	OrUint32
	XorUint32
	SumFloat32
	MinFloat32
	MaxFloat32

	// Agree is the AndInt64 with which the members of a group agree on their operation. No program
	// can name it, so the vector of a program is never mistaken for it.
	Agree
)

// Valid reports whether there is such an operator.
func (o Operator) Valid() bool { return o >= SumInt64 && o <= Agree }

// Width returns how many bytes an element of a valid operator has.
func (o Operator) Width() int {
	if o >= SumInt32 && o <= MaxFloat32 {
		return 4
	}
	return 8
}

// Fits reports whether n bytes hold a whole number of elements of a valid operator.
func (o Operator) Fits(n int) bool { return n%o.Width() == 0 }

// combinations64 holds the function of each operator of 64-bit elements, and combinations32 that
// of each operator of 32-bit elements. Signed and unsigned integers share the functions that do
// not depend on the sign.
var (
	combinations64 = [...]func(a, b uint64) uint64{
		SumInt64: sum[uint64], MinInt64: leastInt64, MaxInt64: mostInt64,
		AndInt64: and[uint64], OrInt64: or[uint64], XorInt64: xor[uint64],
		SumFloat64: ofFloat64(sum[float64]), MinFloat64: ofFloat64(least[float64]),
		MaxFloat64: ofFloat64(most[float64]), SumUint64: sum[uint64], MinUint64: least[uint64], MaxUint64: most[uint64],
		AndUint64: and[uint64], OrUint64: or[uint64], XorUint64: xor[uint64], Agree: and[uint64],
	}
	combinations32 = [...]func(a, b uint32) uint32{
		SumInt32: sum[uint32], MinInt32: leastInt32, MaxInt32: mostInt32,
		AndInt32: and[uint32], OrInt32: or[uint32], XorInt32: xor[uint32],
		SumUint32: sum[uint32], MinUint32: least[uint32], MaxUint32: most[uint32],
		AndUint32: and[uint32], OrUint32: or[uint32], XorUint32: xor[uint32],
		SumFloat32: ofFloat32(sum[float32]), MinFloat32: ofFloat32(least[float32]),
		MaxFloat32: ofFloat32(most[float32]),
	}
)

type number interface {
	uint32 | uint64 | float32 | float64
}

func sum[T number](a, b T) T   { return a + b }
func least[T number](a, b T) T { return min(a, b) }
func most[T number](a, b T) T  { return max(a, b) }

func and[T uint32 | uint64](a, b T) T { return a & b }
func or[T uint32 | uint64](a, b T) T  { return a | b }
func xor[T uint32 | uint64](a, b T) T { return a ^ b }

func leastInt64(a, b uint64) uint64 { return uint64(min(int64(a), int64(b))) }
func mostInt64(a, b uint64) uint64  { return uint64(max(int64(a), int64(b))) }
func leastInt32(a, b uint32) uint32 { return uint32(min(int32(a), int32(b))) }
func mostInt32(a, b uint32) uint32  { return uint32(max(int32(a), int32(b))) }

func ofFloat64(f func(a, b float64) float64) func(a, b uint64) uint64 {
	return func(a, b uint64) uint64 { return math.Float64bits(f(math.Float64frombits(a), math.Float64frombits(b))) }
}

func ofFloat32(f func(a, b float32) float32) func(a, b uint32) uint32 {
	return func(a, b uint32) uint32 { return math.Float32bits(f(math.Float32frombits(a), math.Float32frombits(b))) }
}

// Combine combines each element of to with the same element of from by a valid operator, and
// leaves the result in to. Both have the same length. Elements are little-endian, as everything on
// the wire.
func (o Operator) Combine(to, from []byte) {
	le, n := binary.LittleEndian, min(len(to), len(from))
	if o.Width() == 4 {
		f := combinations32[o]
		for i := 0; i+4 <= n; i += 4 {
			le.PutUint32(to[i:], f(le.Uint32(to[i:]), le.Uint32(from[i:])))
		}
		return
	}
	f := combinations64[o]
	for i := 0; i+8 <= n; i += 8 {
		le.PutUint64(to[i:], f(le.Uint64(to[i:]), le.Uint64(from[i:])))
	}
}
