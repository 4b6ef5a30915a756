package daemon_test

import (
	"errors"
	"testing"

	weft "github.com/weftnet/weft"
)

// A daemon's regions take whole pages. Nevertheless other processes reach no further than the
// handle says, as with a NIC inside the program.
func TestARegionEndsWhereItsHandleSays(t *testing.T) {
	c := configs(t, 1)
	run(t, c...)
	p := mustAttach(t, c[0], "a/0")
	r, err := p.Alloc(64)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct{ offset, n int }{{57, 8}, {64, 1}, {100, 8}, {65, 0}} {
		if err := p.Put(t.Context(), r.Handle(), x.offset, make([]byte, x.n)); !errors.Is(err, weft.ErrRange) {
			t.Errorf("a PUT of %d bytes at %d of %d: %v; expected %v", x.n, x.offset, r.Handle().Len(), err, weft.ErrRange)
		}
		if err := p.Get(t.Context(), r.Handle(), x.offset, make([]byte, x.n)); !errors.Is(err, weft.ErrRange) {
			t.Errorf("a GET of %d bytes at %d of %d: %v; expected %v", x.n, x.offset, r.Handle().Len(), err, weft.ErrRange)
		}
	}
	if err := p.Put(t.Context(), r.Handle(), 56, make([]byte, 8)); err != nil {
		t.Errorf("a PUT up to the end: %v", err)
	}
}
