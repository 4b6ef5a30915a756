package fault

import (
	"time"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/link"
)

// Poll implements link.Driver. It hands over the frame that Peek has returned, then the held
// frames that are due, and then the frames of the driver below.
func (f *Driver) Poll(now clock.Time, to link.Receiver) (int, clock.Time) {
	f.begin(now, to)
	f.handShown(now)
	f.release(now)
	taken, next := f.Driver.Poll(now, &f.tap)
	f.to = nil
	if taken > 0 && f.handed == 0 {
		// The caller gets no frame, but the driver below may have more, so the caller must not
		// sleep yet.
		return 0, now
	}
	return f.handed, clock.Min(next, f.held.due())
}

// begin records the receiver of a Poll.
func (f *Driver) begin(now clock.Time, to link.Receiver) { f.now, f.to, f.handed = now, to, 0 }

// glance implements link.Caps.
func (f *Driver) glance() bool { return f.held.due() <= f.now || f.below.Glance() }

// release hands over the held frames that are due, at most a batch.
func (f *Driver) release(now clock.Time) {
	for range limits.PollBatch {
		if f.held.due() > now {
			return
		}
		h := f.held.pop()
		f.at = h.at
		f.hand(now, h.from, h.frame)
		f.pool.put(h.frame)
	}
}

// hand hands over a frame, unless an earlier frame has closed the driver.
func (f *Driver) hand(now clock.Time, from link.Addr, frame []byte) {
	if f.closed {
		return
	}
	f.count(1, len(frame))
	f.handed++
	f.to.Receive(now, from, frame)
}

// count counts frames that were handed over.
func (f *Driver) count(frames, bytes int) {
	f.counts.Passed += uint64(frames)
	f.bytes += uint64(bytes)
}

// arrived records where the current frames of the driver below have arrived.
func (f *Driver) arrived() {
	if f.below.Reached != nil {
		f.at = f.below.Reached()
	}
}

// tap is the receiver for the driver below. It is a separate type so that Driver has no method
// Receive.
type tap struct{ d *Driver }

func (t *tap) Receive(now clock.Time, from link.Addr, frame []byte) {
	t.d.arrived()
	x := t.d.judge(now, from, frame)
	t.d.deliver(now, from, &x)
}

// ReceiveRun hands over frames without faults as runs. Faults split a run.
func (t *tap) ReceiveRun(now clock.Time, from link.Addr, frames []byte, size int) {
	f := t.d
	f.arrived()
	good := 0 // bytes of good frames, at the beginning of frames, that are not handed over yet
	for at := 0; at < len(frames); {
		n := min(size, len(frames)-at)
		x := f.judge(now, from, frames[at:at+n])
		if at += n; x.passes(now) {
			good = at
			continue
		}
		f.handRun(now, from, frames[:good], size)
		f.deliver(now, from, &x)
		frames, at, good = frames[at:], 0, 0
	}
	f.handRun(now, from, frames[:good], size)
}

func (f *Driver) handRun(now clock.Time, from link.Addr, frames []byte, size int) {
	if n := (len(frames) + size - 1) / size; n > 0 && !f.closed {
		f.count(n, len(frames))
		f.handed += n
		f.to.ReceiveRun(now, from, frames, size)
	}
}

// fate holds the outcome for one frame.
type fate struct {
	frame  []byte        // as it arrives: the frame itself or a damaged copy
	copied bool          // the copy is from the pool
	due    [2]clock.Time // times of arrival
	times  int           // number of arrivals: 0 if it is lost
}

// passes reports whether the frame has no fault.
func (x *fate) passes(now clock.Time) bool { return x.times == 1 && !x.copied && x.due[0] <= now }

// judge draws the faults of a frame, and counts them.
func (f *Driver) judge(now clock.Time, from link.Addr, frame []byte) (x fate) {
	if f.isCut(from) {
		f.counts.Partitioned++
		return x
	}
	if f.chance(f.cfg.Loss) {
		f.counts.Lost++
		return x
	}
	x.times = 1
	if f.chance(f.cfg.Duplicate) {
		f.counts.Duplicated++
		x.times = 2
	}
	x.frame, x.copied = f.damage(frame)
	for i := range x.times {
		x.due[i] = f.dueTime(now, from)
	}
	return x
}

// deliver hands over or holds a frame, according to its fate.
func (f *Driver) deliver(now clock.Time, from link.Addr, x *fate) {
	for _, due := range x.due[:x.times] {
		if due <= now {
			f.hand(now, from, x.frame)
		} else {
			f.hold(due, from, x.frame)
		}
	}
	if x.copied {
		f.pool.put(x.frame)
	}
}

// hold keeps a copy of a frame until it is due.
func (f *Driver) hold(due clock.Time, from link.Addr, frame []byte) {
	if f.closed {
		return
	}
	if f.held.bytes+sizeOf(len(frame)) > f.cfg.HeldBytes {
		f.counts.Overflowed++
		return
	}
	h := f.pool.get(len(frame))
	copy(h, frame)
	f.held.push(due, from, f.at, h)
}

func (f *Driver) isCut(from link.Addr) bool {
	if f.cfg.Cut != nil && f.cfg.Cut(from) {
		return true
	}
	_, cut := f.cut[from]
	return cut
}

// dueTime draws the time at which a frame arrives.
func (f *Driver) dueTime(now clock.Time, from link.Addr) clock.Time {
	due := now
	if f.cfg.Delay > 0 || f.cfg.Jitter > 0 {
		due = due.Add(f.cfg.Delay + f.within(f.cfg.Jitter))
		f.counts.Delayed++
	}
	if f.chance(f.cfg.Reorder) {
		due = due.Add(1 + f.within(f.cfg.ReorderBy-1))
		f.counts.Reordered++
	}
	if f.chance(f.cfg.Clog) {
		f.clogs[from] = now.Add(f.cfg.ClogFor)
	}
	if len(f.clogs) == 0 {
		return due
	}
	until, clogged := f.clogs[from]
	if !clogged {
		return due
	}
	if until <= now {
		delete(f.clogs, from)
		return due
	}
	f.counts.Clogged++
	return max(due, until)
}

// damage returns a frame with flipped bits or without its end, as a copy. An empty frame cannot
// be damaged.
func (f *Driver) damage(frame []byte) (out []byte, copied bool) {
	corrupt, truncate := f.chance(f.cfg.Corrupt), f.chance(f.cfg.Truncate)
	if !(corrupt || truncate) || len(frame) == 0 {
		return frame, false
	}
	out = f.pool.get(len(frame))
	copy(out, frame)
	if corrupt {
		f.flip(out)
		f.counts.Corrupted++
	}
	if truncate {
		out = out[:f.rng.IntN(len(out))]
		f.counts.Truncated++
	}
	return out, true
}

// flip changes one byte, or two different bytes, so that flips never cancel each other.
func (f *Driver) flip(frame []byte) {
	i := f.rng.IntN(len(frame))
	frame[i] ^= byte(1 + f.rng.IntN(255))
	if len(frame) > 1 && f.rng.IntN(2) == 0 {
		j := (i + 1 + f.rng.IntN(len(frame)-1)) % len(frame)
		frame[j] ^= byte(1 + f.rng.IntN(255))
	}
}

// chance returns true with probability p. Without a fault (p = 0) it draws nothing.
func (f *Driver) chance(p float64) bool { return p > 0 && f.rng.Float64() < p }

// within draws a duration of 0…d.
func (f *Driver) within(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return time.Duration(f.rng.Int64N(int64(d) + 1))
}
