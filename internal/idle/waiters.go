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
	rouse func()        // called then, for a goroutine that sleeps elsewhere than at woken; may be nil
	vain  bool          // WakeOne passes it over
	at    int           // place in Waiters.list; -1 when not in it
}

// Woken holds a token once the goroutine has been woken. It is then off the list, but still has to Remove itself.
func (w *Waiter) Woken() <-chan struct{} { return w.woken }

// Waiters has the goroutines that sleep. A goroutine that makes conditions true looks through it each time; it is short,
// since a process sleeps in few places. The zero value is an empty list.
type Waiters struct {
	Sleeping func(bool) // told when the list ceases to be empty, before Add returns, and when it is empty again; may be nil

	count atomic.Int32 // len(list), to be read without the lock

	mu   sync.Mutex
	list []*Waiter
	free []*Waiter // kept for the next, so that sleeping allocates nothing in the long run
}

// Add puts a goroutine on the list, before it looks for the last time whether it has to sleep.
func (l *Waiters) Add(ready func() bool) *Waiter { return l.AddRoused(ready, nil) }

// AddInVain is Add for a goroutine that has had what WakeOne gives, and brought with it others what they wait for, and itself nothing.
func (l *Waiters) AddInVain(ready func() bool) *Waiter {
	w := l.Add(ready)
	l.mu.Lock()
	defer l.mu.Unlock()
	w.vain = true
	return w
}

// AddRoused is Add for a goroutine that does not sleep at Woken: rouse, which must not block, ends its sleep.
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

// Len is how many sleep.
func (l *Waiters) Len() int { return int(l.count.Load()) }

// Remove takes w off the list if it has not been woken, and forgets a token that came too late.
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

// wake drops w and lets its goroutine run, with the lock held. Off the list, it is woken no second time.
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

// Wait sleeps until ready is true, or until ctx ends, whose error it then returns. The code that makes ready true calls WakeReady.
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
	if ready() { // no WakeReady tells of what became true before Add
		return nil
	}
	select {
	case <-w.Woken():
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// WakeOne wakes the first of the list, to take over the duty, but none that had it in vain.
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
