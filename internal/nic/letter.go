package nic

import (
	"fmt"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/program"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/internal/wire"
)

// A process sends a datagram to another as it sends a message, but in one step, and the datagram
// may be lost. It has no number, takes no credit, and waits for nothing. Receives of datagrams are
// posted, too, and matched by tag alone. A datagram that finds no receive is dropped.
//
//	SendDatagram ──► Endpoint.SendDatagram; the send fails if the pair is closed or too many wait
//	        ═══► Letter ──► its process? ──► filter ──► receive with the tag? ─► copied, completed
//	                            └─ no           └─ dropped └─ no: counted, forgotten
//
// So unexpected datagrams need no memory, and expected ones arrive where the process wants them.
// Pages of network memory travel in this way (HSN-1, HSN-24).

// startDatagram executes a SendDatagram command.
func (e *Engine) startDatagram(s *send, c *vni.SendContext) {
	if c.Len > wire.MaxLetter || c.Flags&(vni.WantAccept|vni.IsCall|vni.IsReply) != 0 {
		e.rejectSend(s, fmt.Errorf(
			"a datagram of %d bytes with flags %#x; at most %d bytes, of which nothing is heard again", c.Len, c.Flags,
			wire.MaxLetter))
		return
	}
	to, ok := e.letterAddress(&s.name, vni.Address{NIC: c.NIC, Slot: c.Slot, Gen: c.Gen})
	if !ok {
		e.completeSend(s, vni.StatusNameUnknown)
		return
	}
	about := program.Departure{Tag: s.env.Tag, Kind: program.DepartsDatagram, NIC: to.NIC,
		Number: program.ProcessNumber(to.Slot, to.Gen)}
	s.departs = departure{to: about, slot: to.Slot, gen: to.Gen}
	e.depart(s)
}

// letterAddress returns the destination of a datagram: to, or the process with a name if to has no
// NIC. ok is false if no process has the name.
func (e *Engine) letterAddress(name *vni.Name, to vni.Address) (at vni.Address, ok bool) {
	if to.NIC != 0 {
		return to, true
	}
	if n := e.names.Find(name); n != nil && n.Live() {
		return n.Address, true
	}
	return to, false
}

// sendLetter sends the datagram of s. Its bytes are not needed afterwards.
func (e *Engine) sendLetter(s *send, to vni.Address) vni.Status {
	l := letterTo(s.p, to, s.env.Tag)
	if to.NIC == e.cfg.ID {
		e.takeLetter(e.cfg.ID, &l, s.frag.Parts, s.frag.Length)
		e.counts[vni.NICDatagramsSent]++
		return vni.StatusOK
	}
	return e.leaveLetter(&l, to.NIC, int(s.frag.Length), s.frag.Parts)
}

// letterTo returns the header of a datagram of p.
func letterTo(p *process, to vni.Address, tag uint64) wire.Letter {
	return wire.Letter{Tag: tag, DstGen: to.Gen, SrcGen: p.gen, DstSlot: to.Slot, SrcSlot: p.slot}
}

// letterOut is an outgoing datagram: its header and its payload slices.
type letterOut struct {
	head  [wire.LetterLen]byte
	parts [1 + limits.Descriptors][]byte
}

// leaveLetter sends a datagram of n bytes to a process of another NIC. Its status says why it
// could not.
func (e *Engine) leaveLetter(l *wire.Letter, nic uint64, n int, parts [][]byte) vni.Status {
	pr := e.peerOf(nic)
	if pr == nil || !pr.ep.Up() {
		return vni.StatusUnreachable
	}
	o := &e.transit.letter
	l.Put(o.head[:])
	o.parts[0] = o.head[:]
	all := o.parts[:1+copy(o.parts[1:], parts)]
	sent := pr.ep.SendDatagram(wire.ServiceProcess, wire.LetterLen+n, all, e.out)
	clear(all)
	if !sent {
		return vni.StatusNoMemory
	}
	e.counts[vni.NICDatagramsSent]++
	return vni.StatusOK
}

// Datagram sends a datagram to a process of another NIC, which leaves with the next Poll, and
// reports whether it did. full says that a Poll may make room. A datagram keeps no order, so
// commands may wait before it.
func (s *Straight) Datagram(m *vni.StraightSend, parts [][]byte) (sent, full bool) {
	e := s.e
	e.begin()
	if s.p.guardOut != nil {
		return false, false
	}
	to, ok := e.letterAddress(&m.To, vni.Address{NIC: m.NIC, Slot: m.Slot, Gen: m.Gen})
	if !ok || s.closing || e.closed || !s.p.served() || to.NIC == e.cfg.ID || m.Len > wire.MaxLetter ||
		len(parts) > limits.Descriptors {
		return false, false
	}
	if pr := e.peerOf(to.NIC); pr != nil && pr.ep.Crowded() {
		// It is not counted: it may leave after a poll, or is refused as a command.
		return false, true
	}
	l := letterTo(s.p, to, m.Tag)
	return e.leaveLetter(&l, to.NIC, m.Len, parts) == vni.StatusOK, false
}

// letter handles a datagram of a peer for a process.
func (e *Engine) letter(_ clock.Time, nic uint64, payload []byte) {
	l, payload, err := wire.ParseLetter(payload)
	if err != nil {
		e.counts[vni.DropFormat]++
		return
	}
	one := [1][]byte{payload}
	e.takeLetter(nic, &l, one[:], uint64(len(payload)))
}

// takeLetter gives n bytes, in parts, to the receive that waits for them.
func (e *Engine) takeLetter(nic uint64, l *wire.Letter, parts [][]byte, n uint64) {
	from := vni.Address{NIC: nic, Slot: l.SrcSlot, Gen: l.SrcGen}
	p := e.process(l.DstSlot)
	if p == nil || p.gen != l.DstGen || !p.served() {
		e.counts[vni.NICDatagramsUnwanted]++
		return
	}
	var name vni.Name
	if who := e.names.At(from); who != nil && !who.Stale() {
		name = who.Name
	}
	if p.guard != nil {
		m := Arrival{From: name, Addr: from, Tag: l.Tag, Length: n}
		switch {
		case nic != e.cfg.ID:
			m.Payload = parts[0]
		case p.guard.bytes: // a copy, which its sender cannot change afterwards
			m.Payload = e.transit.take(int(n))
			copyOut(m.Payload, parts)
			defer e.transit.give(m.Payload)
			parts = [][]byte{m.Payload}
		}
		if e.drops(p.guard, m) {
			return
		}
	}
	r := p.findDatagram(l.Tag)
	if r == nil {
		e.counts[vni.NICDatagramsUnwanted]++
		return
	}
	c := vni.Completion{Len: min(n, r.size), Full: n, Tag: l.Tag, From: name, NIC: nic, Slot: l.SrcSlot, Gen: l.SrcGen}
	if n > r.size {
		c.Status = vni.StatusTruncated
	}
	copyRange(r.parts, parts, 0, 0, c.Len)
	e.counts[vni.NICDatagramsReceived]++
	e.finishReceive(r, &c)
}

// postDatagram posts a receive of a datagram, which takes one of any sender.
func (e *Engine) postDatagram(r *receive) {
	if r.reply || r.refill != nil || r.exact || !r.sender.IsZero() {
		e.finishReceive(r, &vni.Completion{Status: vni.StatusBadArgument})
		e.badArgument(r.p, fmt.Errorf("%w: a receive of a datagram names a sender, is of a reply, or is refilled",
			vni.ErrArgument))
		return
	}
	r.begin(e.now)
	r.state = recvPosted
	r.p.bare.pushBack(&r.node)
}

// findDatagram returns the receive for a datagram: the first that was posted with its tag.
func (p *process) findDatagram(tag uint64) *receive {
	for n := p.bare.head; n != nil; n = n.next {
		if n.v.tags.Take(tag) {
			return n.v
		}
	}
	return nil
}
