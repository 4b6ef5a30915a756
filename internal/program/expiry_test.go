package program

import (
	"testing"
	"time"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/limits"
)

// alarm is an engine that calls Expire only at the earliest time that the table has asked for.
type alarm struct {
	*lone
	at clock.Time
}

func (a *alarm) CheckAt(at clock.Time) { a.at = clock.Min(a.at, at) }

// wake lets the time pass up to end.
func (a *alarm) wake(n *nicTest, end clock.Time) {
	for calls := 0; a.at <= end; calls++ {
		if calls == 100 {
			n.t.Fatal("Expire is called again and again")
		}
		a.now, a.at = max(a.now, a.at), clock.Never
		n.Expire()
	}
	a.now = end
}

// A preparation may be renewed by its commit, or begin later than another. The engine is asked to
// check each of them at its end.
func TestEachPreparationIsCheckedAtItsEnd(t *testing.T) { // PANIC-2
	const half = limits.PrepareWithin / 2
	for what, begin := range map[string]func(n *nicTest, wait func()){
		"prepared":          func(n *nicTest, _ func()) { n.prepare(oldSource, true) },
		"committed at once": func(n *nicTest, _ func()) { n.commit(oldSource, true) },
		"prepared after another": func(n *nicTest, wait func()) {
			if _, _, err := n.Prepare(Spec{Module: module(n.t, shower)}); err != nil {
				n.t.Fatal(err)
			}
			wait()
			n.prepare(oldSource, true)
		},
		"committed later": func(n *nicTest, wait func()) {
			key := n.prepare(oldSource, true)
			wait()
			if _, _, err := n.Commit(key); err != nil {
				n.t.Fatal(err)
			}
		},
	} {
		n := newNIC(t)
		a := &alarm{n.engine, clock.Never}
		n.nic = a
		n.put(5, oldSource)
		begin(n, func() { a.wake(n, a.now.Add(half)) })
		begun := a.now
		a.wake(n, begun.Add(limits.PrepareWithin-time.Nanosecond))
		if len(n.prepared) != 1 {
			t.Errorf("%s: %d preparations are left before the last one ends", what, len(n.prepared))
		}
		a.wake(n, begun.Add(limits.PrepareWithin))
		if err := n.Leaks(); err != nil || len(n.machine.IDs()) != 1 || !n.running(5) {
			t.Errorf("%s: %v; %d programs are in the machine", what, err, len(n.machine.IDs()))
		}
	}
}
