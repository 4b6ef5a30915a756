package main

import (
	"testing"

	"github.com/weftnet/weft/parallel"
)

func TestTheBodiesAreThoseOfPlainLoops(t *testing.T) {
	m, err := parallel.Init(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	got, err := run(t.Context(), m, steps)
	if err != nil {
		t.Fatal(err)
	}
	want := make([]body, count)
	for i := range want {
		want[i] = first(i)
	}
	for range steps {
		forces := make([]force, count)
		for i := range want {
			for k := 1; k < count; k++ { // in the order in which the bodies pass
				pull(&forces[i], &want[i], &want[(i-k+count)%count])
			}
		}
		for i := range want {
			move(&want[i], forces[i])
		}
	}
	for i := range want {
		if got[i] != want[i] {
			t.Fatalf("body %d is %+v; expected %+v", i, got[i], want[i])
		}
	}
}
