package plain

import (
	"reflect"
	"testing"
)

func TestNumbersAndWhatIsMadeOfThemArePlain(t *testing.T) {
	type pair struct {
		A int32
		B [3]float64
	}
	for _, v := range []any{false, int8(1), uint64(1), 1.5, complex64(1), [2]pair{}, struct{}{}} {
		if !Is(reflect.TypeOf(v)) {
			t.Errorf("%T is not plain", v)
		}
	}
}

func TestPointersAndSizesThatVaryAreNotPlain(t *testing.T) {
	type deep struct{ In [1]struct{ P *int } }
	for _, v := range []any{"", []int{}, new(int), map[int]int{}, func() {}, uintptr(1), make(chan int), deep{}, [1]any{}} {
		if Is(reflect.TypeOf(v)) {
			t.Errorf("%T is plain", v)
		}
	}
}
