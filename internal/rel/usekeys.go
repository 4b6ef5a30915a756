package rel

import (
	"bytes"
	"slices"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/trust"
)

// UseKeys replaces the fabric keys and the certificate of this NIC. On a plain link it does
// nothing.
//
//	open sessions            stay: their frames have keys of their own
//	our handshakes           restart with the first of the new keys
//	handshakes of peers      continue if their fabric key is still in use, and otherwise end
//	a Finish that is owed    leaves under its fabric key; if that is gone, the session ends with
//	                         ErrIdentity, since no frame could complete its handshake
func (m *Module) UseKeys(now clock.Time, fabric []trust.FabricKey, certificate []byte) {
	y := m.security
	if y == nil {
		return
	}
	m.settle()
	before := y.Fabric
	y.Fabric, y.Certificate = slices.Clone(fabric), bytes.Clone(certificate)
	y.gate.Replace(y.Fabric)
	y.cookies, m.refusals = y.cookies[:0], m.refusals[:0] // signed by the index of a key
	for _, s := range slices.Clone(m.pending) {
		if k := s.shake; k != nil {
			if k.fabric = slices.Index(y.Fabric, before[k.fabric]); k.fabric < 0 {
				m.drop(s)
			}
		}
	}
	for _, e := range slices.Clone(m.endpoints) {
		if e.next != nil && e.next.own {
			m.drop(e.next)
		}
		if e.attempt.kind = 0; !e.keyKnown {
			e.attempt.kind = 1
		}
		switch s := e.live; {
		case s == nil || s.finish == nil:
		case s.confirmed:
			s.finish = nil // the peer has it
		default:
			if s.fabric = slices.Index(y.Fabric, before[s.fabric]); s.fabric < 0 {
				m.Expel(now, e)
			}
		}
	}
}
