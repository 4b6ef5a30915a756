package sweep

import (
	"testing"

	"github.com/weftnet/weft/internal/mutate"
)

func TestTeamsKeepTheirPromises(t *testing.T) {
	seeds := uint64(60)
	if testing.Short() {
		seeds = 15
	}
	for seed := range seeds {
		if found, done := runTeam(seed, mutate.None); len(found) > 0 || done == 0 {
			t.Fatalf("seed %d: %d operations, %q", seed, done, found)
		}
	}
}

func TestTeamsFindTheDefectsOfGroups(t *testing.T) {
	const mostSeeds = 300 // a sweep may take a thousand to find a defect
	for _, d := range []mutate.Defect{mutate.BarrierRoundSkipped, mutate.ContributionLost, mutate.LeaveNotTold,
		mutate.SeatsOvertake, mutate.LateForgotten, mutate.LossNotSpread, mutate.TorusForgotten, mutate.LastForgotten, mutate.WaiterForgotten,
		mutate.LegForgotten, mutate.AnyRound, mutate.AckAhead, mutate.OtherBlamed, mutate.JoinKept, mutate.SumIgnored} {
		seed := uint64(0)
		for ; seed < mostSeeds; seed++ {
			if found, _ := runTeam(seed, d); len(found) > 0 {
				break
			}
		}
		if seed == mostSeeds {
			t.Errorf("%v was not found in %d seeds", d, mostSeeds)
		}
	}
}
