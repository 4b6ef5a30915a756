package parallel

import (
	"fmt"
	"reflect"
	"unsafe"

	"github.com/weftnet/weft/internal/memory/hugepage"
	"github.com/weftnet/weft/internal/plain"
)

// Var is a parallel variable: one element of type T at each position of a shape. Each rank holds
// the elements of its own positions, and no rank can read the elements of another rank except by an
// operation of this package.
type Var[T any] struct {
	varInfo
	mem  []T // elements of the local box with its halos, in the order of indices
	halo *haloExchange[T]

	turned *turn[T]
}

// varInfo describes a variable, without its elements.
type varInfo struct {
	s        *Shape
	size     int
	dense    bool     // no padding: equal elements have equal bytes
	typeName [28]byte // the end of the name of the element type
	version  uint64   // increases with each write
	fresh    uint64   // the version that the halo holds
}

// mostBytes is the maximum size of the elements of a variable at one rank. It is less than the
// size at which make panics.
const mostBytes = 1 << 46

// New returns a variable with zero elements. It fails with [ErrBadArgument] if elements of type T
// have pointers or no bytes, or if this rank needs more than 2⁴⁶ bytes. T is a number, a boolean,
// or an array or struct of these. The elements are sent as they lie in memory, so all hosts must
// have the same byte order and the same layout of T. New does not communicate.
func New[T any](s *Shape) (*Var[T], error) {
	t := reflect.TypeFor[T]()
	switch {
	case s == nil:
		return nil, badNew("no shape")
	case t.Size() == 0:
		return nil, badNew("elements of type %v, which has no bytes", t)
	case !plain.Is(t):
		return nil, badNew("elements of type %v; expected numbers, booleans, and arrays and structs of them", t)
	case s.room > 0 && uint64(t.Size()) > mostBytes/uint64(s.room):
		return nil, badNew("%d elements of %d bytes at this rank; expected at most 2⁴⁶ bytes", s.room, t.Size())
	}
	v := &Var[T]{mem: makeLarge[T](s.room)}
	v.varInfo = varInfo{s: s, size: int(t.Size()), dense: filled(t) == t.Size(), version: 1}
	name := t.String()
	copy(v.typeName[:], name[max(0, len(name)-len(v.typeName)):])
	return v, nil
}

// badNew returns an error of [New], which fails only at this rank.
func badNew(format string, args ...any) error {
	return fmt.Errorf("parallel: New: %w", badArgument(format, args...))
}

// filled returns the number of bytes of a plain type that are not padding.
func filled(t reflect.Type) uintptr {
	switch t.Kind() {
	case reflect.Array:
		return uintptr(t.Len()) * filled(t.Elem())
	case reflect.Struct:
		n := uintptr(0)
		for i := range t.NumField() {
			n += filled(t.Field(i).Type)
		}
		return n
	}
	return t.Size()
}

// Shape returns the shape of the variable.
func (v *Var[T]) Shape() *Shape { return v.s }

// Row returns the elements of this rank with the given coordinates on all axes but the last. They
// are contiguous in memory, in the order of the last axis. The program may change them until its
// next operation of the machine: Row marks the halo as stale. Row returns nil if this rank holds
// none of these positions.
func (v *Var[T]) Row(pos ...int) []T {
	s, last := v.s, len(v.s.axes)-1
	if len(pos) != last || s.count == 0 {
		return nil
	}
	off := s.origin
	for i, x := range pos {
		if x -= s.local.lo[i]; x < 0 || x >= s.local.n[i] {
			return nil
		}
		off += (pos[i] - s.local.lo[i]) * s.stride[i]
	}
	v.version++
	return v.mem[off : off+s.local.n[last] : off+s.local.n[last]]
}

// At returns the element at a position. If another rank holds the position, or if the shape has
// no such position, here is false.
func (v *Var[T]) At(pos ...int) (x T, here bool) {
	if v.s.Owner(pos...) != v.s.m.rank {
		return x, false
	}
	_, off := v.s.place(v.s.Index(pos...))
	return v.mem[off], true
}

// Fill sets every element of this rank to f of its position. The function f must not keep pos. Fill
// does not communicate.
func Fill[T any](v *Var[T], f func(pos []int) T) {
	s, last := v.s, len(v.s.axes)-1
	v.version++
	all, pos := s.all(), make([]int, len(s.axes))
	s.rows(&all, false, func(r *row) {
		for i := range pos {
			pos[i] = r.pos[i] + s.local.lo[i]
		}
		for k := range r.n {
			v.mem[r.off+k] = f(pos)
			pos[last]++
		}
	})
}

// makeLarge returns memory for n zero elements that operations do not access in sequence. With
// ordinary pages, a processor spends much of such an access on the translation of addresses: in a
// transposed order, neighbors lie a page or more apart.
func makeLarge[T any](n int) []T {
	mem := make([]T, n)
	hugepage.Advise(bytesOf(mem))
	return mem
}

// bytesOf returns the memory of elements.
func bytesOf[T any](v []T) []byte {
	if len(v) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(v))), len(v)*int(unsafe.Sizeof(v[0])))
}

// elementsOf returns memory as elements. The memory has the alignment of T: it comes from
// bytesOf, or from an allocation whose length is a multiple of the size of T.
func elementsOf[T any](b []byte) []T {
	if len(b) == 0 {
		return nil
	}
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/int(unsafe.Sizeof(*new(T))))
}
