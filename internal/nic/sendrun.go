package nic

import (
	"fmt"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/mutate"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/internal/wire"
)

// A run is sent by one command: many short messages to one process with one tag, laid out in its memory as they are in a Run record
// (USNIC-28). Each turn writes as many as a segment and the credit have room for. Like any send it waits for a name, for the pair
// to open, for the window, and behind older messages; while it waits it is the first of its line, so nothing of its process overtakes it.
//
//	command ─► lengths judged, and kept ─► turn: a segment ─► turn: a segment, or the copy of one that takes several frames ─► … ─► all have left
//	           │                                 └ no credit, though it has waited a little (runcredit.go): it ends with
//	           └─ a process of this NIC: into its     as many as have left, and its process sends the next by itself,
//	              ring, as many as have room          which waits as it has to
type sendRun struct {
	lengths wire.Lengths // as loaded when the command was judged
	data    []byte       // the messages, which the process can still write
	sent    int
	at      int        // in data: of the next message
	until   clock.Time // waits for credit until then
}

// startRun takes a SendRun command.
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

// loadRun loads the lengths of a run's messages, each once, and judges them: with its bytes they fill its memory, which is in one piece.
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

// freeRun lets go of the run of a send.
func (s *send) freeRun() {
	if r := s.run; r != nil {
		r.data = nil
		s.p.runs.Give(r)
		s.run = nil
	}
}

// runTurn lets the next messages of a run leave that have room in a segment.
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

// leftTurn notes that so many more of the messages of a run have left, and ends it behind the last.
func (e *Engine) leftTurn(s *send, n, bytes int) {
	r := s.run
	s.dest.inVain = false
	r.sent += n
	if r.at += bytes; r.sent == r.lengths.Count() {
		e.completeSend(s, vni.StatusOK)
	}
}

// keepTurn lets the next message of a run leave in several frames, of a copy. Where none can be kept its process sends the message by itself.
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

// segmentTurn lets as many of them leave as have room in a segment: in the one that is open, or one of their own.
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

// localRun puts the messages of a run into the ring of a process of this NIC, as many as have room there.
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

// next is how many of the messages that have not left go by one record of at most so many bytes on so much credit, and their bytes.
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
