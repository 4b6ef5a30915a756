package sweep

import (
	"testing"

	"github.com/weftnet/weft/internal/mutate"
)

func TestWorkshopsKeepEveryPromise(t *testing.T) {
	handled := uint64(0)
	for seed := range uint64(seeds(10, 100, 300)) {
		found, n := runWorkshop(seed+1, mutate.None)
		for _, v := range found {
			t.Errorf("seed %d: %s", seed+1, v)
		}
		handled += n
	}
	if handled == 0 {
		t.Error("no program has handled a message")
	}
}

func TestWorkshopsFindTheDefectsOfPrograms(t *testing.T) {
	for _, d := range []mutate.Defect{mutate.ProgramTwice, mutate.ProgramRoomKept, mutate.ProgramRoomUnchecked, mutate.ProgramUnmetered,
		mutate.ProgramChainForgotten, mutate.ProgramsOutlive, mutate.ReplaceForgets, mutate.GuardOutlives, mutate.GuardForgotten, mutate.FilterFailsOpen,
		mutate.SegmentUnchecked, mutate.DataOverlap, mutate.UndoForgotten, mutate.UndoBlind, mutate.UndoStops, mutate.DatagramReplayed} {
		seed := uint64(1)
		for ; seed <= 20; seed++ {
			if found, _ := runWorkshop(seed, d); len(found) > 0 {
				break
			}
		}
		if seed > 20 {
			t.Errorf("%v is not found within 20 seeds", d)
		}
	}
}
