package fault

import (
	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/link"
)

// shown is the frame that Peek has returned. Its fate is decided when it is looked at first; until Pass or Poll ends the look, no frame
// of another sender is shown.
type shown struct {
	open   bool
	from   link.Addr
	frame  []byte // as Peek shows it
	copied bool   // of the pool
	below  int    // bytes of the frame in the driver below
}

// peek implements link.Caps. Frames that fate takes away, or holds, are let go of below, and the one behind them is shown. Where a held frame
// is due it comes first, by Poll.
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

// handShown hands over the frame that Peek has shown.
func (f *Driver) handShown(now clock.Time) {
	if s := &f.shown; s.open {
		f.hand(now, s.from, s.frame)
		f.letGo(now)
	}
}

// letGo ends the look at a frame.
func (f *Driver) letGo(now clock.Time) {
	s := &f.shown
	if !s.open { // closed by its receiver
		return
	}
	f.below.Pass(now, s.below)
	if s.copied {
		f.pool.put(s.frame)
	}
	*s = shown{}
}
