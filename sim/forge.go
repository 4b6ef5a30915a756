package sim

// Inject puts a frame on the wire as if a host had sent it now: one of an earlier session, or a forged one. It is for Weft's own tests, as
// Hooks are.
func (f *Fabric) Inject(from, to int, frame []byte) {
	net := f.net
	b := net.newFrame()
	b.from, b.to, b.n = from, to, copy(b.buf[:net.link.MTU], frame)
	net.path(from, to).underway += b.n
	net.noteFrame(b)
	net.carry(b, f.s.now)
}
