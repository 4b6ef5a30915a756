package weft

import (
	"context"
	"fmt"
	"reflect"
	"sync"
	"unsafe"

	"github.com/weftnet/weft/internal/plain"
	"github.com/weftnet/weft/internal/proc"
)

// ReduceFunc combines the vectors of all members with the function combine. The argument root is
// the rank of the member that gets the result in vector. All vectors have the same length. At every
// other member, vector keeps its contents.
//
// The function combine must set acc[i] to the combination of acc[i] and vec[i], for every i. The
// elements of acc come from lower ranks than the elements of vec. The function must be associative.
// It need not be commutative, because ReduceFunc keeps the order of ranks. The function must not
// modify vec, keep a reference to either slice, or call an operation of g. All members must pass
// the same function. If the vectors are short, one member combines them for the whole group. If the
// vectors are long, each member combines one part of the vectors. So all members that get the
// result get the same bits.
//
// T must have a fixed size and no pointers: it is a number, a boolean, or an array or struct of
// these. For any other T, ReduceFunc fails with [ErrBadArgument]. The elements are sent as they lie
// in memory, so all hosts must have the same byte order and the same layout of T. If members have
// elements of different sizes, ReduceFunc fails at every member with [ErrGroupMismatch]. Different
// types of the same size are not detected.
//
// If combine panics or ends its goroutine, the process leaves the group.
//
// As with [Reduce], each member may keep a region until that member closes the group. If the
// vectors of all members have at most 1 MiB in total, one member gathers the vectors in a region.
// If that member lacks the memory for the region, that member fails with [ErrNoMemory] and leaves
// the group.
func ReduceFunc[T any](ctx context.Context, g *Group, root int, combine func(acc, vec []T), vector []T) error {
	if err := g.checkRoot(ctx, "reduce", root); err != nil {
		return err
	}
	return reduceFunc(ctx, g, "reduce", root, combine, vector)
}

// AllReduceFunc is like [ReduceFunc], but every member gets the result in vector.
func AllReduceFunc[T any](ctx context.Context, g *Group, combine func(acc, vec []T), vector []T) error {
	return reduceFunc(ctx, g, "all-reduce", proc.All, combine, vector)
}

func reduceFunc[T any](
	ctx context.Context, g *Group, name string, root int, combine func(acc, vec []T), vector []T,
) error {
	if combine == nil {
		return g.bad(ctx, name, "no function to combine elements by")
	}
	if why := unfitElement(reflect.TypeFor[T]()); why != "" {
		return g.bad(ctx, name, fmt.Sprintf("elements of type %v, which %s", reflect.TypeFor[T](), why))
	}
	return groupError(g.g.ReduceFunc(ctx, root, int(unsafe.Sizeof(*new(T))), func(acc, vec []byte) {
		combine(vectorOf[T](acc), vectorOf[T](vec))
	}, memoryOf(vector)))
}

// vectorOf returns memory as a vector. The memory has the alignment of T, because groups keep
// elements at multiples of their size.
func vectorOf[T any](b []byte) []T {
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/int(unsafe.Sizeof(*new(T))))
}

// unfitElements caches the results of unfitElement by type, because programs reduce few types, but
// often.
var unfitElements sync.Map

// unfitElement returns the reason why elements of a type cannot be sent, or "" if they can.
func unfitElement(t reflect.Type) string {
	if why, ok := unfitElements.Load(t); ok {
		return why.(string)
	}
	why := ""
	switch {
	case t.Size() == 0:
		why = "has no bytes"
	case !plain.Is(t):
		why = "has pointers; expected numbers, booleans, and arrays and structs of them"
	}
	unfitElements.Store(t, why)
	return why
}
