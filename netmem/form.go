package netmem

import (
	"hash/crc32"

	"github.com/klauspost/compress/s2"
)

// form is a page as its servers keep it: compressed, if that spares room there, and each shard of it as it is sent.
type form struct {
	shape            // but for the shard and its sum
	keptSum uint32   // where it is cut: of the bytes that it is cut from
	shards  [][]byte // one, if all servers have the same
	sums    []uint32
	mem     *scratch // where they are; nil: in the page itself
}

// scratch is memory for a page that is compressed, or was.
type scratch struct{ b []byte }

// borrow takes some memory, as long as the longest page can get.
func (c *Client) borrow() *scratch {
	if m, ok := c.scratches.Get().(*scratch); ok {
		return m
	}
	return &scratch{make([]byte, c.parityAt()+c.code.Parity*c.code.shardBytes(c.cfg.PageBytes))}
}

// parityAt is where in such memory the shards of parity are, behind the bytes of the others.
func (c *Client) parityAt() int {
	return max(s2.MaxEncodedLen(c.cfg.PageBytes), c.code.Data*c.code.shardBytes(c.cfg.PageBytes))
}

// giveBack gives memory back, or none.
func (c *Client) giveBack(m *scratch) {
	if m != nil {
		c.scratches.Put(m)
	}
}

// form makes of a page what is sent of it. The form is given back when nothing of it is under way.
func (c *Client) form(page []byte) *form {
	f := &form{shape: shape{code: c.code, crc: crc32.Checksum(page, castagnoli), size: uint32(len(page))}}
	kept := page
	if c.cfg.Compress {
		f.mem = c.borrow()
		if b := s2.Encode(f.mem.b, page); len(b) < len(page) && classOf(len(b)) > classOf(len(page)) {
			kept = b
		}
	}
	f.kept = uint16(len(kept))
	if c.code.cuts() {
		c.cut(f, kept)
		return f
	}
	f.shards, f.sums = [][]byte{kept}, []uint32{f.crc}
	if len(kept) < len(page) {
		f.sums[0] = crc32.Checksum(kept, castagnoli)
	}
	return f
}

// shardOf is the shape and the bytes of one shard.
func (f *form) shardOf(i int) (shape, []byte) {
	i %= len(f.shards)
	s := f.shape
	s.shard, s.sum = uint8(i), f.sums[i]
	return s, f.shards[i]
}

// page makes a page of the bytes that servers keep it as: it is these, or is in memory that is to be given back. It is nil if they are
// of no page.
func (c *Client) page(kept []byte) (page []byte, mem *scratch) {
	if len(kept) == c.cfg.PageBytes {
		return kept, nil
	}
	if n, err := s2.DecodedLen(kept); err != nil || n != c.cfg.PageBytes {
		return nil, nil
	}
	mem = c.borrow()
	page, err := s2.Decode(mem.b, kept)
	if err != nil {
		c.giveBack(mem)
		return nil, nil
	}
	return page, mem
}
