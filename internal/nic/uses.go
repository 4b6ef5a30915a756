package nic

import "unsafe"

// uses reports whether an operation of the process that the engine has started may still touch
// mem.
func (p *process) uses(mem []byte) bool {
	for s := range p.underWay {
		if overlaps(s.frag.Parts, mem) {
			return true
		}
	}
	for r := range p.receives {
		if r.state != recvIdle && (overlaps(r.parts, mem) || r.ring != nil &&
			overlaps([][]byte{r.ring.w.Memory()}, mem)) {
			return true
		}
	}
	return false
}

// overlaps reports whether some part shares a byte with mem.
func overlaps(parts [][]byte, mem []byte) bool {
	start := uintptr(unsafe.Pointer(unsafe.SliceData(mem)))
	for _, b := range parts {
		at := uintptr(unsafe.Pointer(unsafe.SliceData(b)))
		if len(b) > 0 && at < start+uintptr(len(mem)) && start < at+uintptr(len(b)) {
			return true
		}
	}
	return false
}
