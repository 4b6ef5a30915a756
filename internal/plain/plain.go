// Package plain tells which Go types another process can read from the bytes of a value.
package plain

import "reflect"

// Is reports whether a type has a fixed size and no pointers. A uintptr is not plain, because it
// has no meaning in another process.
func Is(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Bool, reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64,
		reflect.Float32, reflect.Float64, reflect.Complex64, reflect.Complex128:
		return true
	case reflect.Array:
		return Is(t.Elem())
	case reflect.Struct:
		for i := range t.NumField() {
			if !Is(t.Field(i).Type) {
				return false
			}
		}
		return true
	}
	return false
}
