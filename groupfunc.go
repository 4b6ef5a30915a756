package weft

import (
	"context"
	"fmt"
	"reflect"
	"sync"
	"unsafe"

	"github.com/weftnet/weft/internal/proc"
)

// ReduceFunc combines the vectors of all members with a function of the program, and leaves the
// result in vector of the member with rank root. All vectors have the same length. The other
// members' vectors keep their contents.
//
// combine sets into[i] to the combination of into[i] and from[i], for every i. The elements of into
// come from lower ranks than those of from. combine must be associative. It need not be
// commutative, since the order of ranks is kept. It must not change from, keep either slice, or
// call an operation of g. All members pass the same function. One member combines short vectors for
// all; of long vectors each member combines a part. So the result has the same bits at every
// member.
//
// T has a fixed size and no pointers: numbers, booleans, and arrays and structs of them. Another T
// fails with [ErrBadArgument]. Elements travel as they lie in memory, so all hosts must have the
// same byte order and the same layout of T.
//
// Each member may keep a region, as for Reduce. Vectors of up to 1 MiB together are gathered in a
// region of one member; if that has no memory for it, it fails with [ErrNoMemory] and leaves the
// group.
func ReduceFunc[T any](ctx context.Context, g *Group, root int, combine func(into, from []T), vector []T) error {
	if err := g.checkRoot(ctx, "reduce", root); err != nil {
		return err
	}
	return reduceFunc(ctx, g, "reduce", root, combine, vector)
}

// AllReduceFunc is ReduceFunc that leaves the result in vector of every member.
func AllReduceFunc[T any](ctx context.Context, g *Group, combine func(into, from []T), vector []T) error {
	return reduceFunc(ctx, g, "all-reduce", proc.All, combine, vector)
}

func reduceFunc[T any](
	ctx context.Context, g *Group, name string, root int, combine func(into, from []T), vector []T,
) error {
	if combine == nil {
		return g.bad(ctx, name, "no function to combine elements by")
	}
	if why := unfitElement(reflect.TypeFor[T]()); why != "" {
		return g.bad(ctx, name, fmt.Sprintf("elements of type %v, which %s", reflect.TypeFor[T](), why))
	}
	return groupError(g.g.ReduceFunc(ctx, root, int(unsafe.Sizeof(*new(T))), func(into, from []byte) {
		combine(vectorOf[T](into), vectorOf[T](from))
	}, memoryOf(vector)))
}

// vectorOf returns memory as a vector. It lies where a vector may: groups keep elements at
// multiples of their size.
func vectorOf[T any](b []byte) []T {
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/int(unsafe.Sizeof(*new(T))))
}

// unfitElements remembers what unfitElement has found, by type: programs reduce few types, often.
var unfitElements sync.Map

// unfitElement says why elements of a type cannot travel; "" if they can.
func unfitElement(t reflect.Type) string {
	if why, ok := unfitElements.Load(t); ok {
		return why.(string)
	}
	why := ""
	switch {
	case t.Size() == 0:
		why = "has no bytes"
	case !isPlain(t):
		why = "has pointers; expected numbers, booleans, and arrays and structs of them"
	}
	unfitElements.Store(t, why)
	return why
}

// isPlain reports whether values of a type are nothing but their bytes.
func isPlain(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Bool, reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64,
		reflect.Float32, reflect.Float64, reflect.Complex64, reflect.Complex128:
		return true
	case reflect.Array:
		return isPlain(t.Elem())
	case reflect.Struct:
		for i := range t.NumField() {
			if !isPlain(t.Field(i).Type) {
				return false
			}
		}
		return true
	}
	return false // a uintptr means nothing elsewhere, either
}
