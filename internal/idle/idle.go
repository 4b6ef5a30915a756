// Package idle decides the next step of a loop that found nothing to do: poll again, yield, or
// park.
//
//	idle for    0 ──────────────── Awake ──────────────►
//	            │ a Pace: spin or yield │ park: sleep until something happens
//
//	        yield: no other ran             yield: no other ran
//	yield ────────────────────────► spin 1 µs ─────────► … spin 8 µs, yield, spin 8 µs, …
//	  ▲                                                     │
//	  └─────────────────────────────────────────────────────┘ yield: another thread ran here
//	  │
//	  └─► park at once, or soon after work, for the    two yields, or a very late one:
//	      next 100 ms                                  another thread computes here
//
// Spinning answers soonest, but only if cores outnumber pollers. Two spinners that share a core
// cost each other whole time slices, milliseconds a round trip; with yielding it is
// microseconds. To count cores and pollers is not enough: pollers of other processes are not
// visible, and the kernel places them as it likes. So a loop asks the kernel whether another
// thread ran when it yielded.
//
// Some loops get their work mostly from the thread that runs when they yield. Such a loop takes
// a Turn instead: a yield, and one look at the clock.
//
// When the loop yields to a thread that computes, that thread keeps a shared core for a time
// slice, milliseconds. But a sleeper gets the core at once when it wakes. So on a core with a
// computing thread parking is the sooner answer. One late yield is no sign of such a thread,
// unless it took a whole time slice: the kernel's own threads, and a hypervisor, take a core for
// a millisecond now and then.
//
// Awake must outlast a wake-up, or both ends lock into sleeping: each parks just before the
// other's answer. Parking costs no CPU.
package idle

import (
	"runtime"
	"sync/atomic"
	"time"

	"github.com/weftnet/weft/internal/clock"
)

// Awake is how long a loop continues by default after the last poll that found work: it covers a
// wake-up of the peer, and a peer that computes a little between two messages.
const Awake = 400 * time.Microsecond

// How long a loop that is alone on its core spins between two yields: at first, and at most.
// Another thread that arrives waits that long for the core. A yield costs a little time, in
// which the loop does not look.
const (
	firstSpin = 1 * time.Microsecond
	longSpin  = 8 * time.Microsecond
)

// longWork is how long a loop that repeatedly finds work goes on between two yields. In a stream
// of long messages yields are expensive: between two of them all the kernel data for a yield has
// left the caches. After work the loop spins answerSpins times as long as otherwise, longer than
// an answer over a network takes. A yield just before the answer arrives, and the question to
// the kernel whether another thread ran, would lengthen each round trip.
const (
	longWork    = 256 * time.Microsecond
	answerSpins = 4
)

// oneTurn is less than a turn of a thread that looks at something and yields in turn, with both
// switches. A yield that no thread takes up is over sooner.
const oneTurn = 2 * time.Microsecond

// Two yields in a row that took lateYield each, or one that took wholeSlice, went to a thread
// that computes: pollers yield again after microseconds. Such a thread may stay for long, so the
// loop parks at once for a while. The first yield after that shows whether it is still there. To
// wait for a second slice of it each time would cost the other loops on the core many messages.
const (
	lateYield  = 500 * time.Microsecond
	wholeSlice = 2 * time.Millisecond
	parkFor    = 100 * time.Millisecond
)

// After work, a loop that shares its core with such a thread hopes for more before it parks,
// without yielding, for no longer than a wake-up takes. When no work came the next hope is half
// as long, and when work came twice as long: a peer on another core goes on with a stream
// meanwhile, and one that shares the core can do so only when the loop has parked.
const (
	mostHope  = 32 * time.Microsecond
	leastHope = 1 * time.Microsecond
)

// lookEvery is how many yields in a row a loop that shares its core makes before it asks again
// whether it still does: asking costs half as much as yielding.
const lookEvery = 8

// Pace is how one loop waits between polls that find nothing. The zero value is ready. It is not
// safe for concurrent use.
type Pace struct {
	spin     time.Duration
	until    clock.Time // until then poll again at once
	yielded  clock.Time // when it yielded last, if spin > 0
	park     clock.Time // do not yield until then
	worked   clock.Time // when a poll found work last
	hope     time.Duration
	hoping   bool       // Rest has delayed parking since then
	late     bool       // the last yield took long
	seen     clock.Time // when it had its core back last
	doubted  bool       // that may have taken long
	turns    int        // since one was left to Rest
	yields   int
	switches int64 // the kernel's last answer
	shared   int   // times in a row that another thread had run
	given    int   // yields in a row that took long enough for another thread to run
}

// sharedFor is how many times in a row another thread must have run for a loop to share its
// core: once may be chance.
const sharedFor = 2

// Shares reports whether the loop has recently shared its core with another thread.
func (p *Pace) Shares() bool { return p.shared >= sharedFor }

// Given returns how many of the last yields, all in a row, took so long that another thread
// probably ran. It shows a shared core sooner than Shares. A yield takes as long with cold
// caches; but the kernel is asked after every eighth yield at least, and its answer corrects
// that.
func (p *Pace) Given() int { return p.given }

// Moved must be called when the loop has gone to another core: the thread that took up its
// yields is not there.
func (p *Pace) Moved() { p.given = 0 }

// Rest must be called after a poll at now that found nothing. yield lets others run, and clock
// is the clock of now. Rest returns true if the loop should park.
func (p *Pace) Rest(now clock.Time, yield func(), clock func() clock.Time) (park bool) {
	return p.rest(now, yield, clock, switches)
}

func (p *Pace) rest(now clock.Time, yield func(), clock func() clock.Time, switches func() int64) (park bool) {
	if now < p.park {
		return !p.hopes(now)
	}
	if now < p.until {
		return false
	}
	yield()
	if p.neighbour(now, clock()) {
		return true
	}
	if p.spin == 0 {
		if p.yields++; p.yields%lookEvery != 0 {
			return false
		}
	}
	// Now and then this is the count of another thread. That looks the same and is as rare.
	if n := switches(); n != p.switches {
		p.switches, p.spin = n, 0
		p.shared++
		return false
	}
	p.shared, p.given = 0, 0
	p.spin = min(max(2*p.spin, firstSpin), longSpin)
	p.until, p.yielded = now.Add(p.spin), now
	return false
}

// turnsPerRest is the number of turns after which Rest has to ask the kernel again whether the
// loop shares its core.
const turnsPerRest = 32

// Turn lets others run once, if the loop is known to share its core and Rest would do that. It
// is for a loop that mostly gets its work from the thread that runs then. It has no poll before
// it, reads the clock once, and seldom asks the kernel. It returns false if Rest has to decide;
// then it has done nothing.
//
// The others took at most the time since the loop last had its core back. If that is long, Rest
// measures whether the others computed, or the loop.
func (p *Pace) Turn(yield func(), clock func() clock.Time) bool {
	if p.spin > 0 || p.doubted || !p.Shares() {
		return false
	}
	if p.turns++; p.turns == turnsPerRest {
		p.turns, p.yields = 0, lookEvery-1
		return false
	}
	yield()
	after := clock()
	p.doubted = after.Sub(p.seen) >= lateYield
	p.seen = after
	return true
}

// neighbour draws the conclusion from a yield that began at now and ended at after: whether
// another thread computes here.
func (p *Pace) neighbour(now, after clock.Time) bool {
	before, took := p.late, after.Sub(now)
	p.seen, p.doubted = after, took >= lateYield
	if p.given++; took < oneTurn {
		p.given = 0
	}
	if p.late = took >= lateYield; took < wholeSlice && (!p.late || !before) {
		return false
	}
	p.park, p.spin, p.hope, p.hoping = after.Add(parkFor), 0, mostHope, false
	return true
}

// hopes reports whether a loop that must not yield does not park yet either.
func (p *Pace) hopes(now clock.Time) bool {
	if now.Sub(p.worked) < p.hope {
		p.hoping = true
		return true
	}
	if p.hoping {
		p.hoping = false
		if p.hope /= 2; p.hope < leastHope {
			p.hope = 0
		}
	}
	return false
}

// Pass is called instead of Rest after a poll at now that did all the work that it found. The
// thread for which the work was may share the core, and then has something to do.
func (p *Pace) Pass(now clock.Time, yield func(), clock func() clock.Time) {
	p.pass(now, yield, clock, switches)
}

func (p *Pace) pass(now clock.Time, yield func(), clock func() clock.Time, switches func() int64) {
	if p.spin == 0 {
		p.rest(now, yield, clock, switches)
	}
}

// Work is called before Rest after a poll at now that found work. A loop that is alone on its
// core and has enough to do seldom yields. One that has not may find more before a wake-up would
// be over.
func (p *Pace) Work(now clock.Time) {
	p.worked = now
	if p.hoping {
		p.hoping, p.hope = false, min(2*p.hope, mostHope)
	}
	if p.spin > 0 {
		p.until = min(now.Add(answerSpins*p.spin), p.yielded.Add(longWork))
	}
}

// pollers counts the loops of this process that are not parked.
var pollers atomic.Int32

// Enter counts the caller as a poller until it calls Leave.
func Enter() { pollers.Add(1) }

// Leave undoes one Enter.
func Leave() { pollers.Add(-1) }

// Crowded reports whether the pollers of this program leave its other goroutines no processor.
func Crowded() bool { return int(pollers.Load()) >= runtime.GOMAXPROCS(0) }

// Relax lets other threads run. It also lets other goroutines run if the pollers of this program
// leave them no processor. Otherwise the goroutines have one, and Relax avoids Gosched: it wakes
// another thread to go on with the caller, which costs 5 µs.
func Relax() {
	if Crowded() {
		runtime.Gosched()
	}
	YieldThread()
}
