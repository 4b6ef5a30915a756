package sim

// inject puts a frame on the wire as if a host had sent it now. Tests replay old frames and forge
// new ones.
func (f *Fabric) inject(from, to int, frame []byte) {
	net := f.net
	b := net.newFrame()
	b.from, b.to, b.n = from, to, copy(b.buf[:net.link.MTU], frame)
	net.path(from, to).underway += b.n
	net.noteFrame(b)
	net.carry(b, f.s.now)
}
