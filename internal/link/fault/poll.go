package fault

import (
	"time"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/link"
)

// Poll implements link.Driver: first the held frames that are due, then what the driver below has.
func (f *Driver) Poll(now clock.Time, to link.Receiver) (int, clock.Time) {
	f.to, f.handed = to, 0
	f.release(now)
	taken, next := f.Driver.Poll(now, &f.tap)
	f.to = nil
	if taken > 0 && f.handed == 0 {
		// The caller hears of no frame, and the driver below may have more: it must not go to sleep on them.
		return 0, now
	}
	return f.handed, clock.Min(next, f.held.due())
}

// release hands over the held frames that are due, at most a batch of them.
func (f *Driver) release(now clock.Time) {
	for range limits.PollBatch {
		if f.held.due() > now {
			return
		}
		h := f.held.pop()
		f.hand(now, h.from, h.frame)
		f.pool.put(h.frame)
	}
}

func (f *Driver) hand(now clock.Time, from link.Addr, frame []byte) {
	f.counts.Passed++
	f.bytes += uint64(len(frame))
	f.handed++
	f.to.Receive(now, from, frame)
}

// tap is what the driver below takes for its engine. It is a type of its own so that Driver has no Receive.
type tap struct{ d *Driver }

func (t *tap) Receive(now clock.Time, from link.Addr, frame []byte) { t.d.arrive(now, from, frame) }

// arrive does to one frame what fate wants.
func (f *Driver) arrive(now clock.Time, from link.Addr, frame []byte) {
	if f.isCut(from) {
		f.counts.Partitioned++
		return
	}
	if f.chance(f.cfg.Loss) {
		f.counts.Lost++
		return
	}
	twice := f.chance(f.cfg.Duplicate)
	if twice {
		f.counts.Duplicated++
	}
	frame, copied := f.damage(frame)
	f.send(now, from, frame)
	if twice {
		f.send(now, from, frame)
	}
	if copied {
		f.pool.put(frame)
	}
}

func (f *Driver) isCut(from link.Addr) bool {
	if f.cfg.Cut != nil && f.cfg.Cut(from) {
		return true
	}
	_, cut := f.cut[from]
	return cut
}

// send hands the frame over now or holds a copy of it until its time has come.
func (f *Driver) send(now clock.Time, from link.Addr, frame []byte) {
	due := f.dueTime(now, from)
	if due <= now {
		f.hand(now, from, frame)
		return
	}
	room := sizeOf(len(frame))
	if f.held.bytes+room > f.cfg.HeldBytes {
		f.counts.Overflowed++
		return
	}
	h := f.pool.get(len(frame))
	copy(h, frame)
	f.held.push(due, from, h)
}

// dueTime draws when a frame that is here now is to come.
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

// damage flips bits and cuts the end off, in a copy. A frame without bytes has nothing to lose.
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

// flip changes one byte, or two different ones, so that flips never cancel one another.
func (f *Driver) flip(frame []byte) {
	i := f.rng.IntN(len(frame))
	frame[i] ^= byte(1 + f.rng.IntN(255))
	if len(frame) > 1 && f.rng.IntN(2) == 0 {
		j := (i + 1 + f.rng.IntN(len(frame)-1)) % len(frame)
		frame[j] ^= byte(1 + f.rng.IntN(255))
	}
}

// chance is true at rate p. Faults that are not configured draw nothing.
func (f *Driver) chance(p float64) bool { return p > 0 && f.rng.Float64() < p }

// within draws a duration of 0…d.
func (f *Driver) within(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return time.Duration(f.rng.Int64N(int64(d) + 1))
}
