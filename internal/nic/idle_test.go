package nic

import (
	"testing"
	"time"

	"github.com/weftnet/weft/internal/link/fault"
	"github.com/weftnet/weft/internal/vni"
)

// rest advances the time without polling any engine, as when every engine has said that it waits
// for nothing.
func (f *fabric) rest(d time.Duration) { f.now = f.now.Add(d) }

// Decision 7: only silence of a probed peer counts.
func TestAPairThatWasIdleForLongIsStillOpenWhenItIsNeeded(t *testing.T) {
	for _, c := range []struct {
		name string
		need func(a, b *tester) func() bool
	}{
		{"by a receive from a named process", func(a, b *tester) func() bool {
			r := a.recv("b/0", 1, 0, make([]byte, 1))
			return func() bool { return a.done(true, r) }
		}},
		{"by a process that registers", func(a, b *tester) func() bool {
			a.f.process(0, "late/0")
			return func() bool { return false }
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFabric(t, 2, fault.Config{Seed: 1})
			a, b := f.process(0, "a/0"), f.process(1, "b/0")
			f.known("a/0", "b/0")
			for range 5000 {
				f.step()
			}
			f.rest(time.Minute)
			ended := c.need(a, b)
			before := a.e.Count(vni.RelDownUnreachable)
			for end := f.now.Add(5 * time.Second); f.now < end; {
				f.step()
			}
			if ended() || a.e.Count(vni.RelDownUnreachable) != before {
				t.Fatal("the other NIC was given up though it answers")
			}
		})
	}
}
