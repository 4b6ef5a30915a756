package sweep

import (
	"context"
	"testing"
)

func TestTheRoundsOfABarrierGrowAsTheLogarithmOfItsMembers(t *testing.T) {
	runs, err := Collectives(context.Background(), 3, 64)
	if err != nil || len(runs) != 6 {
		t.Fatalf("%d runs, %v", len(runs), err)
	}
	for i, r := range runs {
		if r.NICs != 2<<i || r.Rounds != i+1 || !r.Kept() || r.VirtualNS < int64(r.Rounds)*20_000 || r.Binomial != i+1 || r.Torus < 1 {
			t.Errorf("run %d: %+v", i, r)
		}
	}
	if r := (Rounds{NICs: 8, Torus: 3, TorusBound: 2}); r.Kept() {
		t.Error("3 steps on a torus count as 2")
	}
	if r := (Rounds{NICs: 8, Rounds: 4, Bound: 3}); r.Kept() {
		t.Error("4 rounds of 8 NICs count as 3")
	}
}
