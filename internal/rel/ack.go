package rel

import (
	"math"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/mutate"
	"github.com/weftnet/weft/internal/wire"
)

// acks holds the acknowledgements that a session owes its peer as a receiver.
//
// An arrival is acknowledged within AckDelay (USNIC-48), by the next segment in the other
// direction if there is one. It is acknowledged at once if it shows trouble or if the sender may
// be waiting: a duplicate (USNIC-49), a gap, the last chunk of a fragment, a good part of the
// capacity used up. "At once" means in the Progress of the same poll, so there is at most one
// ACK per peer and poll, however many frames arrived.
//
// In a gap, only the first ReorderFrames segments after its newest hole cause an ACK at once:
// the sender is sure of the hole then. Later ones, until the hole is filled, would add nothing.
// At 1 % of loss some hole is open all the time, and an ACK for each frame costs both sides more
// than the retransmitted frame.
type acks struct {
	at       clock.Time // when a delayed ACK is due; Never if none is
	now      bool       // one is due in this Progress
	reason   wire.AckReason
	frames   uint16     // that arrived since the last ACK
	bytes    int32      // of capacity that they took
	newest   uint64     // highest packet counter received, to be echoed
	newestAt clock.Time // when it arrived
}

// note remembers the newest frame. The peer measures the round trip by its echo.
func (a *acks) note(now clock.Time, counter uint64) {
	if counter > a.newest {
		a.newest, a.newestAt = counter, now
	}
}

// scheduleAck schedules the acknowledgement of one or more segments. what is the receive
// window's verdict on them. frames is the number of frames in which they arrived, and bytes the
// sum of their lengths.
func (s *session) scheduleAck(now clock.Time, space wire.Space, what arrival, hadGap bool, frames, bytes int) {
	if s.reliable {
		return
	}
	a := &s.acks
	a.frames += uint16(frames)
	a.bytes += int32(bytes + frames*limits.FrameCost)
	capacity := s.endpoint.m.cfg.ReceiveCapacity
	switch {
	case what == arrivedOld || what == arrivedDup:
		s.ackNow(wire.AckDuplicate)
	case s.receive[space].doubtful(frames):
		s.ackNow(wire.AckGap)
	case hadGap && !s.receive[space].gap(), uint64(a.bytes) >= capacity/limits.ChannelShare,
		a.frames >= limits.Window/limits.ChannelShare:
		s.ackNow(wire.AckAsked)
	case a.at == clock.Never && !a.now:
		a.at = now.Add(s.endpoint.m.cfg.AckDelay)
		if s.endpoint.m.cfg.Defect != mutate.AckUnbooked {
			s.bookDesk(now, a.at)
		}
	}
}

// AckNow makes the ACK for all arrivals due in this poll. The owner calls it when the last chunk
// of a message has arrived, because the sender waits for that ACK to give its buffer back.
func (e *Endpoint) AckNow() {
	if e.live != nil && !e.live.reliable {
		e.live.ackNow(wire.AckLast)
	}
}

// ackNow makes an ACK due. A reason that asks the sender to act takes precedence over the
// others.
func (s *session) ackNow(why wire.AckReason) {
	if s.reliable {
		return
	}
	a := &s.acks
	if !a.now || why == wire.AckGap {
		a.reason = why
	}
	a.now = true
	s.endpoint.owe(dutyAck)
}

// acknowledged notes that the peer knows of every arrival.
func (s *session) acknowledged() {
	a := &s.acks
	a.at, a.now, a.frames, a.bytes = clock.Never, false, 0, 0
}

// hasGap reports whether a cumulative acknowledgement alone would leave out an arrival.
func (s *session) hasGap() bool { return s.receive[wire.Command].gap() || s.receive[wire.Data].gap() }

// piggyback puts the current acknowledgements into the header of a segment that leaves anyway. A
// retransmitted segment gets them too: those in its earlier frame are stale. They have no
// selective bits, so an ACK about a gap stays due.
func (s *session) piggyback(h *wire.Inner) {
	if s.reliable {
		return
	}
	h.Flags = wire.AckCommand | wire.AckData
	for i := range s.receive {
		h.Ack[i] = s.ackOf(wire.Space(i))
	}
	if !s.hasGap() {
		s.told()
	}
}

// told notes that a header has told the peer of every arrival.
func (s *session) told() {
	if s.acks.now || s.acks.at != clock.Never {
		s.endpoint.m.stats.PiggybackedAcks++
	}
	s.acknowledged()
}

// sendAck sends an explicit acknowledgement (USNIC-34), with as many selective bits as fit the
// frame.
func (m *Module) sendAck(now clock.Time, s *session, out Frames) bool {
	if hit(m.cfg.Faults.FailAck) {
		s.acknowledged()
		return true
	}
	b := s.frame(out)
	if b == nil {
		return false
	}
	a := &m.ackOut
	a.Flags, a.Reason = wire.AckCommand|wire.AckData, s.acks.reason
	a.EchoCounter = s.acks.newest
	room := (s.endpoint.channels[wire.Command].mtu - wire.OuterLen - s.packets.tagLen() - ackFixed) / 8
	for i := range s.receive {
		a.Ack[i] = s.ackOf(wire.Space(i))
		most := room / 2
		if s.withholds(wire.Space(i)) {
			most = 0
		}
		if a.Words[i] = s.receive[i].selective(&a.Selective[i]); a.Words[i] > most || most == 0 {
			a.Words[i] = most
			a.EchoCounter = 0 // or the sender would consider the segments left out lost
		}
	}
	a.DelayNanos = uint32(min(max(now.Sub(s.acks.newestAt), 0), math.MaxUint32))
	a.Put(b[wire.OuterLen:])
	out.Commit(s.packets.seal(wire.KindAck, b, wire.OuterLen+a.Len(), nil))
	m.stats.AckSends++
	s.acknowledged()
	return true
}

// ackFixed is the length of an Ack without selective bits.
var ackFixed = (&wire.Ack{}).Len()
