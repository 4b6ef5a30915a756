package parallel

import (
	"math"
	"unsafe"
)

// Op is an operator that combines elements. Join must be associative, and Join(Identity, x) and
// Join(x, Identity) must be x. Join need not be commutative: the operations keep the order of
// positions. All ranks must use the same operator. Name appears in errors, and its first 12 bytes
// are compared between ranks; it may be empty.
type Op[T any] struct {
	Name     string
	Identity T
	Join     func(a, b T) T

	// fold returns the combination of all elements of a run, in a fixed order that fold chooses.
	// nil: in order.
	fold func(run []T) T
	// scan is the loop of a scan along a run. It returns the combination of acc and the run. nil: a
	// loop over Join.
	scan func(dst, run []T, acc T, exclusive bool) T
	// exact means that any grouping gives the same bits.
	exact bool
}

// Integer is an integer type of any size.
type Integer interface {
	~int | ~int8 | ~int16 | ~int32 | ~int64 | ~uint | ~uint8 | ~uint16 | ~uint32 | ~uint64
}

// Float is a floating-point type.
type Float interface{ ~float32 | ~float64 }

// Number is a type of real numbers.
type Number interface{ Integer | Float }

// lanes is the number of partial results of a run: element i of a run belongs to lane i mod 8. The
// bits of sums of floats depend on it.
const lanes = 8

// Sum returns the operator that adds. Integers wrap around.
func Sum[T Number]() Op[T] {
	return Op[T]{Name: "sum", Join: func(a, b T) T { return a + b }, fold: foldSum[T], scan: scanSum[T],
		exact: !isFloat[T]()}
}

// foldSum adds the lanes of a run, and then the lanes in pairs.
func foldSum[T Number](run []T) T {
	var a, b, c, d, e, f, g, h T
	for ; len(run) >= lanes; run = run[lanes:] {
		x := (*[lanes]T)(run)
		a += x[0]
		b += x[1]
		c += x[2]
		d += x[3]
		e += x[4]
		f += x[5]
		g += x[6]
		h += x[7]
	}
	rest := [lanes]T{a, b, c, d, e, f, g, h}
	for i, x := range run {
		rest[i&(lanes-1)] += x
	}
	return ((rest[0] + rest[1]) + (rest[2] + rest[3])) + ((rest[4] + rest[5]) + (rest[6] + rest[7]))
}

func scanSum[T Number](dst, run []T, acc T, exclusive bool) T {
	dst = dst[:len(run)]
	if exclusive {
		for i, x := range run {
			dst[i] = acc
			acc += x
		}
		return acc
	}
	for i, x := range run {
		acc += x
		dst[i] = acc
	}
	return acc
}

// Min returns the operator that selects the smaller element. If an element is NaN, the result is
// NaN. The identity is the largest value of T.
func Min[T Number]() Op[T] {
	return Op[T]{Name: "min", Identity: largest[T](), Join: func(a, b T) T { return min(a, b) },
		fold: func(run []T) T {
			acc := largest[T]()
			for _, x := range run {
				acc = min(acc, x)
			}
			return acc
		}}
}

// Max returns the operator that selects the larger element. If an element is NaN, the result is
// NaN. The identity is the smallest value of T.
func Max[T Number]() Op[T] {
	return Op[T]{Name: "max", Identity: smallest[T](), Join: func(a, b T) T { return max(a, b) },
		fold: func(run []T) T {
			acc := smallest[T]()
			for _, x := range run {
				acc = max(acc, x)
			}
			return acc
		}}
}

// And returns the operator that keeps the bits that both elements have.
func And[T Integer]() Op[T] {
	return Op[T]{Name: "and", Identity: ^T(0), Join: func(a, b T) T { return a & b }}
}

// Or returns the operator that keeps the bits that one of the elements has.
func Or[T Integer]() Op[T] { return Op[T]{Name: "or", Join: func(a, b T) T { return a | b }} }

// Xor returns the operator that keeps the bits that exactly one of the elements has.
func Xor[T Integer]() Op[T] { return Op[T]{Name: "xor", Join: func(a, b T) T { return a ^ b }} }

// All returns the operator that is true if both elements are.
func All() Op[bool] {
	return Op[bool]{Name: "all", Identity: true, Join: func(a, b bool) bool { return a && b }}
}

// Any returns the operator that is true if one of the elements is.
func Any() Op[bool] { return Op[bool]{Name: "any", Join: func(a, b bool) bool { return a || b }} }

// largest returns the largest value of T: +Inf for floats.
func largest[T Number]() T {
	var zero T
	switch {
	case isFloat[T]():
		return infinite[T](1)
	case zero-1 > zero: // unsigned
		return zero - 1
	}
	return -(lowest[T]() + 1)
}

// smallest returns the smallest value of T: −Inf for floats.
func smallest[T Number]() T {
	var zero T
	switch {
	case isFloat[T]():
		return infinite[T](-1)
	case zero-1 > zero:
		return zero
	}
	return lowest[T]()
}

func isFloat[T Number]() bool { return T(1)/T(2) != 0 }

func infinite[T Number](sign int) T { return T(math.Inf(sign)) }

// lowest returns the smallest value of a signed integer: only its highest bit is set.
func lowest[T Number]() T {
	x := T(1)
	for range unsafe.Sizeof(x)*8 - 1 {
		x += x
	}
	return x
}

// check returns an error if the operator has no function.
func (o *Op[T]) check() error {
	if o.Join == nil {
		return badArgument("an operator without Join")
	}
	return nil
}

// total returns the combination of acc and all elements of a run.
func (o *Op[T]) total(acc T, run []T) T {
	if o.fold != nil {
		return o.Join(acc, o.fold(run))
	}
	for _, x := range run {
		acc = o.Join(acc, x)
	}
	return acc
}
