package sim

import (
	"math/rand/v2"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/link"
)

// able holds the optional abilities (link.Caps) of a fabric's links. All links of a fabric have the
// same ones, reliable or not. The seed decides which, and most fabrics have most of them.
type able struct{ post, postLone, run, glance, peek bool }

// A fabric lacks a given ability with probability 1/unable.
const unable = 6

func drawAble(rng *rand.Rand) able {
	can := func() bool { return rng.IntN(unable) > 0 }
	return able{post: can(), postLone: can(), run: can(), glance: can(), peek: can()}
}

// Caps implements link.Driver.
func (p *port) Caps() (c link.Caps) {
	can := &p.net.can
	if can.post {
		c.Post = p.Post
	}
	if can.postLone {
		c.PostLone = p.PostLone
	}
	if can.run {
		c.ReserveRun, c.CommitRun = p.ReserveRun, p.CommitRun
	}
	if can.glance {
		c.Glance = p.Glance
	}
	if can.peek {
		c.Peek, c.Pass = p.Peek, p.Pass
	}
	return c
}

// longestRun is the largest number of frames that a port offers in one run.
const longestRun = 16

// Post implements link.Caps.
func (p *port) Post(now clock.Time, frame []byte) {
	p.net.uses.Post++
	p.Commit(copy(p.open.buf, frame))
	p.Flush(now)
}

// PostLone implements link.Caps. It fails while a committed frame waits for Flush.
func (p *port) PostLone(now clock.Time, to link.Addr, head *[6]uint64, body []byte) bool {
	if len(p.out) > 0 || len(head)*8+len(body) > p.net.link.MTU {
		return false
	}
	b := p.Reserve(to)
	if b == nil {
		return false
	}
	p.net.uses.PostLone++
	p.Commit(link.PutLone(b, head, body))
	p.Flush(now)
	return true
}

// ReserveRun implements link.Caps. It offers at most the number of frames that the queue takes now.
func (p *port) ReserveRun(to link.Addr, size, n int) []byte {
	if p.full(to) {
		p.starved = true
		return nil
	}
	n = min(n, 1+p.net.rng.IntN(longestRun), max(1, (p.net.link.SendQueue-p.outLen)/size))
	if cap(p.rows) < n*size {
		p.rows = make([]byte, longestRun*p.net.link.MTU)
	}
	p.row, p.rowTo, p.rowSize = p.rows[:n*size], portIndex(to), size
	return p.row
}

// CommitRun implements link.Caps.
func (p *port) CommitRun(n int) {
	p.net.uses.Run += uint64(n)
	for i := range n {
		f := p.net.newFrame()
		f.from, f.to = p.index, p.rowTo
		p.commit(f, copy(f.buf, p.row[i*p.rowSize:(i+1)*p.rowSize]))
	}
	p.row = nil
}

// Glance implements link.Caps.
func (p *port) Glance() bool { return len(p.in) > 0 }

// Peek implements link.Caps.
func (p *port) Peek(from link.Addr) (frame []byte) {
	if len(p.in) > 0 && p.net.ports[p.in[0].from].addr == from {
		return p.in[0].buf[:p.in[0].n]
	}
	return nil
}

// Pass implements link.Caps.
func (p *port) Pass(clock.Time, int) {
	p.net.uses.Pass++
	f := p.in[0]
	p.noteIn(f)
	p.net.release(f)
	p.in = append(p.in[:0], p.in[1:]...)
}
