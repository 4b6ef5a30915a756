package nic

import (
	"testing"
	"time"

	"github.com/weftnet/weft/internal/link/fault"
)

func TestTheEngineKnowsWhereItsOnlyProcessWaits(t *testing.T) {
	f := newFabric(t, 1, fault.Config{Seed: 1})
	a := f.process(0, "a/0")
	e := a.e
	e.EndListening()
	if at := e.WaitsAt(); at != -1 {
		t.Errorf("waits at %d, and no process is listened to", at)
	}
	listens := func(who *tester) { e.Ring(who.slot); f.step() }
	listens(a)
	if at := e.WaitsAt(); at != -1 {
		t.Errorf("waits at %d, and has not said that it waits", at)
	}
	if a.v.SetWaitsAt(3); e.WaitsAt() != 3 {
		t.Errorf("waits at %d; expected 3", e.WaitsAt())
	}
	b := f.process(0, "b/0")
	listens(b)
	listens(a)
	if at := e.WaitsAt(); at != -1 {
		t.Errorf("waits at %d, and two are listened to", at)
	}
}

func TestTheEngineSaysWhetherAPollToldAProcessSomething(t *testing.T) {
	f := newFabric(t, 1, fault.Config{Seed: 1})
	a, b := f.process(0, "a/0"), f.process(0, "b/0")
	f.known("a/0", "b/0")
	f.until(time.Second, "a poll without news", func() bool { return !a.e.Told() })
	r := b.recv("a/0", 1, 0, make([]byte, 8))
	if f.step(); a.e.Told() {
		t.Error("a receive was posted, which is news to no process")
	}
	a.send("b/0", 1, 0, []byte("news"))
	f.until(time.Second, "the message", func() bool {
		done := b.done(true, r)
		if done && !a.e.Told() {
			t.Error("a receive has ended, and its process was not told")
		}
		return done
	})
}
