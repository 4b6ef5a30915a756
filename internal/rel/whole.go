package rel

import (
	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/wire"
)

// A fragment of a few frames whose owner does not wait for the next Progress is posted whole:
//
//	TakesWhole ─► the owner gets its memory ready ─► PostWhole: all pieces are queued, and leave

// TakesWhole reports whether a fragment of n bytes, with records of type t and segments charged
// to a, may be queued whole now: the window is open and there are credits and rooms for all its
// pieces. It is false over a Reliable link, which has no need of it: such a link has its own
// room.
func (e *Endpoint) TakesWhole(t wire.Type, n int, a *Account) bool {
	if e.live == nil || e.live.reliable || e.overrun {
		return false
	}
	full := e.PieceLen(t)
	pieces := (n + full - 1) / full
	return e.m.sharesAll(a, pieces) && e.readyFor(wire.Data, t.HeaderLen()+min(n, full), pieces) >= pieces
}

// PostWhole queues all of f, for which e.TakesWhole was true, and sends the peer's queue, or
// leaves that to the next Progress if hold is set. It returns when Progress must be called.
func (e *Endpoint) PostWhole(now clock.Time, f *Fragment, a *Account, hold bool, out Flusher) (next clock.Time) {
	m := e.m
	m.pool.account = a
	for f.Next < f.Length {
		if e.Post(now, f, limits.Window) == 0 {
			panic("rel: PostWhole of a fragment that is not taken whole")
		}
	}
	m.pool.account = nil
	if hold {
		return clock.Never
	}
	return m.push(now, e, out)
}
