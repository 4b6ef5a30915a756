package sweep

import (
	"testing"

	"github.com/weftnet/weft/internal/mutate"
)

func TestGuildsKeepTheirPromises(t *testing.T) {
	seeds := uint64(100)
	if testing.Short() {
		seeds = 25
	}
	for seed := range seeds {
		if found, done := runGuild(seed, mutate.None); len(found) > 0 || done == 0 {
			t.Fatalf("seed %d: %d operations, %q", seed, done, found)
		}
	}
}

func TestGuildsFindTheDefectsOfTheirOperations(t *testing.T) {
	const mostSeeds = 300 // a sweep may take a thousand to find a defect
	for _, d := range []mutate.Defect{mutate.OperatorWide, mutate.SignForgotten, mutate.PartLeftWaiting, mutate.ShrinkForgets} {
		seed := uint64(0)
		for ; seed < mostSeeds; seed++ {
			if found, _ := runGuild(seed, d); len(found) > 0 {
				break
			}
		}
		if seed == mostSeeds {
			t.Errorf("%v was not found in %d seeds", d, mostSeeds)
		}
		t.Logf("%v: seed %d", d, seed)
	}
}
