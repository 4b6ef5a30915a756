package rel

import "github.com/weftnet/weft/internal/wire"

// LossHandler is a Handler that wants to hear, before Down, of each record that was handed over by Reserve or Control and
// has not been acknowledged: its writer was told long ago that it is on its way (decision 6).
type LossHandler interface {
	Lost(e *Endpoint, r wire.Record)
}

// tellLost tells of the records of a segment that is given up. Pieces of fragments are not told: they are Released with
// an error.
func (m *Module) tellLost(e *Endpoint, g *segment) {
	h, ok := m.handler.(LossHandler)
	if !ok || g.fragment != nil {
		return
	}
	for b := g.buf; len(b) > 0; {
		var r wire.Record
		r, b = wire.NextRecord(b)
		h.Lost(e, r)
	}
}
