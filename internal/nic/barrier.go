package nic

import (
	"github.com/weftnet/weft/internal/mutate"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/internal/wire"
)

// A barrier by dissemination. In round r a member tells the one 2^r ranks above that it is there, and waits until the one
// 2^r below has told so; then it knows of 2^(r+1) members, and after ⌈log2 n⌉ rounds of all. The NICs do the rounds by
// themselves: a process posts a command and hears when all have.
//
//	rank   round 0    round 1    round 2        n = 5
//	 0 ──► 1          2          4
//	 1 ──► 2          3          0
//	 2 ──► 3          4          1
//	 3 ──► 4          0          2
//	 4 ──► 0          1          3
//
// Rounds of a member that is ahead are noted as bits, so that what is parked of a barrier is one word. Operation 0 of
// every group is a barrier too: its signals tell a sum over the seats, so that members who do not agree on who they are
// never come through.

// advanceBarrier does the rounds whose turn it is.
func (e *Engine) advanceBarrier(c *coll) {
	m := c.m
	n := len(m.g.seats)
	for d := 1 << c.round; d < n; d = 1 << c.round {
		if c.acks == c.round { // told of this round not yet; acks counts those told
			c.acks++
			var sum uint64
			if c.number == 0 {
				sum = m.g.sum
			}
			e.signal(m, (m.rank+d)%n, c.number, signalRound, uint8(c.round), sum)
		}
		if c.rounds&(1<<c.round) == 0 && !(e.cfg.Defect == mutate.BarrierRoundSkipped && c.round > 0) {
			return
		}
		c.round++
	}
	e.finishColl(c, vni.StatusOK, 0, 0)
	e.freeColl(c)
}

// roundHeard notes that a member has entered a round.
func (e *Engine) roundHeard(m *member, s wire.Signal) {
	c := e.collFor(m, s.Operation)
	if c.kind != collUnknown && c.kind != collBarrier || s.Round >= 32 {
		e.mismatch(m)
		return
	}
	if c.number == 0 {
		if (c.rounds != 0 || c.entered) && c.sum != s.Value {
			e.mismatch(m)
			return
		}
		c.sum = s.Value
	}
	c.kind = collBarrier
	c.rounds |= 1 << s.Round
	if c.entered {
		e.advanceBarrier(c)
	}
}
