package rel

// Quiet reports whether every segment and record handed over has been acknowledged, or given up
// with its peer.
func (m *Module) Quiet() bool {
	for _, e := range m.endpoints {
		if s := e.live; s != nil {
			for i := range e.channels {
				if e.channels[i].queue.n > 0 || s.send[i].used() > 0 {
					return false
				}
			}
		}
	}
	return true
}
