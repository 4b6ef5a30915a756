package netmem

import (
	"hash/crc32"

	"github.com/klauspost/compress/s2"
)

// form is a page as its servers keep it: compressed if that saves room, and cut into shards.
type form struct {
	shape            // shardOf sets shard and sum
	keptSum uint32   // if the page is cut: checksum of the bytes that it is cut from
	shards  [][]byte // one, if all servers have the same
	sums    []uint32
	mem     *scratch // memory of the shards; nil: they lie in the page itself
}

// scratch is memory for a page before or after compression.
type scratch struct{ b []byte }

// borrow returns memory for the longest form of a page.
func (c *Client) borrow() *scratch {
	if m, ok := c.scratches.Get().(*scratch); ok {
		return m
	}
	return &scratch{make([]byte, c.parityAt()+c.code.Parity*c.code.shardBytes(c.cfg.PageBytes))}
}

// parityAt returns the offset of the parity shards in borrowed memory, after the data.
func (c *Client) parityAt() int {
	return max(s2.MaxEncodedLen(c.cfg.PageBytes), c.code.Data*c.code.shardBytes(c.cfg.PageBytes))
}

// giveBack returns borrowed memory. nil is allowed.
func (c *Client) giveBack(m *scratch) {
	if m != nil {
		c.scratches.Put(m)
	}
}

// form makes the form of a page. The caller gives its memory back when none of it is in flight.
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

// shardOf returns the shape and the bytes of one shard.
func (f *form) shardOf(i int) (shape, []byte) {
	i %= len(f.shards)
	s := f.shape
	s.shard, s.sum = uint8(i), f.sums[i]
	return s, f.shards[i]
}

// page returns the page for which servers keep these bytes. If the bytes are compressed, the page
// lies in mem, and the caller must give mem back. If the bytes are not a page, the returned page is
// nil.
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
