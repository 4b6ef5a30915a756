// Package poller runs one engine on the real clock.
//
// Embedded, the engine belongs to the holder of the lock, and one goroutine at a time has the duty to keep polling:
//
//	           a caller waits             its operation is done, others wait: one takes over
//	┌──────┐ ──────────────────► ┌────────┐ ─────────┐
//	│nobody│                     │ waiter │ ◄────────┘
//	└──────┘ ◄────────────────── └────────┘
//	    │      done, none waits    │    ▲
//	    │ a while without a poll   │    │ a caller waits
//	    ▼                          ▼    │    (down: idle; spin, then yield, then this)
//	┌─────────────────────────────────────┐
//	│ helper: polls; parks until a frame, │
//	│ the next deadline, or a nudge       │
//	└─────────────────────────────────────┘
//
// Before a waiter gives the duty to the helper it sleeps with it for a moment (nod): where other threads want the processor, an answer is then
// its own as soon as the kernel wakes it.
//
// Where other goroutines of the program use the NIC while one polls (company), it lets them run before it begins.
//
// A waiter that does not have the duty sleeps on a channel; the polling one looks after each poll which of them are
// ready. One that again and again brings others what they wait for, and itself nothing, gives the duty up, and is not given it again before it has
// what it waits for; one that leaves and is back soon each time finds it free. So progress does not depend on callers, and an idle process costs no CPU.
//
// As a daemon (Loop), one locked thread polls and parks in epoll.
package poller

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/idle"
	"github.com/weftnet/weft/internal/link"
)

// Engine is what a poller needs of a NIC. internal/nic's Engine is one.
type Engine interface {
	// Poll moves everything along and says when it must run again though nothing comes in from outside.
	Poll(now clock.Time) (work int, next clock.Time)
	// Ring says that the process at slot posted a command though its queue was no longer listened to.
	Ring(slot uint16)
	// RingAll is Ring for every process.
	RingAll()
	// Listening reports whether some process's queue is listened to, so that its posts do not ring.
	Listening() bool
	// EndListening has processes ring for their next commands, where there are none by now.
	EndListening()
	// Told reports whether the last poll had something to tell a process.
	Told() bool
	// Answered counts messages that programs of the NIC have handled, for which no caller waits.
	Answered() uint64
	// WaitsAt is the processor at which the only process that is listened to waits awake; -1 if there is none such.
	WaitsAt() int
}

// ErrClosed is what a Wait ends with when the poller is closed.
var ErrClosed = errors.New("poller: closed")

// Config is what a Poller may be told. The zero value is good.
type Config struct {
	Link  link.Caps     // what the engine's link can do: its Fd or Notify announces frames
	Awake time.Duration // how long to poll without work before parking; zero means idle.Awake

	yield func() // lets other threads run; nil means idle.Relax
}

// The holder of the duty to poll.
const (
	nobody int32 = iota
	waiter
	helper
)

// takeover is how long no waiter must have polled for the helper to take over, when it looks.
const takeover = 20 * time.Microsecond

// shareAfter is how long a busy poller keeps its processor from other goroutines of the program, if pollers leave them no other.
// Where they do, one of them may compute on it, so that the rest have shareAlways to wait. To share wakes another thread to go
// on with the poller, which takes 5 µs, and more on the core that the thread was woken on.
const (
	shareAfter  = 100 * time.Microsecond
	shareAlways = 1 * time.Millisecond
)

// Poller runs one engine. All methods are safe from many goroutines.
type Poller struct {
	engine Engine
	cfg    Config

	mu       sync.Mutex   // guards the engine
	duty     atomic.Int32 // nobody, waiter or helper
	pace     idle.Pace    // of the waiter with the duty
	apart    apart        // likewise
	slow     idle.Pace    // of the helper
	answers  uint64       // of programs, as the helper saw last,
	answered clock.Time   // and when they became more
	again    atomic.Bool  // a command was posted: the holder of mu polls once more before it is through
	wanted   atomic.Int32 // how many are about to sleep until mu is free
	closed   atomic.Bool

	patience atomic.Int32  // how many looks at the link Linger takes,
	lingers  int32         // at most
	soon     time.Duration // by when what it waits for comes
	unpolled int           // frames that were taken though a poll was due; guarded by mu

	polled  atomic.Int64 // when the engine was polled last
	next    atomic.Int64 // when it said that it must be polled again; 0 is always
	arrived atomic.Bool  // the link announced a frame since the last poll of one that was about to sleep

	left    atomic.Int64 // when a waiter last gave up the duty because it had what it waited for
	returns atomic.Int32 // how often in a row one was back soon after that

	waiters idle.Waiters
	helps   place         // of the helper
	leads   place         // of the waiter with the duty
	rouse   func()        // leads.nudge
	alarm   *sleeper      // for the helper's naps while it stands by
	company company       // of the waiter with the duty
	stopped chan struct{} // closed when the helper has ended
}

// New returns a poller that serves waiters and has a helper goroutine, until Close.
func New(e Engine, cfg Config) (*Poller, error) {
	if cfg.Awake == 0 {
		cfg.Awake = idle.Awake
	}
	if cfg.yield == nil {
		cfg.yield = idle.Relax
	}
	p := &Poller{engine: e, cfg: cfg, stopped: make(chan struct{})}
	if err := p.furnish(); err != nil {
		return nil, err
	}
	if cfg.Link.Notify != nil {
		cfg.Link.Notify(p.frameArrived)
	}
	p.lingerAt(cfg.Link.Post != nil)
	p.apart.room, p.apart.move = idle.Room, idle.MoveOff
	go p.help()
	return p, nil
}

// furnish makes what goroutines sleep at.
func (p *Poller) furnish() (err error) {
	fd := linkFd(p.cfg.Link)
	if err := p.helps.furnish(fd); err != nil {
		return err
	}
	if err := p.leads.furnish(fd); err != nil {
		return errors.Join(err, p.helps.close())
	}
	if p.alarm, err = newSleeper(-1); err != nil {
		return errors.Join(err, p.helps.close(), p.leads.close())
	}
	p.rouse = p.leads.nudge
	return nil
}

// linkFd is the descriptor that announces l's frames, or -1.
func linkFd(l link.Caps) int {
	if l.Fd == nil {
		return -1
	}
	return l.Fd()
}

var epoch = time.Now()

// Now is the clock of every engine in this process: monotonic, from the start of the process.
func Now() clock.Time { return clock.Time(time.Since(epoch)) }

// Do runs f while no other goroutine polls, and polls afterwards. f must not wait for anything that needs the engine.
func (p *Poller) Do(f func(now clock.Time)) {
	p.mu.Lock()
	p.call(f)
	p.again.Store(true)
	p.unlock()
}

// call runs f with the lock held, and gives the lock back if f panics.
func (p *Poller) call(f func(now clock.Time)) {
	done := false
	defer func() {
		if !done {
			p.mu.Unlock()
		}
	}()
	f(Now())
	done = true
}

// Enter gives the caller the engine, for a moment: Leave must follow. It waits while another goroutine polls. A caller that enters counts
// as one that polls, so that the helper stays away. It is false when the poller is closed.
func (p *Poller) Enter() bool {
	if !p.mu.TryLock() {
		p.enterLate()
	}
	if p.closed.Load() { // perhaps while this waited: what the engine stands on is closed as well
		p.mu.Unlock()
		return false
	}
	if p.duty.Load() != nobody {
		p.enterBeside()
	}
	return true
}

// enterBeside is Enter while a waiter or the helper has the duty.
func (p *Poller) enterBeside() {
	if !p.duty.CompareAndSwap(helper, nobody) {
		p.company.note(clock.Time(p.polled.Load()))
	}
}

// enterLate is Enter where the engine is taken.
func (p *Poller) enterLate() {
	p.wanted.Add(1)
	defer p.wanted.Add(-1)
	for range enterTries {
		if p.mu.TryLock() {
			return
		}
	}
	p.mu.Lock()
}

// enterTries is how often Enter tries before it sleeps: for as long as a poll of little work takes.
const enterTries = 100

// Poll polls in between.
func (p *Poller) Poll() {
	p.engine.RingAll()
	p.poll(Now())
}

// LeavePolling is Leave with a poll first.
func (p *Poller) LeavePolling() {
	p.again.Store(true)
	p.unlock()
}

// Leave gives the engine back. It must be polled at next, or before.
func (p *Poller) Leave(next clock.Time) {
	if int64(next) < p.next.Load() {
		p.next.Store(int64(next))
	}
	p.unlock()
}

// Kick says that a command has been posted. If no goroutine is polling it polls once, here and now: with nothing queued, a
// send enters the engine and leaves by the link within this call. If one is, it polls once more. It never blocks.
func (p *Poller) Kick() {
	p.Began()
	p.again.Store(true)
	if p.mu.TryLock() {
		p.unlock()
	}
}

// Began notes that a caller has begun an operation, which the engine sees by itself when it is polled. While a waiter polls that is another goroutine.
func (p *Poller) Began() {
	if p.duty.Load() == waiter {
		p.company.note(clock.Time(p.polled.Load()))
	}
}

// Wake has all waiters look again at what they wait for.
func (p *Poller) Wake() { p.waiters.WakeReady() }

// unlock polls if that was asked for while the lock was held, gives the lock back, and wakes the waiters that are ready.
func (p *Poller) unlock() (woken bool) {
	for {
		if p.again.Load() && p.again.Swap(false) && !p.closed.Load() { // the load alone costs next to nothing
			p.engine.RingAll()
			p.poll(Now())
		}
		p.mu.Unlock()
		if p.waiters.Len() > 0 {
			if p.waiters.WakeReady() {
				woken = true
				p.returns.Store(0) // others have what they wait for, too
			}
		}
		p.nudgeIfLate()
		if !p.again.Load() || !p.mu.TryLock() {
			return woken // if the lock is taken, its holder comes by here and sees again
		}
	}
}

// poll polls with the lock held.
func (p *Poller) poll(now clock.Time) (work int, next clock.Time) {
	if p.closed.Load() {
		return 0, clock.Never
	}
	if p.cfg.Link.Awake != nil && p.helps.until.Load() == 0 && p.leads.until.Load() == 0 { // not while one sleeps, which others' polls do not wake
		p.cfg.Link.Awake()
	}
	work, next = p.engine.Poll(now)
	p.polled.Store(int64(now))
	return work, p.due(now, next)
}

// due notes when the engine has to be polled again, and returns when the caller should.
func (p *Poller) due(now, next clock.Time) clock.Time {
	due := next
	if p.engine.Listening() { // a post does not ring now, so that the queue has to be looked at
		next, due = min(next, now), 0
	}
	if int64(due) != p.next.Load() { // an atomic store costs as much as ten loads
		p.next.Store(int64(due))
	}
	return next
}

// nudgeIfLate wakes those that would sleep past the engine's next deadline.
func (p *Poller) nudgeIfLate() {
	next := p.next.Load()
	p.helps.nudgeFor(next)
	p.leads.nudgeFor(next)
}

// frameArrived is what a link without a descriptor calls. It wakes those that are parked.
func (p *Poller) frameArrived() {
	p.arrived.Store(true)
	p.helps.nudgeFor(0)
	p.leads.nudgeFor(0)
}

// callHelper wakes the helper wherever it sleeps, and has its next sleep end at once. What it shall see must be stored before.
func (p *Poller) callHelper() {
	p.helps.nudge()
	p.alarm.wake()
}

// Close ends the helper and every Wait. It does not touch the engine: the caller closes that with Do first.
// The engine is not polled after Close has returned.
func (p *Poller) Close() error {
	if p.closed.Swap(true) {
		return nil
	}
	p.callHelper()
	p.waiters.WakeAll()
	if p.stopped != nil {
		<-p.stopped
	}
	p.mu.Lock() // no goroutine is inside Poll any more
	defer p.mu.Unlock()
	return errors.Join(p.helps.close(), p.leads.close(), p.alarm.close())
}

// Wait returns nil as soon as ready returns true. It ends with ctx's error when ctx is done, and with ErrClosed when
// the poller is closed. While no other goroutine polls, it polls.
//
// ready is called often, from any goroutine that polls: it may load atomics and nothing that blocks.
func (p *Poller) Wait(ctx context.Context, ready func() bool) error {
	vain := false // it has brought others what they wait for, again and again
	for {
		if ready() {
			p.handOver()
			return nil
		}
		if p.closed.Load() {
			return ErrClosed
		}
		var err error
		if !p.takeDuty() {
			err = p.follow(ctx, ready, vain)
		} else if to, parks := p.lead(ctx, ready); parks {
			if to == helper {
				p.callHelper()
			}
			vain = vain || to == nobody
			err = p.park(ctx, p.sleeper(ready, vain), ready)
		} else {
			err = ctx.Err()
		}
		if err != nil {
			p.handOver()
			return err
		}
	}
}

// sleeper lists a waiter that is about to sleep.
func (p *Poller) sleeper(ready func() bool, vain bool) *idle.Waiter {
	if vain {
		return p.waiters.AddInVain(ready)
	}
	return p.waiters.Add(ready)
}

// takeDuty makes the caller the one that polls, unless another waiter is. The helper gives way.
func (p *Poller) takeDuty() bool {
	return p.duty.CompareAndSwap(nobody, waiter) || p.duty.CompareAndSwap(helper, waiter)
}

// handOver sees to it that a waiter or the helper polls for those that still wait, when a waiter leaves. One that has been back soon again
// and again is expected to be so: to wake another meanwhile would have the two change places with each message. If it stays away,
// the helper takes over after its next look.
func (p *Poller) handOver() {
	if p.duty.Load() == nobody && p.waiters.Len() > 0 && p.returns.Load() < faithful {
		p.waiters.WakeOne()
	}
}

// A waiter counts as back soon within backSoon, and is expected back when faithful times in a row it was.
const (
	backSoon = 100 * time.Microsecond
	faithful = 8
)

// back notes that a waiter takes the duty.
func (p *Poller) back(now clock.Time) {
	switch n := p.returns.Load(); {
	case now.Sub(clock.Time(p.left.Load())) > backSoon:
		p.returns.Store(0)
	case n < faithful:
		p.returns.Store(n + 1)
	}
}

// lead polls until ready, until ctx is done, or until it has been idle for so long that the helper had better park.
// It returns the next holder of the duty, and whether the waiter is to sleep.
func (p *Poller) lead(ctx context.Context, ready func() bool) (to int32, parks bool) {
	p.company.share()
	idle.Enter()
	defer idle.Leave()
	ended := ctx.Done()
	now := Now() // the clock is looked at once for each poll: that costs a quarter as much as the poll
	p.back(now)
	begun, since := now, now
	brought := 0 // how often the polls brought others what they wait for
	for yielded, first := since, true; ; now, first = Now(), false {
		if now.Sub(yielded) > shareAfter && (idle.Crowded() || now.Sub(yielded) > shareAlways) {
			runtime.Gosched()
			now = Now() // others have read the clock, too: for the engine it must not go back
			yielded = now
		}
		if p.mu.TryLock() {
			if work := p.turn(now, first); work > 0 {
				since = now
				p.pace.Work(now)
			}
			if p.unlock() {
				brought++
				runtime.Gosched() // here and now those run that were woken, rather than when another core finds them
			} else if p.wanted.Load() > 0 {
				runtime.Gosched() // likewise one that slept until the lock was free, or the next poll has it again
			}
		} else { // a caller kicks, or Do runs
			idle.Relax()
		}
		done := ready()
		if done {
			p.cameSoon(begun, now)
			p.left.Store(int64(now))
		}
		if done || isDone(ended) || p.closed.Load() {
			p.duty.Store(nobody)
			return nobody, false
		}
		if brought >= faithful { // they had better poll themselves
			p.returns.Store(faithful)
			p.duty.Store(nobody)
			return nobody, true
		}
		if now.Sub(since) >= p.cfg.Awake || p.pace.Rest(now, p.cfg.yield, Now) {
			if p.nod(ctx, ready) {
				continue
			}
			p.duty.Store(helper)
			return helper, true
		}
		if p.apart.due(now, p.pace.Given()) && !idle.Crowded() && p.apart.room() {
			p.apart.move()
			p.pace.Moved()
		}
	}
}

// turn polls with the lock held, and waits a little for a frame. A caller that begins to wait and knows of nothing else that is due looks for
// the frame first: the answer may be there by the time that a poll for nothing is over.
func (p *Poller) turn(now clock.Time, first bool) (work int) {
	if !first || clock.Time(p.next.Load()) <= now || !p.glance() {
		work, next := p.poll(now)
		if work > 0 || next <= now || !p.glance() {
			return work
		}
	}
	work, _ = p.poll(now) // it is hardly later: the clock costs as much as ten glances
	return work
}

// glances is how often a poller looks at a link that can be glanced at before it polls again, some 300 ns: a poll that
// finds nothing takes as long, and with that much less at hand for the frame that comes meanwhile.
const glances = 64

// glance waits a little for a frame, with the lock held. It ends at once if a caller wants the engine to look at commands.
func (p *Poller) glance() bool {
	glance := p.cfg.Link.Glance
	if glance == nil || p.closed.Load() { // Close waits for the lock, and then the link is closed
		return false
	}
	for range glances {
		if glance() {
			return true
		}
		if p.asked() {
			return false
		}
	}
	return false
}

// asked reports whether another caller wants the engine.
func (p *Poller) asked() bool { return p.again.Load() || p.wanted.Load() > 0 }

func isDone(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}

// follow sleeps while another waiter has the duty.
func (p *Poller) follow(ctx context.Context, ready func() bool, vain bool) error {
	w := p.sleeper(ready, vain)
	if p.duty.Load() != waiter { // looked at again behind add: a waiter that gives up the duty from now on will find w
		p.waiters.Remove(w)
		return nil
	}
	return p.park(ctx, w, ready)
}

// park sleeps until w is woken: because it is ready, or to take over the duty, or because of Close. The last look is
// behind add: what becomes true after it is found by the goroutine that makes it true.
func (p *Poller) park(ctx context.Context, w *idle.Waiter, ready func() bool) error {
	defer p.waiters.Remove(w)
	if ready() || p.closed.Load() {
		return nil
	}
	select {
	case <-w.Woken():
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
