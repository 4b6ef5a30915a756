package parallel_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/weftnet/weft/parallel"
)

func TestNewNamesTheElementTypeThatItRefuses(t *testing.T) {
	s, err := parallel.NewShape(t.Context(), machineOfOne(t), parallel.Axis{Len: 3})
	if err != nil {
		t.Fatal(err)
	}
	refused := func(got error, name string) {
		t.Helper()
		if !errors.Is(got, parallel.ErrBadArgument) || !strings.HasPrefix(got.Error(), "parallel: New: bad argument: ") ||
			!strings.Contains(got.Error(), name) {
			t.Errorf("%v; expected ErrBadArgument of New that names %q", got, name)
		}
	}
	_, err = parallel.New[string](s)
	refused(err, "string")
	_, err = parallel.New[*int](s)
	refused(err, "*int")
	_, err = parallel.New[struct{ A []byte }](s)
	refused(err, "[]")
	_, err = parallel.New[struct{}](s)
	refused(err, "no bytes")
	_, err = parallel.New[int](nil)
	refused(err, "no shape")
}
