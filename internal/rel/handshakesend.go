package rel

import (
	"net/netip"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/mutate"
	"github.com/weftnet/weft/internal/seal"
	"github.com/weftnet/weft/internal/wire"
)

// The frames of a handshake are written and signed by Module.send.

// signed is a frame outside of any session, or before its keys: MACs protect it.
type signed struct {
	packets *packets // those that count it
	kind    wire.Kind
	index   uint32 // of the session at the receiver
	to      netip.AddrPort
	from    netip.Addr
	fabric  int          // which of the fabric keys
	cookie  *seal.Cookie // of the receiver; nil if there is none
}

// send writes and commits the frame f. put writes its body and returns the length of the body.
// send returns the frame, nil if the driver takes none.
func (m *Module) send(f *signed, put func(body []byte) int, out Frames) []byte {
	m.leavesFrom(f.from)
	b := frame(out, f.to)
	if b == nil {
		return nil
	}
	o := f.packets.next(f.kind)
	o.Flags, o.Index = wire.FlagSealed, f.index
	o.Put(b)
	n := m.security.gate.Sign(b, wire.OuterLen+put(b[wire.OuterLen:]), f.fabric, f.cookie)
	out.Commit(n)
	m.stats.HelloSends++
	return b[:n]
}

// sayHandshake sends a frame with a handshake message, at least length bytes long.
func (m *Module) sayHandshake(f *signed, h wire.Handshake, length int, out Frames) []byte {
	h.MinVersion, h.MaxVersion = wire.Version, wire.Version
	return m.send(f, func(b []byte) int {
		n := max(h.Len(), length-wire.OuterLen-2*wire.MACLen)
		h.Put(b, n)
		return n
	}, out)
}

// sendSealedHello sends the Hello of an attempt.
func (m *Module) sendSealedHello(now clock.Time, s *session, out Frames) bool {
	k := s.shake
	f := &signed{packets: &m.hellos, kind: wire.KindHello, to: s.addr, from: s.local, fabric: k.fabric,
		cookie: k.cookie}
	h := wire.Handshake{Pattern: k.hs.Pattern, Message: 1, Index: s.index, Noise: k.hello}
	length := m.helloLength()
	if k.tries%2 == 1 && len(m.security.Certificate) == 0 {
		// Perhaps the path carries no more. So short a Hello asks for no certificate in the
		// answer.
		length = leastHello
	}
	b := m.sayHandshake(f, h, length, out)
	if b == nil {
		return false
	}
	k.mac1 = [wire.MACLen]byte(seal.Mac1(b))
	k.tries++
	if s.helloFrom == 0 {
		s.helloFrom = m.hellos.counter
	}
	s.helloTo, s.helloAt = m.hellos.counter, now
	return true
}

// sendSealedAnswer answers the Hello of s.
func (m *Module) sendSealedAnswer(s *session, out Frames) bool {
	k := s.shake
	if k == nil { // it has opened meanwhile
		return true
	}
	h := wire.Handshake{Pattern: k.hs.Pattern, Message: 2, Index: s.index, Noise: k.answer}
	f := &signed{packets: &s.packets, kind: wire.KindHelloAck, index: s.peer.Index, to: s.addr, from: s.local,
		fabric: k.fabric}
	return m.sayHandshake(f, h, 0, out) != nil
}

// sendFinish sends the last message of an XX handshake, until the peer has been heard in the
// session.
func (m *Module) sendFinish(s *session, out Frames) bool {
	if s.finish == nil {
		return true
	}
	if s.confirmed || s.finished && m.cfg.Defect == mutate.FinishOnce {
		s.finish = nil
		return true
	}
	h := wire.Handshake{Pattern: wire.PatternXX, Message: 3, Index: s.index, Noise: s.finish}
	f := &signed{packets: &s.packets, kind: wire.KindFinish, index: s.peer.Index, to: s.addr, from: s.local,
		fabric: s.fabric}
	if m.sayHandshake(f, h, 0, out) == nil {
		return false
	}
	s.finished = true
	return true
}
