package nic

import (
	"fmt"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/mutate"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/internal/wire"
)

// A run is sent by one command: many short messages to one process with one tag, laid out in its
// memory as they are in a Run record (USNIC-28). Each turn writes as many as fit a segment and the
// credit. Like any send, a run waits for a name, for the pair to open, for the window, and behind
// older messages. While it waits, it is the first of its line, so no other message of its process
// overtakes it.
//
//	command ─► lengths checked, and kept ─► turn: a segment ─► turn: a segment, or a long
//	           │                                 │             message's copy ─► … ─► all left
//	           │                                 └ no credit after a short wait (runcredit.go): it
//	           └─ a process of this NIC: into its     ends with those that have left, and its
//	              ring, as many as fit                process sends the next by itself, which
//	                                                  waits as it must
type sendRun struct {
	lengths wire.Lengths // as loaded when the command was checked
	data    []byte       // the messages, which the process can still write
	sent    int
	at      int        // in data: of the next message
	until   clock.Time // when it stops waiting for credit
}

// startRun executes a SendRun command.
func (e *Engine) startRun(s *send, c *vni.SendContext, count uint32) {
	if err := e.loadRun(s, c, count); err != nil {
		e.rejectSend(s, err)
		return
	}
	if c.NIC != 0 {
		e.toAddress(s, vni.Address{NIC: c.NIC, Slot: c.Slot, Gen: c.Gen})
		return
	}
	e.resolve(s)
}

// loadRun loads the lengths of a run's messages, each once, and checks them: lengths and messages
// together fill the run's memory, which is in one piece.
func (e *Engine) loadRun(s *send, c *vni.SendContext, count uint32) error {
	if count < 1 || count > limits.RunMessages || c.Flags&^vni.WantNotify != 0 || uint64(2*count) > c.Len {
		return fmt.Errorf("a run of %d messages in %d bytes, flags %#x", count, c.Len, c.Flags)
	}
	if len(s.frag.Parts) != 1 {
		return fmt.Errorf("a run in %d pieces", len(s.frag.Parts))
	}
	r := s.p.runs.Take()
	mem := s.frag.Parts[0]
	r.lengths = append(r.lengths[:0], mem[:2*count]...)
	r.data, r.sent, r.at = mem[2*count:], 0, 0
	s.run = r
	sum := 0
	for i := range r.lengths.Count() {
		n := r.lengths.At(i)
		if sum += n; n > limits.CopiedMessage {
			return fmt.Errorf("message %d of a run has %d bytes; at most %d", i, n, limits.CopiedMessage)
		}
	}
	if sum != len(r.data) && e.cfg.Defect != mutate.RunBelieved {
		return fmt.Errorf("messages of a run have %d bytes, and there are %d", sum, len(r.data))
	}
	return nil
}

// freeRun releases the run of a send.
func (s *send) freeRun() {
	if r := s.run; r != nil {
		r.data = nil
		s.p.runs.Give(r)
		s.run = nil
	}
}

// runTurn sends the next messages of a run that fit a segment.
func (e *Engine) runTurn(s *send) {
	d, r := s.dest, s.run
	if d.peer == nil {
		e.localRun(s)
		return
	}
	if d.remote.waiting.n > 0 || d.remote.admitted != nil {
		e.completeSend(s, vni.StatusOK)
		return
	}
	first := r.lengths.At(r.sent)
	if d.remote.credit() < stagedCosts(1, first) {
		if !e.awaitRoom(s, first) {
			e.completeSend(s, vni.StatusOK)
		}
		return
	}
	space := wire.SpaceFor(first)
	if recordBytes(1, first) > d.peer.ep.MaxRecord(space) {
		e.keepTurn(s, first)
	} else {
		e.segmentTurn(s, space, first)
	}
}

// leftTurn notes that n more messages of a run have left, and ends the run after the last.
func (e *Engine) leftTurn(s *send, n, bytes int) {
	r := s.run
	s.dest.inVain = false
	r.sent += n
	if r.at += bytes; r.sent == r.lengths.Count() {
		e.completeSend(s, vni.StatusOK)
	}
}

// keepTurn sends the next message of a run in several frames, from a copy. If no copy can be kept,
// the run ends, and its process sends the message by itself.
func (e *Engine) keepTurn(s *send, bytes int) {
	r := s.run
	k := e.keep(s.p, s.dest, bytes, s.env.Tag, WayRunKept)
	if k == nil {
		e.completeSend(s, vni.StatusOK)
		return
	}
	copy(k.mem[0], r.data[r.at:])
	k.peer.ep.PostWhole(e.now, &k.frag, &s.p.rooms, true, e.out)
	e.leftTurn(s, 1, bytes)
}

// segmentTurn sends as many messages of a run as fit a segment: the open one, or a new one.
func (e *Engine) segmentTurn(s *send, space wire.Space, first int) {
	d, r, ep := s.dest, s.run, s.dest.peer.ep
	n, bytes := r.next(space, ep.Room(space, wire.FragLen+first), d.remote.credit())
	if n == 0 {
		n, bytes = 1, first
	}
	b := ep.Reserve(e.now, space, recordBytes(n, bytes))
	if b == nil {
		e.block(s)
		return
	}
	env := d.envelope(s.p, d.leave(n, stagedCosts(n, bytes)), s.env.Tag)
	if data := r.data[r.at : r.at+bytes]; n == 1 {
		wire.PutFrag(b, &env, bytes)
		copy(b[wire.FragLen:], data)
	} else {
		wire.PutPackedRun(b, &env, r.lengths[2*r.sent:2*(r.sent+n)], data)
	}
	e.countSent(s.p, uint64(n), uint64(bytes))
	e.countSegment(uint64(bytes))
	e.ways[WayRunSegment] += uint64(n)
	e.leftTurn(s, n, bytes)
}

// localRun puts as many messages of a run as fit into the ring of a process of this NIC.
func (e *Engine) localRun(s *send) {
	d, r := s.dest, s.run
	q := e.process(d.key.Slot)
	if q == nil || q.gen != d.key.Gen || !q.served() {
		e.completeSend(s, vni.StatusProcessGone)
		return
	}
	src := e.source(q, sourceKey{nil, s.p.slot, s.p.gen})
	env := d.envelope(s.p, d.number, s.env.Tag)
	if rc := e.ringFor(src, &env, r.lengths); rc != nil {
		n, bytes := rc.fitting(src, r.lengths, len(r.data))
		if n > 0 {
			d.leave(n, 0)
			e.packAll(rc, src, &env, r.lengths[:2*n], r.data[:bytes])
			e.countSent(s.p, uint64(n), uint64(bytes))
			e.counts[vni.NICMessagesLocal] += uint64(n)
			r.sent = n
		}
	}
	e.completeSend(s, vni.StatusOK)
}

// next returns how many of the remaining messages fit one record of at most room bytes and this
// much credit, and their bytes.
func (r *sendRun) next(space wire.Space, room int, credit uint64) (n, bytes int) {
	for i := r.sent; i < r.lengths.Count(); i++ {
		k := r.lengths.At(i)
		if recordBytes(n+1, bytes+k) > room || stagedCosts(n+1, bytes+k) > credit || wire.SpaceFor(k) != space {
			break
		}
		n, bytes = n+1, bytes+k
	}
	return n, bytes
}
