package rel

import (
	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/wire"
)

// A NIC may give up a message whose pieces are still to come. The pieces do arrive, and their
// acknowledgement must not overtake the record that refuses the message: the sender would
// consider the message delivered. So, from the queueing of that record until the peer has it, no
// arrival in the data space is acknowledged:
//
//	sender    piece ─ last piece ──────────────────────────────────► its message has failed
//	receiver    refusal (lost) ─ last piece ─ refusal ─ both acknowledged: ack ─┘
//
// Over a reliable link the answer to the sender's probe waits instead, until the refusal has
// left (confirm.go).
type withholding struct {
	n   int32    // segments with refusals that the peer may not have
	ack wire.Seq // of the data space, as of the first of them
}

// Refusal is Control for a record that gives up a message of the peer before all of it has
// arrived.
func (e *Endpoint) Refusal(now clock.Time, n int) []byte {
	b := e.Control(now, n)
	if g := e.channels[wire.Command].open; b != nil && !e.overrun && !g.refuses {
		s := e.live
		if s.withheld.n == 0 {
			s.withheld.ack = s.receive[wire.Data].ack()
		}
		g.refuses = true
		s.withheld.n++
	}
	return b
}

// refused notes that the peer has a segment, and the refusals in it.
func (s *session) refused(g *segment) {
	if !g.refuses {
		return
	}
	if s.withheld.n--; s.withheld.n > 0 {
		return
	}
	s.ackNow(wire.AckAsked)
	if s.reliable && s.endpoint.owed > 0 {
		s.endpoint.owe(dutyReply)
	}
}

// withholds reports whether arrivals in a space are not acknowledged for now.
func (s *session) withholds(i wire.Space) bool { return i == wire.Data && s.withheld.n > 0 }

// ackOf returns the last segment of a space before the first missing one, as far as the peer may
// know.
func (s *session) ackOf(i wire.Space) wire.Seq {
	if s.withholds(i) {
		return s.withheld.ack
	}
	return s.receive[i].ack()
}
