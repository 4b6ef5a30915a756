package sweep

import (
	"math/rand/v2"
	"testing"
)

func TestARegionKnowsWhatMustBeInIt(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	r := newRegion(nil, make([]byte, readBytes+writeBytes), 5)
	s, ok := r.reserve(rng, 100)
	if !ok || !r.isBusy(s) {
		t.Fatal("no room in an empty region")
	}
	data := cut(9, 0, 100)
	if r.written(s, data) == nil {
		t.Error("bytes that are not there were found")
	}
	copy(r.mem[readBytes+s.from:], data)
	if err := r.written(s, data); err != nil {
		t.Error(err)
	}
	if err := r.check(); err != nil {
		t.Error(err)
	}
	r.mem[readBytes+s.to] ^= 1
	if r.check() == nil {
		t.Error("a byte that was never put was not found")
	}
	r.busy = append(r.busy, span{s.to, s.to + 1})
	if err := r.check(); err != nil {
		t.Errorf("a PUT under way was taken for a violation: %v", err)
	}
	r.mem[3] ^= 1
	if r.check() == nil {
		t.Error("a change of the part that no process may write was not found")
	}
}

func TestPutsUnderWayNeverOverlap(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	r := newRegion(nil, make([]byte, readBytes+writeBytes), 5)
	var got []span
	for range 1000 {
		if s, ok := r.reserve(rng, 1+rng.IntN(4000)); ok {
			for _, o := range got {
				if s.from < o.to && o.from < s.to {
					t.Fatalf("%v and %v overlap", s, o)
				}
			}
			got = append(got, s)
		}
	}
	if len(got) < 20 {
		t.Errorf("only %d found room", len(got))
	}
}
