package idle

import (
	"context"
	"sync"
	"sync/atomic"
)

// Waiter is one goroutine that sleeps until its condition holds, or until it is wanted.
type Waiter struct {
	ready func() bool
	woken chan struct{} // holds one token once the goroutine has been woken
	rouse func()        // called then, for a goroutine that does not sleep at woken; may be nil
	vain  bool          // WakeOne skips it
	at    int           // index in Waiters.list; -1 if it is not there
}

// Woken returns a channel that holds a token once the goroutine has been woken. The Waiter is
// then off the list, but Remove must still be called.
func (w *Waiter) Woken() <-chan struct{} { return w.woken }

// Waiters lists the goroutines that sleep. A goroutine that makes conditions true looks through
// the list each time. The list is short, since a process sleeps in few places. The zero value is
// an empty list.
type Waiters struct {
	// Called with true when the list ceases to be empty, before Add returns, and with false when
	// it is empty again; may be nil.
	Sleeping func(bool)

	count atomic.Int32 // len(list), to be read without the lock

	mu   sync.Mutex
	list []*Waiter
	free []*Waiter // kept for reuse, so that sleeping allocates nothing in the long run
}

// Add puts a goroutine on the list. The goroutine then checks for the last time whether it has
// to sleep.
func (l *Waiters) Add(ready func() bool) *Waiter { return l.AddRoused(ready, nil) }

// AddInVain is Add for a goroutine that WakeOne has woken, and whose polls brought others their
// results and itself nothing.
func (l *Waiters) AddInVain(ready func() bool) *Waiter {
	w := l.Add(ready)
	l.mu.Lock()
	defer l.mu.Unlock()
	w.vain = true
	return w
}

// AddRoused is Add for a goroutine that does not sleep at Woken: rouse ends its sleep, and must
// not block.
func (l *Waiters) AddRoused(ready func() bool, rouse func()) *Waiter {
	l.mu.Lock()
	defer l.mu.Unlock()
	var w *Waiter
	if n := len(l.free); n > 0 {
		w, l.free = l.free[n-1], l.free[:n-1]
	} else {
		w = &Waiter{woken: make(chan struct{}, 1)}
	}
	w.ready, w.rouse, w.vain, w.at = ready, rouse, false, len(l.list)
	l.list = append(l.list, w)
	if l.count.Add(1) == 1 && l.Sleeping != nil {
		l.Sleeping(true)
	}
	return w
}

// Len returns how many sleep.
func (l *Waiters) Len() int { return int(l.count.Load()) }

// Remove takes w off the list if it has not been woken, and discards a token that came too late.
func (l *Waiters) Remove(w *Waiter) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if w.at >= 0 {
		l.drop(w)
	}
	select {
	case <-w.woken:
	default:
	}
	w.ready, w.rouse = nil, nil
	l.free = append(l.free, w)
}

// drop takes w off the list, with the lock held.
func (l *Waiters) drop(w *Waiter) {
	last := len(l.list) - 1
	l.list[w.at] = l.list[last]
	l.list[w.at].at = w.at
	l.list[last] = nil
	l.list = l.list[:last]
	w.at = -1
	if l.count.Add(-1) == 0 && l.Sleeping != nil {
		l.Sleeping(false)
	}
}

// wake drops w and lets its goroutine run, with the lock held. It is off the list then, so it is
// not woken twice.
func (l *Waiters) wake(w *Waiter) {
	l.drop(w)
	w.woken <- struct{}{}
	if w.rouse != nil {
		w.rouse()
	}
}

// WakeReady wakes every waiter whose condition holds and reports whether there was any.
func (l *Waiters) WakeReady() (any bool) {
	if l.count.Load() == 0 {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := len(l.list) - 1; i >= 0; i-- { // from the end: drop moves the last into the gap
		if w := l.list[i]; w.ready() {
			l.wake(w)
			any = true
		}
	}
	return any
}

// Wait sleeps until ready returns true, or until ctx is done, and then returns ctx's error. The
// code that makes ready true calls WakeReady.
func (l *Waiters) Wait(ctx context.Context, ready func() bool) error {
	for !ready() {
		if err := l.sleep(ctx, ready); err != nil {
			return err
		}
	}
	return nil
}

func (l *Waiters) sleep(ctx context.Context, ready func() bool) error {
	w := l.Add(ready)
	defer l.Remove(w)
	if ready() { // no WakeReady reports a condition that became true before Add
		return nil
	}
	select {
	case <-w.Woken():
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// WakeOne wakes the first waiter on the list that AddInVain has not added, to take over the
// duty.
func (l *Waiters) WakeOne() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, w := range l.list {
		if !w.vain {
			l.wake(w)
			return
		}
	}
}

// WakeAll wakes every waiter.
func (l *Waiters) WakeAll() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.list) > 0 {
		l.wake(l.list[len(l.list)-1])
	}
}
