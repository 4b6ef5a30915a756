package vni

import (
	"encoding/binary"
	"math"
	"testing"
)

// words holds two elements and their combination, as the bits of a little-endian number.
type words [3]uint64

func TestEveryOperatorCombinesElementByElement(t *testing.T) {
	i, i32 := func(v int64) uint64 { return uint64(v) }, func(v int32) uint64 { return uint64(uint32(v)) }
	f, f32 := math.Float64bits, func(v float32) uint64 { return uint64(math.Float32bits(v)) }
	const big, big32 = math.MaxUint64, math.MaxUint32 // less than 1 as signed numbers
	cases := map[Operator]words{
		SumInt64: {i(-5), i(3), i(-2)}, MinInt64: {i(-5), i(3), i(-5)}, MaxInt64: {i(-5), i(3), i(3)},
		AndInt64: {6, 3, 2}, OrInt64: {6, 3, 7}, XorInt64: {6, 3, 5},
		SumFloat64: {f(-0.5), f(2), f(1.5)}, MinFloat64: {f(-0.5), f(2), f(-0.5)}, MaxFloat64: {f(-0.5), f(2), f(2)},
		SumUint64: {big, 3, 2}, MinUint64: {big, 1, 1}, MaxUint64: {big, 1, big},
		AndUint64: {big, 3, 3}, OrUint64: {6, 3, 7}, XorUint64: {6, 3, 5},
		SumInt32: {i32(-5), i32(3), i32(-2)}, MinInt32: {i32(-5), i32(3), i32(-5)}, MaxInt32: {i32(-5), i32(3), i32(3)},
		AndInt32: {6, 3, 2}, OrInt32: {6, 3, 7}, XorInt32: {6, 3, 5},
		SumUint32: {big32, 3, 2}, MinUint32: {big32, 1, 1}, MaxUint32: {big32, 1, big32},
		AndUint32: {big32, 3, 3}, OrUint32: {6, 3, 7}, XorUint32: {6, 3, 5},
		SumFloat32: {f32(-0.5), f32(2), f32(1.5)}, MinFloat32: {f32(-0.5), f32(2), f32(-0.5)}, MaxFloat32: {f32(-0.5), f32(2), f32(2)},
		Agree: {6, 3, 2},
	}
	for op := SumInt64; op.Valid(); op++ {
		c, ok := cases[op]
		if !ok {
			t.Errorf("operator %d has no case", op)
			continue
		}
		w := op.Width()
		// An odd number of elements; the middle one is zero in both.
		to, from := make([]byte, 3*w), make([]byte, 3*w)
		for _, at := range []int{0, 2 * w} {
			put(to[at:], w, c[0])
			put(from[at:], w, c[1])
		}
		op.Combine(to, from)
		for _, at := range []int{0, 2 * w} {
			if got := get(to[at:], w); got != c[2] {
				t.Errorf("operator %d of %#x and %#x: %#x, expected %#x", op, c[0], c[1], got, c[2])
			}
		}
		if got := get(to[w:], w); got != 0 {
			t.Errorf("operator %d of zeros: %#x", op, got)
		}
	}
	if Operator(0).Valid() || Operator(len(cases)+1).Valid() {
		t.Errorf("an operator that there is not is valid")
	}
}

func put(b []byte, width int, v uint64) {
	if width == 4 {
		binary.LittleEndian.PutUint32(b, uint32(v))
	} else {
		binary.LittleEndian.PutUint64(b, v)
	}
}

func get(b []byte, width int) uint64 {
	if width == 4 {
		return uint64(binary.LittleEndian.Uint32(b))
	}
	return binary.LittleEndian.Uint64(b)
}

// Operators are sent between NICs of different builds, so their numbers must not change.
func TestOperatorsHaveTheNumbersThatWerePublished(t *testing.T) {
	for op, want := range map[Operator]uint8{SumInt64: 1, XorInt64: 6, SumFloat64: 7, MaxFloat64: 9, SumUint64: 10, XorUint64: 15,
		SumInt32: 16, XorInt32: 21, SumUint32: 22, XorUint32: 27, SumFloat32: 28, MaxFloat32: 30, Agree: 31} {
		if uint8(op) != want {
			t.Errorf("an operator has the number %d; expected %d", op, want)
		}
	}
}
