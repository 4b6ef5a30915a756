package nic

import "github.com/weftnet/weft/internal/vni"

// libraries holds the ports of Weft's own libraries on which a process has ever posted a receive
// or a probe of any kind, or looked on the link for a message that it would have posted one for. A
// message to another of these ports would wait until the process ends: its library is not in use
// there. So if the sender wants to know the outcome, the message is refused, as TCP refuses a
// connection to a closed port.
//
// A port is never forgotten, so a library without a posted receive for a moment refuses nothing.
// All other ports belong to their users, which may send before the receiver has begun to receive.
type libraries [(1<<16 - vni.LibraryPorts) / 64]uint64

// note records a receive or a probe for tag.
func (l *libraries) note(tag uint64) {
	if port := tag >> vni.PortShift; port >= vni.LibraryPorts {
		l[(port-vni.LibraryPorts)/64] |= 1 << (port % 64)
	}
}

// lack reports whether a message is for a library that has never posted a receive or a probe.
func (l *libraries) lack(tag uint64) bool {
	port := tag >> vni.PortShift
	return port >= vni.LibraryPorts && l[(port-vni.LibraryPorts)/64]&(1<<(port%64)) == 0
}
