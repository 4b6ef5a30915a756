package nic

import "github.com/weftnet/weft/internal/vni"

// libraries is on which ports of libraries that come with Weft a process has ever posted a receive or a probe, of whatever kind, or
// looked on the link for a message that it would have posted one for. A message to another of them would wait until the process ends: the library
// that it is for is not in use there. So one whose sender wants to know what becomes of it is refused, as TCP refuses a connection to a port that
// is closed.
//
// It never forgets a port, so a library that has no receive posted for a moment refuses nothing. The other ports are their users', which may send before
// the receiver has begun to receive.
type libraries [(1<<16 - vni.LibraryPorts) / 64]uint64

// note notes that there was a receive or a probe.
func (l *libraries) note(tag uint64) {
	if port := tag >> vni.PortShift; port >= vni.LibraryPorts {
		l[(port-vni.LibraryPorts)/64] |= 1 << (port % 64)
	}
}

// lack reports whether a message is for a library that has never posted one.
func (l *libraries) lack(tag uint64) bool {
	port := tag >> vni.PortShift
	return port >= vni.LibraryPorts && l[(port-vni.LibraryPorts)/64]&(1<<(port%64)) == 0
}
