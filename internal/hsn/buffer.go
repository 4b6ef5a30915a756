package hsn

import "fmt"

// RestBytes is what a packet may have behind a page: headers.
const RestBytes = MaxHeader + HeaderLen

// Buffer is what one packet is received into: a page, and a place for what is longer. It belongs to the pool, the interface, the
// driver, or a module, one at a time.
type Buffer struct {
	Page []byte // PageBytes of them
	Rest []byte // RestBytes
	Tag  int    // its owner's own mark: the pool and the driver leave it alone
	free bool
}

// Pool is the memory for buffers: the system's pool of pages (HSN-25). Modules give pages back to it, or new ones.
type Pool struct {
	pageBytes int
	free      []*Buffer
}

// NewPool makes a pool of the pages of mem, each with a part of rest. What is left over of both is not used.
func NewPool(pageBytes int, mem, rest []byte) *Pool {
	p := &Pool{pageBytes: pageBytes}
	for len(mem) >= pageBytes && len(rest) >= RestBytes {
		p.Free(&Buffer{Page: mem[:pageBytes:pageBytes], Rest: rest[:RestBytes:RestBytes]})
		mem, rest = mem[pageBytes:], rest[RestBytes:]
	}
	return p
}

// Len is how many buffers are free.
func (p *Pool) Len() int { return len(p.free) }

// Take takes a buffer out of the pool; nil if it is empty.
func (p *Pool) Take() *Buffer {
	if len(p.free) == 0 {
		return nil
	}
	b := p.free[len(p.free)-1]
	p.free = p.free[:len(p.free)-1]
	b.free = false
	return b
}

// Free gives a buffer back (HSN-26, HSN-27). One that is there already, or of another size, is a mistake of its owner.
func (p *Pool) Free(b *Buffer) {
	if b.free || len(b.Page) != p.pageBytes || len(b.Rest) != RestBytes {
		panic(fmt.Sprintf("hsn: a buffer of %d and %d bytes is given back, free: %v; the pool's have %d and %d", len(b.Page), len(b.Rest), b.free, p.pageBytes, RestBytes))
	}
	b.free = true
	p.free = append(p.free, b)
}

// Free gives the buffers of a message back to the driver's pool.
func (d *Driver) Free(m *Message) {
	for i, b := range m.Buffers {
		if b != nil {
			d.pool.Free(b)
			m.Buffers[i] = nil
		}
	}
}

// refill gives the interface buffers, up to as many as the receive queue has (HSN-24).
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

// at copies n bytes of what was received into b, from offset on.
func (b *Buffer) at(to []byte, offset int) {
	if offset < len(b.Page) {
		n := copy(to, b.Page[offset:])
		to, offset = to[n:], len(b.Page)
	}
	copy(to, b.Rest[offset-len(b.Page):])
}

// bytes is a piece of what was received into b, which is copied only if part of it is in the page and part is not.
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
