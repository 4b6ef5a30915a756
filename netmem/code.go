package netmem

import (
	"fmt"
	"math/bits"

	"github.com/klauspost/reedsolomon"
	"github.com/weftnet/weft/internal/mutate"
)

// Code describes how a client protects its pages against the loss of servers. The client cuts each
// page into Data shards and computes Parity further shards from them. Each shard of a page is on a
// different server. Any Data shards of a page are enough to read the page. If Data is 1, each shard
// is a copy of the whole page.
type Code struct {
	Data   int `json:"data"`   // number of shards that a page is cut into; 1 for copies
	Parity int `json:"parity"` // number of further shards, or of further copies
}

// maxShards is the largest number of shards of a page. A write sends one message for each shard.
const maxShards = 32

// String returns the number of copies, for example "2 copies", or the numbers of shards as
// Data+Parity, for example "4+2".
func (c Code) String() string {
	switch {
	case c.Data > 1:
		return fmt.Sprintf("%d+%d", c.Data, c.Parity)
	case c.Parity == 0:
		return "1 copy"
	}
	return fmt.Sprintf("%d copies", 1+c.Parity)
}

// servers returns the number of servers that hold each page.
func (c Code) servers() int { return c.Data + c.Parity }

// cuts reports whether pages are cut into shards.
func (c Code) cuts() bool { return c.Data > 1 }

// shardBytes returns the length of each shard of a page of n bytes.
func (c Code) shardBytes(n int) int { return (n + c.Data - 1) / c.Data }

// code returns the Code that a configuration selects. It refuses an invalid configuration.
func (cfg *ClientConfig) code() (Code, error) {
	c, n := cfg.Coding, len(cfg.Servers)
	switch {
	case n == 0:
		return c, badArgument("netmem: no servers; expected at least one")
	case c == Code{}:
		if cfg.Copies < 1 || cfg.Copies > n {
			return c, badArgument("netmem: %d copies of a page on %d servers; expected 1 to %d", cfg.Copies, n, n)
		}
		return Code{Data: 1, Parity: cfg.Copies - 1}, nil
	case cfg.Copies > 1:
		return c, badArgument("netmem: %d copies of a page, and %d+%d shards; expected one of the two",
			cfg.Copies, c.Data, c.Parity)
	// The sum of Data and Parity may overflow, so the limit is checked without it.
	case c.Data < 2 || c.Parity < 1 || c.Data > maxShards || c.Parity > maxShards-c.Data:
		return c, badArgument("netmem: a page in %d+%d shards; expected 2 or more, 1 or more, and at most %d together",
			c.Data, c.Parity, maxShards)
	case c.servers() > n:
		return c, badArgument("netmem: a page in %d+%d shards on %d servers; expected %d servers or more",
			c.Data, c.Parity, n, c.servers())
	}
	return c, nil
}

// coder returns the encoder of shards, or nil if pages are not cut. The encoder runs in the calling
// goroutine.
func (c Code) coder() (reedsolomon.Encoder, error) {
	if !c.cuts() {
		return nil, nil
	}
	return reedsolomon.New(c.Data, c.Parity, reedsolomon.WithMaxGoroutines(1))
}

// count returns the number of copies of a page for which the function counts returns true. If
// several of these copies are the same shard, they count once.
func (c *Client) count(p *page, counts func(k *copyOf) bool) (n int) {
	shards := uint32(0)
	for i := range p.copies {
		if k := &p.copies[i]; counts(k) {
			n++
			shards |= 1 << k.shard
		}
	}
	if c.code.cuts() {
		return bits.OnesCount32(shards)
	}
	return n
}

// suits reports whether a read may use the version of a copy. A copy may have a newer version than
// the acknowledged one. Shards must all have the acknowledged version.
func (c *Client) suits(p *page, k *copyOf) bool {
	if c.code.cuts() {
		return k.version == p.version || c.cfg.defect == mutate.PagesShardsMixed
	}
	return k.version >= p.version || c.cfg.defect == mutate.PagesOldRead
}
