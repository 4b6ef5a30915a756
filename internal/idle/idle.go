// Package idle says what a loop that found nothing to do does next: spin, then yield, then park.
//
//	idle for    0 ─── Spin ────────── Yield ───────────────►
//	stage       Spin     Yield            Park
//
// Spinning answers soonest, but only where cores outnumber pollers: two spinners that share a core cost each other a
// whole time slice, 16 ms a round trip, where yielding costs 10 µs. A core that nobody else wants is yielded for half a
// microsecond only, so that little is lost by yielding where it was not needed. Together the two must outlast a wake-up,
// about 14 µs, or both ends lock into sleeping: each parks just before the other's answer. Parking costs no CPU.
package idle

import (
	"runtime"
	"sync/atomic"
	"time"
)

// Stage is what to do after a poll that found nothing.
type Stage uint8

const (
	Spin  Stage = iota // poll again at once
	Yield              // let others run, then poll again
	Park               // sleep until something happens
)

// Budget is how long each stage lasts, counted from the last poll that found work.
type Budget struct {
	Spin  time.Duration // end of spinning
	Yield time.Duration // end of yielding; ≥ Spin
}

// Default is the budget of every loop that was not told otherwise. Spinning outlasts a wake-up of the peer twice over;
// yielding covers a peer that computes a little between two messages.
var Default = Budget{Spin: 30 * time.Microsecond, Yield: 400 * time.Microsecond}

// Stage says what to do after the loop has been idle for so long. Spinning becomes yielding while too many poll.
func (b Budget) Stage(idle time.Duration) Stage {
	switch {
	case idle < b.Spin && MaySpin():
		return Spin
	case idle < b.Yield:
		return Yield
	}
	return Park
}

// pollers counts the loops of this process that are not parked.
var pollers atomic.Int32

// Enter counts the caller as a poller until it calls Leave.
func Enter() { pollers.Add(1) }

// Leave takes back one Enter.
func Leave() { pollers.Add(-1) }

// coresPerPoller is how many cores there must be for each poller of this process before it spins. We cannot see the
// pollers of other processes, but there are some: the NIC's or the client's, and the other end's if that is here, too.
const coresPerPoller = 4

// MaySpin reports whether cores outnumber pollers.
func MaySpin() bool { return runtime.NumCPU() >= coresPerPoller*int(pollers.Load()) }

// Relax lets other goroutines and then other threads run.
func Relax() {
	runtime.Gosched()
	YieldThread()
}
