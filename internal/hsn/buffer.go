package hsn

import "fmt"

// RestBytes is the room of a buffer behind the page, in bytes: it holds headers.
const RestBytes = MaxHeader + HeaderLen

// Buffer receives one packet: a page, and room for the bytes after it. It belongs to the pool,
// the interface, the driver, or a module, one at a time.
type Buffer struct {
	Page []byte // PageBytes long
	Rest []byte // RestBytes long
	Tag  int    // a mark of its owner; pool and driver do not use it
	free bool
}

// Pool is the memory for buffers: the system's pool of pages (HSN-25). Modules return pages to
// it, or add new ones.
type Pool struct {
	pageBytes int
	free      []*Buffer
}

// NewPool returns a pool of the pages of mem, each with a part of rest. It does not use the
// remainder of either.
func NewPool(pageBytes int, mem, rest []byte) *Pool {
	p := &Pool{pageBytes: pageBytes}
	for len(mem) >= pageBytes && len(rest) >= RestBytes {
		p.Free(&Buffer{Page: mem[:pageBytes:pageBytes], Rest: rest[:RestBytes:RestBytes]})
		mem, rest = mem[pageBytes:], rest[RestBytes:]
	}
	return p
}

// Len returns the number of free buffers.
func (p *Pool) Len() int { return len(p.free) }

// Take takes a buffer out of the pool. It returns nil if the pool is empty.
func (p *Pool) Take() *Buffer {
	if len(p.free) == 0 {
		return nil
	}
	b := p.free[len(p.free)-1]
	p.free = p.free[:len(p.free)-1]
	b.free = false
	return b
}

// Free returns a buffer to the pool (HSN-26, HSN-27). It panics if the buffer is already there,
// or is of another size.
func (p *Pool) Free(b *Buffer) {
	if b.free || len(b.Page) != p.pageBytes || len(b.Rest) != RestBytes {
		panic(fmt.Sprintf("hsn: a buffer of %d and %d bytes is given back, free: %v; the pool's have %d and %d",
			len(b.Page), len(b.Rest), b.free, p.pageBytes, RestBytes))
	}
	b.free = true
	p.free = append(p.free, b)
}

// Free returns the buffers of a message to the driver's pool.
func (d *Driver) Free(m *Message) {
	for i, b := range m.Buffers {
		if b != nil {
			d.pool.Free(b)
			m.Buffers[i] = nil
		}
	}
}

// refill gives buffers to the interface, up to the number in the receive queue (HSN-24).
func (d *Driver) refill() {
	for d.given < d.cfg.Buffers {
		b := d.pool.Take()
		if b == nil {
			d.count.Starved++
			return
		}
		if !d.nic.Receive(b) {
			d.pool.Free(b)
			return
		}
		d.given++
	}
}

// at copies received bytes of b to to, from offset on.
func (b *Buffer) at(to []byte, offset int) {
	if offset < len(b.Page) {
		n := copy(to, b.Page[offset:])
		to, offset = to[n:], len(b.Page)
	}
	copy(to, b.Rest[offset-len(b.Page):])
}

// bytes returns n received bytes of b. It copies them only if they are partly in the page and
// partly behind it.
func (b *Buffer) bytes(offset, n int) []byte {
	switch {
	case offset+n <= len(b.Page):
		return b.Page[offset : offset+n : offset+n]
	case offset >= len(b.Page):
		return b.Rest[offset-len(b.Page):][:n:n]
	}
	both := make([]byte, n)
	b.at(both, offset)
	return both
}
