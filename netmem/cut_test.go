package netmem

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

// Any sufficient number of shards makes the page that was cut, whichever shards are lost, and
// whether the page is compressed or not.
func TestAnyShardsMakeThePage(t *testing.T) {
	for _, code := range []Code{{2, 1}, {2, 2}, {3, 2}, {4, 2}, {5, 3}, {8, 4}, {16, 16}} {
		coder, err := code.coder()
		if err != nil {
			t.Fatal(err)
		}
		for seed := range uint64(60) {
			r := rand.New(rand.NewPCG(seed, uint64(code.Data)))
			c := &Client{cfg: ClientConfig{PageBytes: 4096 << (seed % 2), Compress: seed%4 > 1}, code: code, coder: coder}
			data := make([]byte, c.cfg.PageBytes)
			for i := range data[:len(data)>>r.IntN(9)] {
				data[i] = byte(r.Uint32())
			}
			f := c.form(data)
			if int(f.kept) > len(data) || len(f.shards) != code.servers() || len(f.shards[0]) != code.shardBytes(int(f.kept)) {
				t.Fatalf("%v: a page of %d, kept as %d, in %d shards of %d bytes", code, len(data), f.kept, len(f.shards), len(f.shards[0]))
			}
			g := &gathered{c: c, p: &page{crc: f.crc}, mem: c.borrow(), kept: int(f.kept)}
			g.shards = c.shards(g.mem.b, g.mem.b, len(f.shards[0]))
			lost := r.Perm(code.servers())[:code.Parity]
			for i := range g.shards {
				copy(g.shards[i], f.shards[i])
			}
			for _, i := range lost {
				clear(g.shards[i])
				g.shards[i] = g.shards[i][:0]
			}
			got, mem := c.whole(g)
			if !bytes.Equal(got, data) {
				t.Fatalf("%v, seed %d: without shards %v the page is another", code, seed, lost)
			}
			c.giveBack(mem)
		}
	}
}
