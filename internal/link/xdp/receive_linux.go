package xdp

import (
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/link"
)

// lookEvery is how many polls pass between two looks at the ordinary socket and at the news, which cost system calls.
const lookEvery = 256

// Poll implements link.Driver.
func (d *Driver) Poll(now clock.Time, to link.Receiver) (frames int, next clock.Time) {
	d.now = now
	if d.closed {
		return 0, clock.Never
	}
	frames = d.pollSlow(now, to)
	for i := 0; i < len(d.queues); i++ { // there are none any more when what has come closes the driver
		at := d.first + i
		if at >= len(d.queues) {
			at -= len(d.queues)
		}
		frames += d.receive(d.queues[at], now, to, limits.PollBatch-frames)
	}
	if d.closed {
		return frames, clock.Never
	}
	if frames >= limits.PollBatch && len(d.queues) > 0 { // whose turn did not come begins the next time
		d.first = (d.first + 1) % len(d.queues)
	}
	return frames, d.slowNext
}

// pollSlow asks the ordinary socket now and then, and when it wants to be asked: it may have brought more frames than it has handed over, which
// its descriptor does not tell. The queues have every other poll to themselves.
func (d *Driver) pollSlow(now clock.Time, to link.Receiver) (frames int) {
	look := false
	if d.polls++; d.polls >= lookEvery {
		look, d.polls = true, 0
		if d.routes.look() {
			d.check()
		}
	}
	if d.slowed = look || d.slowNext <= now && !d.slowed; d.slowed {
		frames, d.slowNext = d.slow.Poll(now, to)
	}
	return frames
}

// Glance implements link.Caps: one load a queue. What the slow path brings it overlooks. It asks for the lines that the next frame will
// need, its descriptor's and its own, so that they come beside the index that tells of it and not one behind the other.
func (d *Driver) Glance() bool {
	for _, q := range d.queues {
		if q.rx.any() {
			return true
		}
		d.ahead(q)
	}
	return false
}

// receive hands over at most so many frames of one queue, and gives their chunks back to the kernel.
func (d *Driver) receive(q *queue, now clock.Time, to link.Receiver, most int) (frames int) {
	for frames < most {
		e, ok := q.rx.get()
		if !ok {
			break
		}
		frames++
		from, frame, congested, ok := d.found(q, e)
		if ok {
			d.countIn(len(frame), congested)
			to.Receive(now, from, frame)
			if d.closed {
				return frames
			}
		} else {
			d.counters.DroppedIn++
		}
		q.fill.put(e.addr &^ (chunkBytes - 1)) // there is room: the ring holds as many as there are chunks
	}
	d.settle(q, frames)
	return frames
}

// found is the frame that a descriptor is of.
func (d *Driver) found(q *queue, e desc) (from link.Addr, frame []byte, congested, ok bool) {
	q.soon = (e.addr + chunkBytes) % (fillRing * chunkBytes)
	b := q.umem[e.addr : e.addr+uint64(e.length)]
	d.fetch(b)
	from, frame, congested, ok = parse(b)
	if d.zone != "" && from.Addr().IsLinkLocalUnicast() {
		from = netip.AddrPortFrom(from.Addr().WithZone(d.zone), from.Port())
	}
	return from, frame, congested, ok && len(frame) <= limits.MaxFrame
}

// countIn counts a frame of n bytes that is handed over.
func (d *Driver) countIn(n int, congested bool) {
	if congested {
		d.counters.ECNMarked++
	}
	d.counters.FramesIn++
	d.counters.BytesIn += uint64(n)
}

// settle gives the kernel back what so many frames have left, but for that of a lone one: the process that waits for it may have an answer, and Flush
// gives it back behind that.
func (d *Driver) settle(q *queue, frames int) {
	if frames == 1 && q.rx.kept() < mostKept {
		return
	}
	q.giveBack()
	if q.fill.wants() {
		d.counters.SystemCalls++
		_, _, _ = unix.RawSyscall6(unix.SYS_RECVFROM, uintptr(q.fd), 0, 0, unix.MSG_DONTWAIT, 0, 0)
	}
}

// Peek implements link.Caps. What it does not show is for Poll to judge.
func (d *Driver) Peek(from link.Addr) (frame []byte) {
	for _, q := range d.queues {
		if e, ok := q.rx.peek(); ok {
			at, frame, congested, ok := d.found(q, e)
			if ok && at == from {
				d.peeked, d.marked = q, congested
				return frame
			}
		}
	}
	return nil
}

// Pass implements link.Caps.
func (d *Driver) Pass(now clock.Time, n int) {
	q := d.peeked
	e, _ := q.rx.get()
	d.now = now
	d.countIn(n, d.marked)
	q.fill.put(e.addr &^ (chunkBytes - 1))
	d.settle(q, 1)
}

// ahead asks for the lines of the descriptor and of the frame that will come next.
func (d *Driver) ahead(q *queue) {
	e := &q.rx.entries[q.rx.next&(fillRing-1)]
	b := q.umem[q.soon:][:192]
	d.fetched += byte(e.length) + b[0] + b[64] + b[128]
}

// fetch has the lines of a short frame come from the sender's core all at once, and not each when it is looked at.
func (d *Driver) fetch(b []byte) {
	for i := 0; i < min(len(b), 256); i += 64 {
		d.fetched += b[i]
	}
}

// mostKept is how many chunks of lone frames are kept from the kernel. To give one back are two stores that wait for all
// before them.
const mostKept = 8
