package rel

import (
	"slices"

	"github.com/weftnet/weft/internal/limits"
)

// The table of peers has cfg.MaxPeers places. A stranger has sent a Hello and nothing else, and
// so proves nothing: a flood of Hellos under new ids would fill the table. So strangers may fill
// only a part of it, and the oldest stranger gives way:
//
//	the place is for               if the table is full, this one gives way
//	a peer that the owner opens    the oldest stranger; then the owner decides (Open: ErrPeers)
//	a stranger                     the oldest stranger, if strangers have their part;
//	                               else a peer that the owner can spare

// RoomMaker is a Handler that can spare a peer: one that its configuration does not name and
// that is not up.
type RoomMaker interface {
	MakeRoom() bool // forgets such a peer; false: there is none
}

// full reports whether each place is taken.
func (m *Module) full() bool { return len(m.endpoints)+len(m.strangers) >= m.cfg.MaxPeers }

// roomForStranger reports whether there is a place for one more stranger, and makes one if it can.
func (m *Module) roomForStranger() bool {
	if most := max(1, m.cfg.MaxPeers/limits.StrangerShare); len(m.strangers) >= most && !m.dropStranger() {
		return false
	}
	if !m.full() {
		return true
	}
	if h, ok := m.handler.(RoomMaker); ok && h.MakeRoom() && !m.full() {
		return true
	}
	return m.dropStranger()
}

// dropStranger forgets the stranger that has waited longest. It reports whether there was one.
func (m *Module) dropStranger() bool {
	i := slices.IndexFunc(m.pending, func(s *session) bool { return m.strangers[s.endpoint.nic] == s.endpoint })
	if i < 0 {
		return false
	}
	e := m.pending[i].endpoint
	for ; i >= 0; i = slices.IndexFunc(m.pending, e.has) {
		m.drop(m.pending[i])
	}
	return true
}
