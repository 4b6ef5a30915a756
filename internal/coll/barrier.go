package coll

import (
	"github.com/weftnet/weft/internal/mutate"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/internal/wire"
)

// A barrier by dissemination. In round r a member tells the member 2^r ranks above that it is
// there, and waits for the same word from the member 2^r ranks below. Then it knows of 2^(r+1)
// members, and after ⌈log2 n⌉ rounds of all. The NICs do the rounds by themselves: a process
// posts a command and hears when all have entered.
//
//	rank   round 0    round 1    round 2        n = 5
//	 0 ──► 1          2          4
//	 1 ──► 2          3          0
//	 2 ──► 3          4          1
//	 3 ──► 4          0          2
//	 4 ──► 0          1          3
//
// Rounds of a member that is ahead are noted as bits, so the parked state of a barrier is one
// word. Operation 0 of every group is also a barrier. Its signals carry a sum over the seats, so
// members that do not agree on the seats never complete it.

// advanceBarrier does the rounds that are due.
func (t *Table) advanceBarrier(o *operation) {
	m := o.m
	n := len(m.g.seats)
	for d := 1 << o.round; d < n; d = 1 << o.round {
		if o.told == o.round { // not yet told in this round
			o.told++
			var sum uint64
			if o.number == 0 {
				sum = m.g.sum
			}
			t.signal(m, (m.rank+d)%n, o.number, signalRound, uint8(o.round), sum)
		}
		heard := o.rounds&(1<<o.round) != 0
		switch t.cfg.Defect {
		case mutate.BarrierRoundSkipped:
			heard = heard || o.round > 0
		case mutate.AnyRound:
			heard = o.rounds != 0
		}
		if !heard {
			return
		}
		o.round++
	}
	t.finish(o, vni.StatusOK, 0, 0)
	t.free(o)
}

// roundHeard notes that a member has entered a round.
func (t *Table) roundHeard(m *member, s wire.Signal) {
	o := t.operation(m, s.Operation)
	if o.kind != kindUnknown && o.kind != kindBarrier || s.Round >= 32 {
		t.mismatch(m)
		return
	}
	if o.number == 0 {
		if (o.rounds != 0 || o.entered) && o.sum != s.Value && t.cfg.Defect != mutate.SumIgnored {
			t.mismatch(m)
			return
		}
		o.sum = s.Value
	}
	o.kind = kindBarrier
	o.rounds |= 1 << s.Round
	if o.entered {
		t.advanceBarrier(o)
	}
}
