package daemon

import (
	"testing"

	"github.com/weftnet/weft/internal/ctl"
)

// Two tools may ask for the ranks of one job at the same time. Each marks those that are attached.
func TestEachAskerHasAReportOfItsOwn(t *testing.T) {
	a, b := make(chan []ctl.RankInfo, 1), make(chan []ctl.RankInfo, 1)
	k := &keeper{waiting: map[chan<- []ctl.RankInfo]bool{a: true, b: true}}
	k.take(&ctl.FromKeeper{Ranks: []ctl.RankInfo{{Rank: 0}}, Report: true})
	one, other := <-a, <-b
	one[0].Attached = true
	if other[0].Attached {
		t.Error("both have the same report")
	}
}
