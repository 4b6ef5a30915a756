package poller

import (
	"sync"
	"sync/atomic"
)

// waiting is one goroutine that sleeps in Wait.
type waiting struct {
	ready func() bool
	woken chan struct{} // holds one token once the goroutine has been woken
	at    int           // place in waitList.list; -1 when not in it
}

// waitList has the goroutines that sleep. The one who polls looks through it after every poll; it is short, since a
// process sleeps in few places.
type waitList struct {
	count atomic.Int32 // len(list), to be read without the lock

	mu   sync.Mutex
	list []*waiting
	free []*waiting // kept for the next, so that sleeping allocates nothing in the long run
}

// add puts a goroutine on the list, before it looks for the last time whether it has to sleep.
func (l *waitList) add(ready func() bool) *waiting {
	l.mu.Lock()
	defer l.mu.Unlock()
	var w *waiting
	if n := len(l.free); n > 0 {
		w, l.free = l.free[n-1], l.free[:n-1]
	} else {
		w = &waiting{woken: make(chan struct{}, 1)}
	}
	w.ready, w.at = ready, len(l.list)
	l.list = append(l.list, w)
	l.count.Add(1)
	return w
}

// remove takes w off the list if nobody has, and forgets a token that came too late.
func (l *waitList) remove(w *waiting) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if w.at >= 0 {
		l.drop(w)
	}
	select {
	case <-w.woken:
	default:
	}
	w.ready = nil
	l.free = append(l.free, w)
}

// drop takes w off the list, with the lock held.
func (l *waitList) drop(w *waiting) {
	last := len(l.list) - 1
	l.list[w.at] = l.list[last]
	l.list[w.at].at = w.at
	l.list[last] = nil
	l.list = l.list[:last]
	w.at = -1
	l.count.Add(-1)
}

// wake drops w and lets its goroutine run, with the lock held. Off the list, it is woken no second time.
func (l *waitList) wake(w *waiting) {
	l.drop(w)
	w.woken <- struct{}{}
}

// wakeReady wakes everybody whose wait is over and reports whether there was anybody.
func (l *waitList) wakeReady() (any bool) {
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

// wakeOne wakes the one who sleeps longest in place 0, to take over the duty.
func (l *waitList) wakeOne() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.list) > 0 {
		l.wake(l.list[0])
	}
}

// wakeAll wakes everybody.
func (l *waitList) wakeAll() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.list) > 0 {
		l.wake(l.list[len(l.list)-1])
	}
}
