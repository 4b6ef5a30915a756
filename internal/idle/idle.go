// Package idle says what a loop that found nothing to do does next: poll again, yield, or park.
//
//	idle for    0 ──────────────── Awake ──────────────►
//	            │ a Pace: spin or yield │ park: sleep until something happens
//
//	        yield: no other ran             yield: no other ran
//	yield ────────────────────────► spin 1 µs ─────────► … spin 8 µs, yield, spin 8 µs, …
//	  ▲                                                     │
//	  └─────────────────────────────────────────────────────┘ yield: another thread ran, which needs this core, too
//	  │
//	  └─► park at once, or soon behind work, for the      two yields, or a very late one: another thread computes here
//	      next 100 ms
//
// Spinning answers soonest, but only where cores outnumber pollers: two spinners that share a core cost each other whole
// time slices, milliseconds a round trip, where yielding costs microseconds. To count cores and pollers does not tell:
// pollers of other processes do not show, and the kernel places them as it likes. So a loop asks the kernel whether another
// thread ran when it yielded.
//
// A loop that is mostly given what it waits for by the thread that runs when it yields takes a Turn in place of that: a yield, and one look at the
// clock.
//
// A thread that computes keeps a shared core for a time slice, milliseconds, when the loop yields; but a thread that sleeps is
// given the core at once when it wakes. So beside one that computes parking is the sooner answer. One late yield is no sign of
// it, unless a whole time slice has gone: the kernel's own threads, and a hypervisor, take a core for a millisecond now and then.
//
// Awake must outlast a wake-up, or both ends lock into sleeping: each parks just before the other's answer.
// Parking costs no CPU.
package idle

import (
	"runtime"
	"sync/atomic"
	"time"

	"github.com/weftnet/weft/internal/clock"
)

// Awake is how long a loop that was not told otherwise goes on after the last poll that found work: it covers a wake-up
// of the peer, and a peer that computes a little between two messages.
const Awake = 400 * time.Microsecond

// How long a loop that has its core for itself spins between two yields: at first, and at most. Another thread that comes
// waits for the core so long; a yield costs a little time, in which the loop does not look.
const (
	firstSpin = 1 * time.Microsecond
	longSpin  = 8 * time.Microsecond
)

// longWork is how long a loop that finds work again and again goes on between two yields. In a stream of long messages yields
// are dear: between two of them all that the kernel needs for one has left the caches. Behind work the loop spins answerSpins
// times as long as else, longer than an answer takes that comes over a network: to yield just before it comes, and to ask the
// kernel whether another thread ran, would lengthen each round trip.
const (
	longWork    = 256 * time.Microsecond
	answerSpins = 4
)

// oneTurn is less than it takes to give the core to a thread that looks at something and yields in turn, and to have it back. A yield that no
// thread takes up is over sooner.
const oneTurn = 2 * time.Microsecond

// Two yields in a row that took lateYield each, or one that took wholeSlice, went to a thread that computes: pollers yield
// again after microseconds. It may be there for long, so the loop parks at once for a while. The first yield after that tells
// whether it still is. To wait for a second slice of it each time would cost the loops beside it many messages.
const (
	lateYield  = 500 * time.Microsecond
	wholeSlice = 2 * time.Millisecond
	parkFor    = 100 * time.Millisecond
)

// Behind work a loop beside such a thread hopes for more before it parks, without yielding, for no longer than it takes to be woken. Each time that
// it hoped in vain it does so half as long, and twice as long when more came: a peer on another core goes on with a stream meanwhile, and
// one that shares the core can do so only when the loop has parked.
const (
	mostHope  = 32 * time.Microsecond
	leastHope = 1 * time.Microsecond
)

// lookEvery is how many yields in a row a loop that shares its core makes before it asks again whether it still does:
// to ask costs half as much as to yield.
const lookEvery = 8

// Pace is how one loop waits between polls that find nothing. The zero value is ready. It is not safe for several
// goroutines.
type Pace struct {
	spin     time.Duration
	until    clock.Time // poll again at once until then
	yielded  clock.Time // when it yielded last, if spin > 0
	park     clock.Time // and do not yield until then
	worked   clock.Time // when a poll found work last
	hope     time.Duration
	hoping   bool       // Rest has put parking off since
	late     bool       // the last yield took long
	seen     clock.Time // when it had its core back last
	doubted  bool       // it may have been long in coming
	turns    int        // since one was left to Rest
	yields   int
	switches int64 // as the kernel said last
	shared   int   // times in a row that it said that another thread had run
	given    int   // yields in a row that took as long as if one had
}

// sharedFor is how many times in a row another thread must have run for a loop to share its core: once may be chance.
const sharedFor = 2

// Shares reports whether the loop has shared its core with another thread lately.
func (p *Pace) Shares() bool { return p.shared >= sharedFor }

// Given is how many of the last yields, all in a row, took so long that another thread will have run. It tells of a shared core sooner than Shares. To yield
// takes as long where the caches are cold; but the kernel is asked after every eighth at least, and says so.
func (p *Pace) Given() int { return p.given }

// Moved is called when the loop has gone to another core: the thread that took up its yields is not there.
func (p *Pace) Moved() { p.given = 0 }

// Rest is called after a poll at now that found nothing, with how to yield, and the clock that now comes from. It returns
// true if the loop had better park.
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
	if n := switches(); n != p.switches { // of another thread now and then, which looks the same and is as rare
		p.switches, p.spin = n, 0
		p.shared++
		return false
	}
	p.shared, p.given = 0, 0
	p.spin = min(max(2*p.spin, firstSpin), longSpin)
	p.until, p.yielded = now.Add(p.spin), now
	return false
}

// turnsPerRest is how many turns a loop takes before Rest has to ask the kernel again whether it shares its core.
const turnsPerRest = 32

// Turn lets others run once, if the loop is known to share its core and Rest would do that. It is for a loop that is mostly given what it waits for
// by the thread that runs then. It has no poll before it, reads the clock once, and asks the kernel seldom. It reports false if Rest has to decide;
// then nothing has happened.
//
// How long the others took is at most what has passed since the loop had its core back last. Where that is long, Rest measures whether the
// others computed, or the loop.
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

// neighbour draws the conclusion from a yield at now that was over at after: whether another thread computes here.
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

// hopes reports whether a loop that is not to yield does not park yet either.
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

// Pass is called in place of Rest after a poll at now that found work, and left none: the thread that the work was for may
// share the core, and then has something to do.
func (p *Pace) Pass(now clock.Time, yield func(), clock func() clock.Time) {
	p.pass(now, yield, clock, switches)
}

func (p *Pace) pass(now clock.Time, yield func(), clock func() clock.Time, switches func() int64) {
	if p.spin == 0 {
		p.rest(now, yield, clock, switches)
	}
}

// Work is called before Rest after a poll at now that found work: a loop that has its core for itself and enough to do seldom yields,
// and one that has not may find more before it would be awake again.
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

// Leave takes back one Enter.
func Leave() { pollers.Add(-1) }

// Crowded reports whether the pollers of this program leave its other goroutines no processor.
func Crowded() bool { return int(pollers.Load()) >= runtime.GOMAXPROCS(0) }

// Relax lets other threads run, and other goroutines if the pollers of this program leave them no processor. Else the
// goroutines have one, and are spared: Gosched wakes another thread to go on with the caller, which costs 5 µs.
func Relax() {
	if Crowded() {
		runtime.Gosched()
	}
	YieldThread()
}
