package daemon

import (
	"testing"

	"github.com/weftnet/weft/internal/ctl"
)

// Several tools may ask for the ranks of one job at the same time. Each answer marks the attached
// ranks in its own copy.
func TestEachAskerHasAReportOfItsOwn(t *testing.T) {
	askers := []chan []ctl.RankInfo{make(chan []ctl.RankInfo, 1), make(chan []ctl.RankInfo, 1), make(chan []ctl.RankInfo, 1)}
	k := &keeper{waiting: make(map[chan<- []ctl.RankInfo]bool)}
	for range 2 { // the second report has nothing of the first
		for _, c := range askers {
			k.waiting[c] = true
		}
		k.take(&ctl.FromKeeper{Ranks: []ctl.RankInfo{{Rank: 0}}})
		k.take(&ctl.FromKeeper{Ranks: []ctl.RankInfo{{Rank: 1}}, Report: true})
		for i, c := range askers {
			select {
			case ranks := <-c:
				if len(ranks) != 2 || ranks[0].Rank != 0 || ranks[1].Rank != 1 || ranks[0].Attached {
					t.Fatalf("asker %d gets %+v; expected the ranks 0 and 1 as the keeper has reported them", i, ranks)
				}
				ranks[0].Attached = true
			default:
				t.Errorf("asker %d gets no report", i)
			}
		}
		if len(k.waiting) > 0 {
			t.Errorf("%d askers wait for a report that has come", len(k.waiting))
		}
	}
}
