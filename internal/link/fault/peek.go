package fault

import (
	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/link"
)

// shown is the frame that Peek has returned. Its faults are drawn at the first Peek. Until Pass
// or Poll, peek shows no frame of another sender.
type shown struct {
	open   bool
	from   link.Addr
	frame  []byte // as Peek returned it
	copied bool   // its memory is from the pool
	below  int    // its length in the driver below
}

// peek implements link.Caps. It releases frames below that are lost or held, and shows the next
// one. If a held frame is due, Poll must hand it over first.
func (f *Driver) peek(from link.Addr) []byte {
	if f.shown.open {
		if f.shown.from == from {
			return f.shown.frame
		}
		return nil
	}
	for f.held.due() > f.now {
		frame := f.below.Peek(from)
		if frame == nil {
			return nil
		}
		x := f.judge(f.now, from, frame)
		here := x.times > 0 && x.due[0] <= f.now
		later := x.due[:x.times]
		if here {
			later = later[1:]
		}
		for _, due := range later {
			f.hold(due, from, x.frame)
		}
		if here {
			f.shown = shown{true, from, x.frame, x.copied, len(frame)}
			return x.frame
		}
		if x.copied {
			f.pool.put(x.frame)
		}
		f.below.Pass(f.now, len(frame))
	}
	return nil
}

// pass implements link.Caps.
func (f *Driver) pass(now clock.Time, n int) {
	f.now = now
	f.count(1, n)
	f.letGo(now)
}

// handShown hands over the frame that Peek has returned.
func (f *Driver) handShown(now clock.Time) {
	if s := &f.shown; s.open {
		f.hand(now, s.from, s.frame)
		f.letGo(now)
	}
}

// letGo releases the frame that Peek has returned.
func (f *Driver) letGo(now clock.Time) {
	s := &f.shown
	if !s.open { // its receiver has closed the driver
		return
	}
	f.below.Pass(now, s.below)
	if s.copied {
		f.pool.put(s.frame)
	}
	*s = shown{}
}
