// Package idle says what a loop that found nothing to do does next: poll again, yield, or park.
//
//	idle for    0 ──────────────── Awake ──────────────►
//	            │ a Pace: spin or yield │ park: sleep until something happens
//
//	        yield: nobody else ran          yield: nobody else ran
//	yield ────────────────────────► spin 1 µs ─────────► … spin 8 µs, yield, spin 8 µs, …
//	  ▲                                                     │
//	  └─────────────────────────────────────────────────────┘ yield: somebody ran, he needs this core, too
//	  │
//	  └─► park at once, or soon behind work, for the      two yields, or a very late one: somebody computes here
//	      next 100 ms
//
// Spinning answers soonest, but only where cores outnumber pollers: two spinners that share a core cost each other a
// whole time slice, 16 ms a round trip, where yielding costs 10 µs. To count cores and pollers does not tell: pollers of
// other processes do not show, and the kernel places them as it likes. So a loop asks the kernel whether anybody ran
// when it yielded.
//
// A loop that is mostly given what it waits for by whoever runs when it yields takes a Turn in place of that: a yield, and one look at the clock.
//
// Who computes and shares the core keeps it for a time slice, milliseconds, when it is yielded to him; but who sleeps is
// given it at once when he wakes. So beside such a one parking is the sooner answer. One late yield is no sign of him, unless a
// whole time slice has gone: the kernel's own threads, and a hypervisor, take a core for a millisecond now and then.
//
// Awake must outlast a wake-up, about 14 µs, or both ends lock into sleeping: each parks just before the other's answer.
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

// How long a loop that shares its core with nobody spins between two yields: at first, and at most. What it finds out
// too late costs somebody else so long; a yield costs half a microsecond, in which the loop does not look.
const (
	firstSpin = 1 * time.Microsecond
	longSpin  = 8 * time.Microsecond
)

// longWork is how long a loop that finds work again and again goes on between two yields. Of a stream of long messages, one every
// 8 µs took an eighth, one every 64 µs a thirtieth: between two of them all that the kernel needs for it has left the caches, so that it takes 2.6 µs
// and not 1. Behind work it spins answerSpins times as long as else, longer than an answer takes that comes over a network: to
// yield just before it comes, and to ask the kernel who ran, cost a microsecond of each round trip.
const (
	longWork    = 256 * time.Microsecond
	answerSpins = 4
)

// oneTurn is less than it takes to give the core to somebody who looks at something and yields in turn, and to have it back. A yield that nobody
// takes up is over in half a microsecond.
const oneTurn = 2 * time.Microsecond

// Two yields in a row that took lateYield each, or one that took wholeSlice, went to somebody who computes: pollers yield again
// after microseconds. He may be there for long, so the loop parks at once for a while. The first yield after that tells
// whether he still is. To wait for a second slice of his each time costs those who share a core with him half as many
// messages again.
const (
	lateYield  = 500 * time.Microsecond
	wholeSlice = 2 * time.Millisecond
	parkFor    = 100 * time.Millisecond
)

// Behind work a loop beside such a one hopes for more before it parks, without yielding, for no longer than it takes to be woken. Each time that
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
	shared   int   // times in a row that it said that somebody had run
	given    int   // yields in a row that took as long as if somebody had
}

// sharedFor is how many times in a row somebody must have run for a loop to share its core: once is nobody's habit.
const sharedFor = 2

// Shares reports whether the loop has shared its core with somebody lately.
func (p *Pace) Shares() bool { return p.shared >= sharedFor }

// Given is how many of the last yields took so long that somebody will have run, all in a row. It tells of a shared core sooner than Shares. To yield
// takes as long where the caches are cold; but the kernel is asked after every eighth at least, and says so.
func (p *Pace) Given() int { return p.given }

// Moved is called when the loop has gone to another core: who took up its yields is not there.
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

// Turn lets others run once, if the loop is known to share its core and Rest would do that: for who is mostly given what it waits for by whoever
// runs then. It has no poll before it, reads the clock once, and asks the kernel seldom. It reports false if Rest has to decide; then nothing has
// happened.
//
// How long the others took is at most what has passed since the loop had its core back last. Where that is long, Rest measures whether it was they
// that computed, or the loop.
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

// neighbour draws the conclusion from a yield at now that was over at after: whether somebody computes here.
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

// Pass is called in place of Rest after a poll at now that found work, and left none: whom the work was for may share the
// core, and then has something to do.
func (p *Pace) Pass(now clock.Time, yield func(), clock func() clock.Time) {
	p.pass(now, yield, clock, switches)
}

func (p *Pace) pass(now clock.Time, yield func(), clock func() clock.Time, switches func() int64) {
	if p.spin == 0 {
		p.rest(now, yield, clock, switches)
	}
}

// Work is called before Rest after a poll at now that found work: who has a core for himself and enough to do seldom yields, and who
// has it not may find more before he would be awake again.
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
