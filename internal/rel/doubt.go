package rel

// Doubt is what the losses of a session say of the way to a peer, beyond that it loses frames. The link driver is told
// once in a session, and may go about things in another way; to this module nothing changes.
type Doubt uint8

const (
	// DoubtBatches: more than a quarter of one of the first rounds was lost. If the driver sends frames in batches,
	// perhaps batches do not get through.
	DoubtBatches Doubt = 1 << iota
)

// doubt tells the driver, once.
func (m *Module) doubt(s *session, what Doubt) {
	if m.cfg.Doubt != nil && s.doubts&what == 0 {
		s.doubts |= what
		m.cfg.Doubt(s.addr, what)
	}
}
