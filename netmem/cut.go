package netmem

import "hash/crc32"

// cut makes shards of the bytes that servers keep for a page. If the bytes divide evenly, cut does
// not copy the data shards.
func (c *Client) cut(f *form, kept []byte) {
	if f.mem == nil {
		f.mem = c.borrow()
	}
	n := c.code.shardBytes(len(kept))
	f.keptSum = f.crc
	if len(kept) < int(f.size) {
		f.keptSum = crc32.Checksum(kept, castagnoli)
	}
	if len(kept) < c.code.Data*n {
		clear(f.mem.b[copy(f.mem.b, kept) : c.code.Data*n])
		kept = f.mem.b
	}
	f.shards = c.shards(kept, f.mem.b, n)
	if err := c.coder.Encode(f.shards); err != nil {
		panic(err) // all shards have one length
	}
	for _, b := range f.shards {
		f.sums = append(f.sums, crc32.Checksum(b, castagnoli))
	}
}

// shards returns the memory of shards of n bytes each. The data shards lie in kept, and the parity
// shards lie in mem.
func (c *Client) shards(kept, mem []byte, n int) [][]byte {
	l := make([][]byte, 0, c.code.servers())
	for i := range c.code.Data {
		l = append(l, kept[i*n:][:n:n])
	}
	for i := range c.code.Parity {
		l = append(l, mem[c.parityAt()+i*n:][:n:n])
	}
	return l
}

// whole returns the page that the gathered shards make. Missing shards are empty slices with room
// for their content. It returns nil if the page has a wrong checksum.
func (c *Client) whole(g *gathered) (page []byte, mem *scratch) {
	if err := c.coder.ReconstructData(g.shards); err != nil {
		panic(err) // there are enough shards, all of one length
	}
	page, mem = c.page(g.mem.b[:g.kept])
	if crc32.Checksum(page, castagnoli) != g.p.crc {
		c.giveBack(mem)
		return nil, nil
	}
	return page, mem
}
