package weft

import (
	"context"
	"fmt"
	"reflect"
	"sync"
	"unsafe"

	"github.com/weftnet/weft/internal/proc"
)

// ReduceFunc combines the vectors of all members with a function of the program, and leaves the result in vector of the member with
// rank root. All vectors have the same length. The other members' vectors keep their contents.
//
// combine sets into[i] to the combination of into[i] and from[i], for every i. into comes from lower ranks than from, and is never the
// memory of a member's vector that must keep its contents. combine must not change from, nor keep either slice. It must be
// associative; it need not be commutative, since the order of ranks is kept. All members pass the same function. Where and how often it runs
// is not specified: one member combines a short vector for all, and each member a part of a long one. So the result has the same bits
// everywhere.
//
// T has a fixed size and no pointers: numbers, booleans, and arrays and structs of them. Another T fails with [ErrBadArgument]. T travels
// as it lies in memory, so all members run on hosts with the same byte order and layout.
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

func reduceFunc[T any](ctx context.Context, g *Group, name string, root int, combine func(into, from []T), vector []T) error {
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

// vectorOf returns memory as a vector. It lies where a vector may: groups keep elements at multiples of their size.
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
