package weft

import (
	"context"
	"encoding/binary"
	"fmt"
	"unsafe"

	"github.com/weftnet/weft/internal/proc"
	"github.com/weftnet/weft/internal/vni"
)

// Element is a type of number that NICs can combine.
type Element interface {
	~int32 | ~int64 | ~uint32 | ~uint64 | ~float32 | ~float64
}

// Operator is the operation by which a reduction combines two elements.
type Operator int

// The operators. And, Or and Xor accept only integers. A sum of integers wraps around on overflow.
// If an element is NaN, the result is NaN. A sum of floats has the same bits in every run of the
// same group. The rounding of this sum may differ from the rounding of a sum in the order of ranks.
const (
	Sum Operator = iota // 0
	Min                 // 1
	Max                 // 2
	And                 // 3
	Or                  // 4
	Xor                 // 5
)

var operatorNames = [...]string{Sum: "sum", Min: "min", Max: "max", And: "and", Or: "or", Xor: "xor"}

// String returns the operator's name, such as "sum".
func (o Operator) String() string {
	if o >= 0 && int(o) < len(operatorNames) {
		return operatorNames[o]
	}
	return fmt.Sprintf("operator-%d", int(o))
}

// Reduce combines the vectors of all members element by element. The argument root is the rank of
// the member that gets the result in vector. All vectors have the same length. At every other
// member, vector keeps its contents.
//
// If a vector has at least 64 KiB for each member of the group, each member combines one part of
// it. For this, each member keeps a region of up to twice the length of the vector, until it closes
// the group. If a member cannot have another region, the NICs reduce the vectors piece by piece,
// which takes longer.
//
// The NICs also reduce shorter vectors piece by piece. The link's MTU limits a piece. If the
// vectors differ in length and the shortest one consists of whole pieces, Reduce may succeed at
// some members. A later operation then fails with [ErrGroupMismatch], or combines elements of this
// reduction.
func Reduce[T Element](ctx context.Context, g *Group, root int, o Operator, vector []T) error {
	if err := g.checkRoot(ctx, "reduce", root); err != nil {
		return err
	}
	return reduce(ctx, g, "reduce", root, o, vector)
}

// AllReduce is like [Reduce], but every member gets the result in vector.
func AllReduce[T Element](ctx context.Context, g *Group, o Operator, vector []T) error {
	return reduce(ctx, g, "all-reduce", proc.All, o, vector)
}

func (g *Group) checkRoot(ctx context.Context, op string, root int) error {
	if root < 0 || root >= g.Size() {
		return g.bad(ctx, op, fmt.Sprintf("root %d; expected 0 to %d", root, g.Size()-1))
	}
	return nil
}

func reduce[T Element](ctx context.Context, g *Group, name string, root int, o Operator, vector []T) error {
	op := operatorFor[T](o)
	if !op.Valid() {
		return g.bad(ctx, name, fmt.Sprintf("operator %v on %T", o, vector))
	}
	b, own := bytesOf(vector)
	err := groupError(g.g.Reduce(ctx, root, op, b))
	if err == nil && own && (root == proc.All || root == g.Rank()) {
		fromBytes(vector, b)
	}
	return err
}

// The kinds of elements. An element of 64 bits has the kind wide plus one of the others.
const (
	signed = iota
	unsigned
	float
	wide
)

// operators holds the NICs' operators by the kind of the elements. An operator that takes only
// integers is 0 for floats.
var operators = [...][len(operatorNames)]vni.Operator{
	signed: {Sum: vni.SumInt32, Min: vni.MinInt32, Max: vni.MaxInt32, And: vni.AndInt32, Or: vni.OrInt32,
		Xor: vni.XorInt32},
	unsigned: {Sum: vni.SumUint32, Min: vni.MinUint32, Max: vni.MaxUint32, And: vni.AndUint32, Or: vni.OrUint32,
		Xor: vni.XorUint32},
	float: {Sum: vni.SumFloat32, Min: vni.MinFloat32, Max: vni.MaxFloat32},
	wide + signed: {Sum: vni.SumInt64, Min: vni.MinInt64, Max: vni.MaxInt64, And: vni.AndInt64, Or: vni.OrInt64,
		Xor: vni.XorInt64},
	wide + unsigned: {Sum: vni.SumUint64, Min: vni.MinUint64, Max: vni.MaxUint64, And: vni.AndUint64, Or: vni.OrUint64,
		Xor: vni.XorUint64},
	wide + float: {Sum: vni.SumFloat64, Min: vni.MinFloat64, Max: vni.MaxFloat64},
}

// operatorFor returns the NICs' operator for elements of type T. If there is none, the result is
// not valid. operatorFor finds the kind of T by arithmetic, which works for named types too.
func operatorFor[T Element](o Operator) vni.Operator {
	if o < 0 || int(o) >= len(operatorNames) {
		return 0
	}
	var zero T
	kind := unsigned
	switch {
	case T(1)/T(2) != zero:
		kind = float
	case zero-T(1) < zero:
		kind = signed
	}
	if unsafe.Sizeof(zero) == 8 {
		kind += wide
	}
	return operators[kind][o]
}

// littleEndian reports whether this host has the byte order of the wire.
var littleEndian = binary.NativeEndian.Uint16([]byte{1, 0}) == 1

// bytesOf returns the bytes of a vector in the byte order of the wire. If the host has this byte
// order, b is the memory of the vector. If not, b is a copy and own is true.
func bytesOf[T Element](v []T) (b []byte, own bool) {
	b = memoryOf(v)
	if littleEndian {
		return b, false
	}
	return swapped(b, int(unsafe.Sizeof(*new(T)))), true
}

// fromBytes sets a vector from bytes in the byte order of the wire. It is only for a host with the
// other byte order.
func fromBytes[T Element](v []T, b []byte) {
	copy(memoryOf(v), swapped(b, int(unsafe.Sizeof(*new(T)))))
}

// swapped returns a copy of b in which the bytes of each word are in the opposite order. A word has
// width bytes.
func swapped(b []byte, width int) []byte {
	s := make([]byte, len(b))
	for i := range b {
		s[i/width*width+width-1-i%width] = b[i]
	}
	return s
}

// memoryOf returns the memory of a vector.
func memoryOf[T any](v []T) []byte {
	if len(v) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(v))), len(v)*int(unsafe.Sizeof(v[0])))
}
