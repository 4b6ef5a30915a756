package nic

import "unsafe"

// Uses reports whether an operation under way of the process at slot may still touch mem. Whoever made the memory of a
// region asks before unmapping it: RemoveRegion keeps others out, but not what the process itself has begun.
func (e *Engine) Uses(slot uint16, mem []byte) bool {
	p := e.process(slot)
	if p == nil {
		return false
	}
	for i := range p.sends {
		if s := &p.sends[i]; s.state != sendIdle && overlaps(s.frag.Parts, mem) {
			return true
		}
	}
	for i := range p.recvs {
		if r := &p.recvs[i]; r.state != recvIdle && overlaps(r.parts, mem) {
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
