package coll

import (
	"time"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/vni"
)

// A hanging program usually has members that stand in different operations of one group. The NIC
// knows the place of each of its members, without the help of the process.

// Step is an operation of a group that one member has asked for.
type Step struct {
	Number uint32   // among the operations of the member in this group, from 1; 0 is the join
	Kind   string   // StepJoin, StepBarrier, StepBroadcast, StepReduce; empty: no operation
	Root   int      // rank of the root of a broadcast or reduction; -1: it has none
	Name   vni.Name // of the root
}

// The kinds of a Step.
const (
	StepJoin      = "join"
	StepBarrier   = "barrier"
	StepBroadcast = "broadcast"
	StepReduce    = "reduce"
)

var stepKinds = [...]string{kindBarrier: StepBarrier, kindBroadcast: StepBroadcast, kindReduce: StepReduce}

// Standing is the place of one member of this NIC in a group.
type Standing struct {
	Key     vni.Name // of the group
	State   string   // StandingJoins, StandingOpen or StandingBroken
	Size    int      // members that the group has, or that the join waits for; 0: not known
	Present int      // members that are there
	Rank    int      // of this member; -1 while it joins

	// In is the oldest operation whose end the process awaits; in a broken group, the one that
	// failed.
	In    Step
	Under int // operations whose end it awaits
	// Done is the number of the last operation up to which all have ended; in a broken group:
	// have ended well.
	Done uint32
	For  time.Duration // since it entered In, or, if it is in none, since its last operation ended

	Mismatch bool        // in a broken group: its members did different things
	Lost     vni.Name    // else the member that has gone
	LostAt   vni.Address // and its address
}

// The states of a Standing.
const (
	StandingJoins  = "joining"
	StandingOpen   = "open"
	StandingBroken = "broken"
)

// Standings returns the places of a process in its groups, the oldest membership first. It
// returns at most most of them, and counts the others.
func (t *Table) Standings(p *Process, now clock.Time, most int) (l []Standing, others int) {
	for _, m := range p.members {
		if m.kept {
			continue
		}
		if len(l) == most {
			others++
			continue
		}
		l = append(l, m.standing(now))
	}
	return l, others
}

func (m *member) standing(now clock.Time) Standing {
	s := Standing{Key: m.g.key, State: StandingOpen, Size: int(m.own.size), Rank: m.rank,
		Done: m.finished(), For: now.Sub(m.since)}
	for range m.g.live() {
		s.Present++
	}
	if m.g.complete {
		s.Size = len(m.g.seats)
	}
	switch {
	case m.join != nil:
		s.State, s.Rank, s.Done, s.Under = StandingJoins, -1, 0, 1
		s.In = Step{Kind: StepJoin, Root: -1}
		return s
	case m.state == memberBroken:
		s.State, s.Mismatch = StandingBroken, m.wrong
		if !m.wrong && m.dead < len(m.g.seats) {
			s.Lost, s.LostAt = m.g.seats[m.dead].name, m.g.seats[m.dead].Address
		}
	}
	if o := m.oldest(&s.Under); o != nil { // a broken group still ends earlier operations
		s.In, s.For = o.step(), now.Sub(o.since)
	} else if m.state == memberBroken && m.broke.Kind != "" {
		s.In, s.Done = m.broke, m.broke.Number-1
	}
	return s
}

// oldest returns the operation with the lowest number whose end the process awaits, and counts
// all such operations.
func (m *member) oldest(count *int) (oldest *operation) {
	for n, o := range m.ops { // the least of them, in any order
		if !o.entered || o.req == nil {
			continue
		}
		*count++
		if oldest == nil || int32(n-oldest.number) < 0 {
			oldest = o
		}
	}
	return oldest
}

func (o *operation) step() Step {
	return o.m.step(o.number, o.kind, o.root, o.operator&wantedByAll != 0)
}

// step describes an operation of m. toAll says that a reduction gives its result to every member.
func (m *member) step(number uint32, k kind, root int, toAll bool) Step {
	s := Step{Number: number, Kind: stepKinds[k], Root: -1}
	if k == kindBroadcast || k == kindReduce && !toAll {
		s.Root, s.Name = root, m.g.seats[root].name
	}
	return s
}

// noteFailed keeps the first operation that failed since the group of m broke.
func (m *member) noteFailed(s Step) {
	if m.broke.Kind == "" {
		m.broke = s
	}
}

// refuse notes an operation that m asks for after its group is broken.
func (m *member) refuse(code vni.Code, tag uint64) {
	k, root, toAll := kinds[code], int(uint32(tag)), uint32(tag) == vni.AllRanks
	if k == kindBarrier || toAll || root < len(m.g.seats) {
		m.noteFailed(m.step(m.next, k, root, toAll))
	}
}
