package ctl

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/weftnet/weft/internal/limits"
)

// A keeper starts ranks as "begin" says. A second "begin", or another packet before it, comes
// from a broken daemon.
func TestAKeeperTakesItsPacketsInOneOrder(t *testing.T) {
	await, report := &ToKeeper{Await: &KeeperAwait{}}, &ToKeeper{Report: true}
	begin := &ToKeeper{Begin: &KeeperBegin{Reserve: wholeReserve()}}
	bad := wholeReserve()
	bad.Ranks = 0
	for _, c := range []struct {
		what    string
		packets []*ToKeeper
		taken   int
	}{
		{"a reservation and a question", []*ToKeeper{begin, report, report}, 3},
		{"an early start", []*ToKeeper{await, begin, report}, 3},
		{"a question first", []*ToKeeper{report}, 0},
		{"a question behind an early start", []*ToKeeper{await, report}, 1},
		{"two early starts", []*ToKeeper{await, await}, 1},
		{"two reservations", []*ToKeeper{begin, begin}, 1},
		{"an early start behind its reservation", []*ToKeeper{begin, await}, 1},
		{"an early start with its reservation", []*ToKeeper{{Await: &KeeperAwait{}, Begin: begin.Begin}}, 0},
		{"no reservation", []*ToKeeper{{Begin: &KeeperBegin{}}}, 0},
		{"a bad reservation", []*ToKeeper{{Begin: &KeeperBegin{Reserve: bad}}}, 0},
	} {
		past, soon, taken := false, false, 0
		var err error
		for _, m := range c.packets {
			if err = m.check(past, soon); err != nil {
				break
			}
			past, soon, taken = past || m.Begin != nil, true, taken+1
		}
		if taken != c.taken || (err != nil) != (taken < len(c.packets)) || err != nil && !errors.Is(err, ErrBadRequest) {
			t.Errorf("%s: %d packets are taken, then %v; expected %d", c.what, taken, err, c.taken)
		}
	}
}

// A keeper runs as a user, and its messages stay in the daemon's memory.
func TestEachBoundOfAKeepersPacketIsKept(t *testing.T) {
	third := strings.Repeat("x", limits.JobRefusalBytes/3)
	refusal := Refusal{What: third, Text: third, Cure: strings.Repeat("x", limits.JobRefusalBytes-2*len(third))}
	rank := RankInfo{State: strings.Repeat("s", 16), Cause: strings.Repeat("c", limits.RankStateBytes-16)}
	whole := func() *FromKeeper {
		return &FromKeeper{
			Refusals: slices.Repeat([]Refusal{refusal}, limits.JobRefusals),
			Started:  make([]int, limits.RanksPerHost), Ranks: slices.Repeat([]RankInfo{rank}, limits.RanksPerHost),
		}
	}
	if err := whole().check(); err != nil {
		t.Fatal(err)
	}
	for what, change := range map[string]func(*FromKeeper){
		"refusals":         func(m *FromKeeper) { m.Refusals = append(m.Refusals, Refusal{}) },
		"started":          func(m *FromKeeper) { m.Started = append(m.Started, 1) },
		"ranks":            func(m *FromKeeper) { m.Ranks = append(m.Ranks, RankInfo{}) },
		"a long what":      func(m *FromKeeper) { m.Refusals[15].What += "x" },
		"a long text":      func(m *FromKeeper) { m.Refusals[0].Text += "x" },
		"a long cure":      func(m *FromKeeper) { m.Refusals[1].Cure += "x" },
		"a long state":     func(m *FromKeeper) { m.Ranks[0].State += "x" },
		"a long cause":     func(m *FromKeeper) { m.Ranks[limits.RanksPerHost-1].Cause += "x" },
		"the NIC's answer": func(m *FromKeeper) { m.Ranks[2].Standing = &Standing{} },
	} {
		m := whole()
		change(m)
		if err := m.check(); !errors.Is(err, ErrBadRequest) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestAReportEndsWithTheFirstPacketThatCannotBeSent(t *testing.T) {
	sent, lost := 0, errors.New("lost")
	err := EachReport(make([]RankInfo, limits.RanksPerHost), func(*FromKeeper) error { sent++; return lost })
	if !errors.Is(err, lost) || sent != 1 {
		t.Errorf("%d packets were sent, then %v", sent, err)
	}
	if err := EachReport(nil, func(m *FromKeeper) error { sent++; return m.check() }); err != nil || sent != 2 {
		t.Errorf("a report of no rank: %v, %d packets", err, sent-1)
	}
}
