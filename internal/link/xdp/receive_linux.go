package xdp

import (
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/link"
)

// lookEvery is the number of polls between two checks of the ordinary socket and of the news,
// which cost system calls.
const lookEvery = 256

// Poll implements link.Driver.
func (d *Driver) Poll(now clock.Time, to link.Receiver) (frames int, next clock.Time) {
	d.now = now
	if d.closed {
		return 0, clock.Never
	}
	frames = d.pollSlow(now, to)
	for i := 0; i < len(d.queues); i++ { // none are left if a frame closes the driver
		at := d.first + i
		if at >= len(d.queues) {
			at -= len(d.queues)
		}
		frames += d.receive(d.queues[at], now, to, limits.PollBatch-frames)
	}
	if d.closed {
		return frames, clock.Never
	}
	if frames >= limits.PollBatch && len(d.queues) > 0 { // the next poll begins at the next queue
		d.first = (d.first + 1) % len(d.queues)
	}
	return frames, d.slowNext
}

// pollSlow polls the ordinary socket from time to time, and also when that socket must be polled
// again: it may have received more frames than it has handed over, which its descriptor does not
// show. Even then every other poll is for the queues alone.
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

// Glance implements link.Caps, by one load for each queue. It overlooks frames of the ordinary
// socket. It also loads the cache lines of the next frame and of its descriptor. So these arrive
// in parallel with the index that announces the frame, and not one after the other.
func (d *Driver) Glance() bool {
	for _, q := range d.queues {
		if q.rx.any() {
			return true
		}
		d.ahead(q)
	}
	return false
}

// receive hands over frames of one queue, up to the limit most, and returns their chunks to the
// kernel.
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
		q.fill.put(e.addr &^ (chunkBytes - 1)) // there is room: the ring holds all chunks
	}
	d.settle(q, frames)
	return frames
}

// found returns the frame of a descriptor.
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

// countIn counts a frame of n bytes that was handed over.
func (d *Driver) countIn(n int, congested bool) {
	if congested {
		d.counters.ECNMarked++
	}
	d.counters.FramesIn++
	d.counters.BytesIn += uint64(n)
}

// settle returns the chunks of received frames to the kernel, except for that of a lone frame.
// The process that waits for it may send an answer, and Flush returns the chunk after that.
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

// Peek implements link.Caps. It leaves all other frames to Poll.
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

// ahead loads the cache lines of the next descriptor and of the next frame.
func (d *Driver) ahead(q *queue) {
	e := &q.rx.entries[q.rx.next&(fillRing-1)]
	b := q.umem[q.soon:][:192]
	d.fetched += byte(e.length) + b[0] + b[64] + b[128]
}

// fetch loads all cache lines of a short frame at once from the sender's core, instead of one
// after the other.
func (d *Driver) fetch(b []byte) {
	for i := 0; i < min(len(b), 256); i += 64 {
		d.fetched += b[i]
	}
}

// mostKept is the number of chunks of lone frames that are kept from the kernel. Returning a
// chunk takes two stores that wait for all stores before them.
const mostKept = 8
