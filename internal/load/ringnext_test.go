package load_test

import (
	"testing"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/load"
)

func TestNextIsAnOpThatIsNotUnderWay(t *testing.T) {
	p := open(t)
	r := load.NewRing(2)
	for n := range weft.Tag(6) {
		if r.Full() {
			if m, err := r.Oldest(t.Context()); err != nil || m.Tag != n-2 {
				t.Fatalf("tag %d, %v; expected %d", m.Tag, err, n-2)
			}
		}
		op := r.Next()
		if err := r.Add(op, p.StartRecv(op, p.Name(), n, make([]byte, 1))); err != nil {
			t.Fatal(err)
		}
		if err := p.Send(t.Context(), p.Name(), n); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.Finish(t.Context()); err != nil {
		t.Error(err)
	}
}
