package sweep

import (
	"testing"

	"github.com/weftnet/weft/internal/mutate"
	"github.com/weftnet/weft/sim"
)

func TestWhoeverClaimsANameAtOnceThereIsOneOwner(t *testing.T) { // decision 15
	first, claims := sim.Seed(1), uint64(0)
	for i := range uint64(seeds(50, 150, 4000)) { // each seed of a sweep also has one
		found, n := runContest(first+i, mutate.None)
		for _, v := range found {
			t.Errorf("seed %d: %s", first+i, v)
		}
		claims += n
	}
	if n := uint64(seeds(50, 150, 4000)); claims < 20*n {
		t.Errorf("%d claims in %d seeds: too few to meet", claims, n)
	}
}
