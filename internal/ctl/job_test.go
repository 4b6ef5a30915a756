package ctl

import (
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/weftnet/weft/internal/limits"
)

func TestReservationsOfRanksThatNoJobHasAreRefused(t *testing.T) {
	good := Reserve{Job: "job-0000002a", Size: 4, Ranks: 2, First: 2, Launcher: Address{NIC: 1, Slot: 1}, Program: "/bin/true", Dir: "/"}
	if err := good.check(); err != nil {
		t.Fatal(err)
	}
	for _, change := range []func(*Reserve){
		func(r *Reserve) { r.First = -1 },
		func(r *Reserve) { r.First = 3 },
		func(r *Reserve) { r.First = math.MaxInt },
		func(r *Reserve) { r.First = math.MaxInt - 1 },
		func(r *Reserve) { r.Ranks = 0 },
		func(r *Reserve) { r.Ranks = math.MaxInt },
		func(r *Reserve) { r.Size = math.MaxInt },
		func(r *Reserve) { r.Host = math.MaxInt },
	} {
		r := good
		change(&r)
		if err := r.check(); !errors.Is(err, ErrBadRequest) {
			t.Errorf("%d ranks from %d of %d on host %d: %v", r.Ranks, r.First, r.Size, r.Host, err)
		}
	}
}

func TestAReportOfAllRanksArrivesInPacketsThatFit(t *testing.T) {
	ranks := make([]RankInfo, limits.RanksPerHost)
	for i := range ranks {
		ranks[i] = RankInfo{Rank: i, PID: 4194304 - i, State: RankUninterruptible}
	}
	next, last := 0, false
	err := EachReport(ranks, func(m *FromKeeper) error {
		b, err := encode(m)
		if err != nil {
			return err
		}
		var got FromKeeper
		if err := json.Unmarshal(b, &got); err != nil {
			return err
		}
		for _, r := range got.Ranks {
			if r.Rank != next {
				t.Fatalf("rank %d; expected %d", r.Rank, next)
			}
			next++
		}
		last = got.Report
		return got.check()
	})
	if err != nil || next != len(ranks) || !last {
		t.Errorf("%d ranks arrived, the last packet said that it was: %v, %v", next, last, err)
	}
}

func TestAKeeperCannotFillTheMemoryOfItsDaemon(t *testing.T) {
	for _, r := range []RankInfo{
		{State: strings.Repeat("x", limits.RankStateBytes+1)},
		{Cause: strings.Repeat("x", limits.RankStateBytes+1)},
		{Standing: &Standing{}},
	} {
		m := FromKeeper{Ranks: []RankInfo{r}}
		if err := m.check(); !errors.Is(err, ErrBadRequest) {
			t.Errorf("a rank %+.40v: %v", r, err)
		}
	}
}
