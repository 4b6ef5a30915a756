// Package poller runs one engine on the real clock.
//
// Embedded, the engine belongs to the holder of the lock, and one goroutine has the duty to keep
// polling:
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
// Before a waiter gives the duty to the helper it sleeps with the duty for a moment (nod): if
// other threads want the processor, the waiter then has an answer as soon as the kernel wakes
// it.
//
// If other goroutines of the program use the NIC while one polls (company), the poller lets them
// run before it begins.
//
// A waiter that does not have the duty sleeps on a channel. After each poll, the polling
// goroutine looks which waiters are ready. If a waiter's polls repeatedly bring others their
// results, and itself nothing, it gives the duty up, and does not get it again before it has its
// own result. A waiter that leaves and is back soon each time finds the duty free. So progress
// does not depend on callers, and an idle process costs no CPU.
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

// Engine is the part of a NIC that a poller needs. internal/nic's Engine is one.
type Engine interface {
	// Poll does all pending work. It returns how much it did, and when it must run again even if
	// nothing comes in from outside.
	Poll(now clock.Time) (work int, next clock.Time)
	// Ring reports that the process at slot posted a command though its queue was no longer
	// listened to.
	Ring(slot uint16)
	// RingAll is Ring for every process.
	RingAll()
	// Listening reports whether the queue of any process is listened to, so that its posts do
	// not ring.
	Listening() bool
	// EndListening makes those processes ring for their next commands that have no command
	// queued now.
	EndListening()
	// Told reports whether the last poll had something to tell a process.
	Told() bool
	// Answered returns the number of messages that programs of the NIC have handled. No caller
	// waits for those.
	Answered() uint64
	// WaitsAt returns the processor at which the only process that is listened to waits awake;
	// -1 if there is no such process.
	WaitsAt() int
}

// ErrClosed is the error of a Wait when the poller is closed.
var ErrClosed = errors.New("poller: closed")

// Config holds the settings of a Poller. The zero value is valid.
type Config struct {
	// The capabilities of the engine's link: its Fd or Notify announces frames.
	Link  link.Caps
	Awake time.Duration // how long to poll without work before parking; zero means idle.Awake

	yield func() // lets other threads run; nil means idle.Relax
}

// The holder of the duty to poll.
const (
	nobody int32 = iota
	waiter
	helper
)

// takeover is how long no waiter must have polled for the helper to take over, when it checks.
const takeover = 20 * time.Microsecond

// shareAfter is how long a busy poller keeps its processor from other goroutines of the program,
// if pollers leave them no other. If pollers do leave one, a goroutine may compute on it, and
// the others wait for shareAlways. Sharing wakes another thread to go on with the poller. That
// takes 5 µs, and more on the core on which the thread was woken.
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
	apart    apart        // of that waiter
	slow     idle.Pace    // of the helper
	answers  uint64       // of programs, at the helper's last look
	answered clock.Time   // when answers last grew
	again    atomic.Bool  // a command was posted: the holder of mu polls once more before it ends
	wanted   atomic.Int32 // goroutines that are about to sleep until mu is free
	closed   atomic.Bool

	patience atomic.Int32  // looks at the link that Linger takes now
	lingers  int32         // the most looks
	soon     time.Duration // a frame within this time makes Linger worthwhile
	unpolled int           // frames that were taken though a poll was due; guarded by mu

	polled atomic.Int64 // when the engine was polled last
	next   atomic.Int64 // when it must be polled again; 0 is always
	// The link announced a frame since the last poll of a goroutine that was about to sleep.
	arrived atomic.Bool

	left    atomic.Int64 // when a waiter last gave up the duty because it had its result
	returns atomic.Int32 // how often in a row a waiter was back soon after that

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

// furnish makes the places at which goroutines sleep.
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

// linkFd returns the descriptor that announces l's frames, or -1.
func linkFd(l link.Caps) int {
	if l.Fd == nil {
		return -1
	}
	return l.Fd()
}

var epoch = time.Now()

// Now returns the time of every engine in this process: monotonic, from the start of the
// process.
func Now() clock.Time { return clock.Time(time.Since(epoch)) }

// Do runs f while no other goroutine polls, and polls afterwards. f must not wait for anything
// that needs the engine.
func (p *Poller) Do(f func(now clock.Time)) {
	p.mu.Lock()
	p.call(f)
	p.again.Store(true)
	p.unlock()
}

// call runs f with the lock held, and releases the lock if f panics.
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

// Enter gives the caller the engine, for a moment: Leave must follow. It waits while another
// goroutine polls. A caller that enters counts as one that polls, so that the helper stays away.
// Enter returns false if the poller is closed.
func (p *Poller) Enter() bool {
	if !p.mu.TryLock() {
		p.enterLate()
	}
	if p.closed.Load() { // perhaps during the wait: the engine's resources are closed as well
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

// enterLate is Enter if the engine is taken.
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

// Poll polls between Enter and Leave.
func (p *Poller) Poll() {
	p.engine.RingAll()
	p.poll(Now())
}

// LeavePolling is Leave with a poll first.
func (p *Poller) LeavePolling() {
	p.again.Store(true)
	p.unlock()
}

// Leave gives the engine back. The engine must be polled at next, or before.
func (p *Poller) Leave(next clock.Time) {
	if int64(next) < p.next.Load() {
		p.next.Store(int64(next))
	}
	p.unlock()
}

// Kick announces that a command has been posted. If no goroutine is polling, Kick itself polls
// once: with nothing queued, a send enters the engine and leaves by the link within this call.
// If one is, that goroutine polls once more. Kick never blocks.
func (p *Poller) Kick() {
	p.Began()
	p.again.Store(true)
	if p.mu.TryLock() {
		p.unlock()
	}
}

// Began notes that a caller has begun an operation, which the engine finds when it is polled. If
// a waiter polls, that is another goroutine.
func (p *Poller) Began() {
	if p.duty.Load() == waiter {
		p.company.note(clock.Time(p.polled.Load()))
	}
}

// Wake makes all waiters check their conditions again.
func (p *Poller) Wake() { p.waiters.WakeReady() }

// unlock polls if that was requested while the lock was held, releases the lock, and wakes the
// waiters that are ready.
func (p *Poller) unlock() (woken bool) {
	for {
		// The load alone costs next to nothing.
		if p.again.Load() && p.again.Swap(false) && !p.closed.Load() {
			p.engine.RingAll()
			p.poll(Now())
		}
		p.mu.Unlock()
		if p.waiters.Len() > 0 {
			if p.waiters.WakeReady() {
				woken = true
				p.returns.Store(0) // others have their results, too
			}
		}
		p.nudgeIfLate()
		if !p.again.Load() || !p.mu.TryLock() {
			return woken // if the lock is taken, its holder gets here and looks again
		}
	}
}

// poll polls with the lock held.
func (p *Poller) poll(now clock.Time) (work int, next clock.Time) {
	if p.closed.Load() {
		return 0, clock.Never
	}
	// Not while a goroutine sleeps: the polls of others do not wake it.
	if p.cfg.Link.Awake != nil && p.helps.until.Load() == 0 && p.leads.until.Load() == 0 {
		p.cfg.Link.Awake()
	}
	work, next = p.engine.Poll(now)
	p.polled.Store(int64(now))
	return work, p.due(now, next)
}

// due notes when the engine has to be polled again, and returns when the caller should.
func (p *Poller) due(now, next clock.Time) clock.Time {
	due := next
	if p.engine.Listening() { // a post does not ring now, so the queue has to be looked at
		next, due = min(next, now), 0
	}
	if int64(due) != p.next.Load() { // an atomic store costs as much as ten loads
		p.next.Store(int64(due))
	}
	return next
}

// nudgeIfLate wakes the sleepers that would sleep past the engine's next deadline.
func (p *Poller) nudgeIfLate() {
	next := p.next.Load()
	p.helps.nudgeFor(next)
	p.leads.nudgeFor(next)
}

// frameArrived is called by a link without a descriptor. It wakes the goroutines that are
// parked.
func (p *Poller) frameArrived() {
	p.arrived.Store(true)
	p.helps.nudgeFor(0)
	p.leads.nudgeFor(0)
}

// callHelper wakes the helper wherever it sleeps, and makes its next sleep end at once. Store
// what the helper must see before the call.
func (p *Poller) callHelper() {
	p.helps.nudge()
	p.alarm.wake()
}

// Close ends the helper and every Wait. It does not touch the engine: the caller closes that
// with Do first. The engine is not polled after Close has returned.
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

// Wait returns nil as soon as ready returns true. It returns ctx's error when ctx is done, and
// ErrClosed when the poller is closed. While no other goroutine polls, it polls.
//
// ready is called often, from any goroutine that polls: it may load atomics and must not block.
func (p *Poller) Wait(ctx context.Context, ready func() bool) error {
	vain := false // its polls have repeatedly brought only others their results
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

// handOver makes sure, when a waiter leaves, that a waiter or the helper polls for those that
// still wait. If the leaving waiter has been back soon several times in a row, it is expected to
// come back again: to wake another meanwhile would make the two change places with each message.
// If it stays away, the helper takes over after its next check.
func (p *Poller) handOver() {
	if p.duty.Load() == nobody && p.waiters.Len() > 0 && p.returns.Load() < faithful {
		p.waiters.WakeOne()
	}
}

// A waiter counts as back soon within backSoon. After faithful times in a row it is expected
// back.
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

// lead polls until ready, until ctx is done, or until it has been idle for so long that the
// helper should park. It returns the next holder of the duty, and whether the waiter is to
// sleep.
func (p *Poller) lead(ctx context.Context, ready func() bool) (to int32, parks bool) {
	p.company.share()
	idle.Enter()
	defer idle.Leave()
	ended := ctx.Done()
	now := Now() // one look at the clock for each poll: it costs a quarter as much as the poll
	p.back(now)
	begun, since := now, now
	brought := 0 // how often the polls brought others their results
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
				// Runs the woken goroutines on this processor now, rather than when another core
				// finds them.
				runtime.Gosched()
			} else if p.wanted.Load() > 0 {
				// Also runs one that slept until the lock was free, or the next poll would take
				// the lock again.
				runtime.Gosched()
			}
		} else { // another caller kicks, or Do runs
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
		if brought >= faithful { // the others should poll themselves
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

// turn polls with the lock held, and waits a little for a frame. A caller that begins to wait,
// with nothing else known to be due, looks for the frame first: the answer may arrive during a
// poll that finds nothing.
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

// glances is how often a poller looks at a link with Glance before it polls again, some 300 ns.
// A poll that finds nothing takes as long, and leaves less in the caches for a frame that
// arrives meanwhile.
const glances = 64

// glance waits a little for a frame, with the lock held. It ends at once if a caller wants the
// engine to look at commands.
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
	// Checked again after Add: a waiter that gives up the duty from now on will find w.
	if p.duty.Load() != waiter {
		p.waiters.Remove(w)
		return nil
	}
	return p.park(ctx, w, ready)
}

// park sleeps until w is woken: because it is ready, or to take over the duty, or because of
// Close. Its last check comes after Add: a goroutine that makes a condition true after that
// finds w.
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
