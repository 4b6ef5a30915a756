package mem

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/link"
)

// Port is one driver of a switch. Its owner is the goroutine that drives it. Only the queue is
// also used by all senders.
type Port struct {
	sw   *Switch
	addr link.Addr

	// Fields of the owner.
	spare [][]byte // empty buffers, at most sw.keep after a Poll or a Pass
	// staged is the buffer that Reserve offers. A new reservation uses it again.
	staged   []byte
	to       *Port  // receiver of the open reservation; nil if it has none
	open     bool   // a reservation is open
	batch    []slot // frames of one Poll
	counters link.Counters

	// Fields of the senders share no cache line with those of the owner.
	_ [64]byte

	// waiting is the number of frames in the queue. It is read without mu, so that a check of an
	// empty queue costs one load.
	waiting atomic.Int32
	shut    atomic.Bool // closed; further frames for it are lost
	mu      sync.Mutex  // guards the fields below
	// ring has 2^k slots. The next frame to take is at head, and the next free slot at head +
	// waiting.
	ring []slot
	head uint32
	wake func()
}

// slot is a frame in a queue. Its buffer has the capacity of the MTU and the length of the
// frame.
type slot struct {
	frame []byte
	from  *Port
}

var _ link.Driver = (*Port)(nil)

// Addr implements link.Driver.
func (p *Port) Addr() link.Addr { return p.addr }

// MTU implements link.Driver.
func (p *Port) MTU() int { return p.sw.mtu }

// Properties implements link.Driver. A switch keeps all promises.
func (p *Port) Properties() link.Properties {
	return link.Properties{Reliable: true, Ordered: true, Checked: true, Whole: true}
}

// Caps implements link.Driver.
func (p *Port) Caps() link.Caps {
	return link.Caps{PostLone: p.PostLone, Peek: p.Peek, Pass: p.Pass, Notify: p.Notify}
}

// Reserve implements link.Driver. It returns nil while the queue at to is full.
//
// Reserve checks the queue, and Commit enters it. If several ports see the last free place, all
// of them commit, so a queue may exceed its limit by one frame for each port. That is cheaper
// than to reserve a place, and also bounded.
func (p *Port) Reserve(to link.Addr) []byte {
	p.open = false
	if p.shut.Load() {
		return nil
	}
	dst := p.sw.lookup(to)
	if dst != nil && dst.waiting.Load() >= p.sw.queue {
		return nil
	}
	if p.staged == nil {
		p.staged = p.empty()
	}
	p.to, p.open = dst, true
	return p.staged
}

// empty returns an empty buffer.
func (p *Port) empty() []byte {
	if len(p.spare) == 0 {
		p.spare = p.sw.take(p.spare, p.sw.keep/2)
	}
	last := len(p.spare) - 1
	b := p.spare[last]
	p.spare = p.spare[:last]
	return b
}

// Commit implements link.Driver. The frame leaves at once. Commit panics if no reservation is
// open or n exceeds it.
func (p *Port) Commit(n int) {
	if !p.open {
		panic("mem: Commit without Reserve")
	}
	if n < 0 || n > p.sw.mtu {
		panic(fmt.Sprintf("mem: Commit of %d bytes: a frame has at most %d", n, p.sw.mtu))
	}
	p.open = false
	p.counters.FramesOut++
	p.counters.BytesOut += uint64(n)
	if p.to == nil || !p.to.enqueue(slot{p.staged[:n], p}) {
		p.counters.DroppedOut++
		return
	}
	p.staged = nil
}

// enqueue puts f at the end of p's queue, and wakes p if the queue was empty. It returns false
// if p is closed.
func (p *Port) enqueue(f slot) bool {
	p.mu.Lock()
	if p.shut.Load() {
		p.mu.Unlock()
		return false
	}
	n := uint32(p.waiting.Load())
	if n == uint32(len(p.ring)) {
		p.grow()
	}
	p.ring[(p.head+n)&uint32(len(p.ring)-1)] = f
	p.waiting.Store(int32(n + 1))
	wake := p.wake
	p.mu.Unlock()
	if n == 0 && wake != nil {
		wake()
	}
	return true
}

// firstRing is the initial number of slots of a ring. Most ports of a large simulation never
// need more.
const firstRing = 8

// grow doubles the ring. The caller holds mu, and the ring is full.
func (p *Port) grow() {
	ring := make([]slot, max(2*len(p.ring), firstRing))
	n := copy(ring, p.ring[p.head:])
	copy(ring[n:], p.ring[:p.head])
	p.ring, p.head = ring, 0
}

// PostLone implements link.Caps.
func (p *Port) PostLone(_ clock.Time, to link.Addr, head *[6]uint64, body []byte) bool {
	if len(head)*8+len(body) > p.sw.mtu {
		return false
	}
	b := p.Reserve(to)
	if b == nil {
		return false
	}
	p.Commit(link.PutLone(b, head, body))
	return true
}

// Flush implements link.Driver. It does nothing, since Commit sends each frame.
func (p *Port) Flush(clock.Time) {}

// Poll implements link.Driver.
func (p *Port) Poll(now clock.Time, to link.Receiver) (int, clock.Time) {
	if p.waiting.Load() == 0 {
		return 0, clock.Never
	}
	p.dequeue()
	n := 0
	for i, f := range p.batch {
		if p.shut.Load() { // a received frame has closed the port
			p.counters.DroppedIn++
		} else {
			n++
			p.counters.FramesIn++
			p.counters.BytesIn += uint64(len(f.frame))
			to.Receive(now, f.from.addr, f.frame)
		}
		p.spare = append(p.spare, f.frame[:p.sw.mtu])
		p.batch[i] = slot{}
	}
	p.batch = p.batch[:0]
	p.giveSpare()
	return n, clock.Never
}

// giveSpare returns surplus buffers of a port that mostly receives, and all buffers of a closed
// port, to the switch.
func (p *Port) giveSpare() {
	keep := p.sw.keep / 2
	switch {
	case p.shut.Load():
		keep = 0
	case len(p.spare) <= p.sw.keep:
		return
	}
	p.sw.give(p.spare[keep:])
	p.spare = p.spare[:keep]
}

// Peek implements link.Caps. It looks only at the head of the queue, where the frame may be from
// another sender.
func (p *Port) Peek(from link.Addr) (frame []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.waiting.Load() > 0 {
		if f := p.ring[p.head]; f.from.addr == from {
			return f.frame
		}
	}
	return nil
}

// Pass implements link.Caps.
func (p *Port) Pass(_ clock.Time, n int) {
	p.mu.Lock()
	at := &p.ring[p.head]
	p.spare = append(p.spare, at.frame[:p.sw.mtu])
	*at = slot{}
	p.head = (p.head + 1) & uint32(len(p.ring)-1)
	p.waiting.Add(-1)
	p.mu.Unlock()
	p.giveSpare()
	p.counters.FramesIn++
	p.counters.BytesIn += uint64(n)
}

// dequeue moves up to limits.PollBatch frames from the queue to the batch. So Receive is called
// without the lock and may send to any port.
func (p *Port) dequeue() {
	if p.batch == nil {
		p.batch = make([]slot, 0, limits.PollBatch)
	}
	p.mu.Lock()
	n := min(int(p.waiting.Load()), limits.PollBatch)
	mask := uint32(len(p.ring) - 1)
	for range n {
		p.batch = append(p.batch, p.ring[p.head&mask])
		p.ring[p.head&mask] = slot{}
		p.head = (p.head + 1) & mask
	}
	p.waiting.Add(int32(-n))
	p.mu.Unlock()
}

// Notify implements link.Caps.
func (p *Port) Notify(wake func()) {
	p.mu.Lock()
	p.wake = wake
	n := p.waiting.Load()
	p.mu.Unlock()
	if n > 0 && wake != nil {
		wake()
	}
}

// Counters implements link.Driver.
func (p *Port) Counters(c *link.Counters) { c.Add(&p.counters) }

// Close implements link.Driver. The frames in the port's queue are lost, and so are all frames
// that are sent to it later.
func (p *Port) Close() error {
	p.mu.Lock()
	already := p.shut.Swap(true)
	ring := p.ring
	p.counters.DroppedIn += uint64(p.waiting.Swap(0))
	p.ring, p.head, p.wake = nil, 0, nil
	p.mu.Unlock()
	if already {
		return nil
	}
	for _, f := range ring {
		if f.frame != nil {
			p.spare = append(p.spare, f.frame[:p.sw.mtu])
		}
	}
	if p.staged != nil {
		p.spare = append(p.spare, p.staged)
	}
	p.sw.give(p.spare)
	p.spare, p.staged, p.open = nil, nil, false
	return nil
}
