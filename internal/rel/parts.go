package rel

import (
	"slices"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/mutate"
	"github.com/weftnet/weft/internal/wire"
)

// A segment keeps its number and its records for life, and its path may become too narrow for
// them meanwhile. It cannot be cut into shorter segments: the peer may have it already, and only
// the acknowledgement was lost. So it goes in parts that the peer joins, and has arrived when it
// is whole:
//
//	segment 102  ├──────────────────────────────────────┤ records
//	Part frames  ├───────────────┤├──────────────┤├─────┤
//	assembly     x x x x x x x x x . . . . . . . . x x x     a bit for each unit of 64 bytes
//
// This is for segments that were in flight when a path became narrow, and for records that are
// longer than a path carries. Everything else is cut to fit. If a part is lost, the whole
// segment is retransmitted, and its missing parts count.

// assembly is a segment of which some parts have arrived.
type assembly struct {
	session *session
	space   wire.Space
	seq     wire.Seq
	buf     []byte                                      // its records
	have    [wire.MaxParted / wire.PartUnit / 64]uint64 // a bit for each unit that has arrived
	units   int                                         // how many have not
}

// begin makes a an assembly of len(buf) bytes, of which none has arrived.
func (a *assembly) begin(s *session, buf []byte) {
	a.session, a.buf, a.units = s, buf, (len(buf)+wire.PartUnit-1)/wire.PartUnit
}

// postParts posts segment g in parts, because its frame is too long for its path. It returns
// false if the driver takes nothing.
func (m *Module) postParts(now clock.Time, s *session, g *segment, c wire.Space, out Frames) bool {
	b := s.frame(out)
	if b == nil {
		return false
	}
	if g.sends == 0 {
		s.number(g)
	}
	if len(m.parts) < m.cfg.MTU {
		m.parts = make([]byte, m.cfg.MTU)
	}
	records, rest := g.put(m.parts, 0)
	records += copy(m.parts[records:], rest)
	most := (s.path.size - wire.OuterLen - wire.PartLen - s.packets.tagLen()) / wire.PartUnit * wire.PartUnit
	for at := 0; at < records; at += most {
		if at > 0 {
			if b = s.frame(out); b == nil {
				break // the part left out is as good as lost
			}
		}
		n := min(most, records-at)
		p := wire.Part{Space: g.space, Seq: g.seq, Offset: uint32(at), Length: uint32(records)}
		p.Put(b[wire.OuterLen:], n)
		out.Commit(s.packets.seal(wire.KindPart, b, wire.OuterLen+wire.PartLen, m.parts[at:at+n]))
		m.stats.PartSends++
	}
	m.posted(now, s, g, c, records)
	return true
}

// receivePart takes one part of a segment.
func (m *Module) receivePart(now clock.Time, s *session, body []byte, length int) {
	p, payload, err := wire.ParsePart(body)
	if err != nil || int(p.Length) > m.cfg.MTU {
		m.stats.Malformed++
		return
	}
	w := &s.receive[p.Space]
	if what := w.judge(p.Seq); what != arrivedNew { // also if it has arrived whole
		m.countArrival(s, p.Space, what, 1)
		if what != arrivedHigh {
			s.scheduleAck(now, p.Space, what, w.gap(), 1, length)
		}
		return
	}
	a := m.assemblyOf(s, &p)
	if len(a.buf) != int(p.Length) {
		m.stats.Malformed++ // a segment has one length
		return
	}
	if a.take(int(p.Offset), payload); a.units > 0 && m.cfg.Defect != mutate.PartsUnfinished {
		m.stats.PartReceives++
		return
	}
	m.assemblies = slices.DeleteFunc(m.assemblies, func(other *assembly) bool { return other == a })
	if wire.CheckRecords(a.buf) != nil {
		m.stats.Malformed++
		return
	}
	s.expected = wire.NextChunk{}
	m.arrive(now, s, wire.KindPart, 0, &wire.Inner{Space: p.Space, Seq: p.Seq}, 1, length)
	m.deliver(now, s, a.buf)
}

// take copies bytes that arrived, and notes their units.
func (a *assembly) take(at int, payload []byte) {
	copy(a.buf[at:], payload)
	for u := at / wire.PartUnit; u*wire.PartUnit < at+len(payload); u++ {
		if bit := uint64(1) << (u % 64); a.have[u/64]&bit == 0 {
			a.have[u/64] |= bit
			a.units--
		}
	}
}

// assemblyOf returns the assembly of a segment, and begins one if there is none. If there is no
// room, the oldest is dropped: its parts will be retransmitted.
func (m *Module) assemblyOf(s *session, p *wire.Part) *assembly {
	own, first := 0, -1
	for i, a := range m.assemblies {
		if a.session != s {
			continue
		}
		if a.space == p.Space && a.seq == p.Seq {
			return a
		}
		if own++; first < 0 {
			first = i
		}
	}
	switch {
	case own == limits.PartedSegments:
		m.assemblies = slices.Delete(m.assemblies, first, first+1)
	case len(m.assemblies) == limits.PartedSegmentsInAll:
		m.assemblies = slices.Delete(m.assemblies, 0, 1)
	}
	a := &assembly{space: p.Space, seq: p.Seq}
	a.begin(s, make([]byte, p.Length))
	m.assemblies = append(m.assemblies, a)
	return a
}

// forgetParts forgets all parts of a session's segments.
func (m *Module) forgetParts(s *session) {
	m.assemblies = slices.DeleteFunc(m.assemblies, func(a *assembly) bool { return a.session == s })
}
