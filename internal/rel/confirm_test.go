package rel

import (
	"container/heap"
	"fmt"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/mutate"
	"github.com/weftnet/weft/internal/wire"
)

// newReliable returns two modules with an open session over a link that loses nothing.
func newReliable(t *testing.T, d mutate.Defect) (w *world, a, b *node, e *Endpoint) {
	w = newWorld(t, 1, weather{})
	change := func(c *Config) { c.Reliable, c.Tagged, c.Defect = true, false, d }
	a, b = w.add(1, change), w.add(2, change)
	b.open(a)
	e = a.open(b)
	e.Connect(w.now)
	a.wake()
	w.runUntil(time.Second, "a session", func() bool { return e.Up() && b.ups == 1 })
	w.run(time.Millisecond)
	return w, a, b, e
}

// confirmed is chunks with Confirm set.
func confirmed(id wire.FragmentID, n int) *Fragment {
	f := chunks(id, n)
	f.Confirm = true
	return f
}

// postAll posts the permitted part of a fragment.
func (n *node) postAll(e *Endpoint, f *Fragment) {
	for e.Post(n.w.now, f, 8) > 0 {
	}
	n.wake()
}

// bytesOf counts the bytes of chunks that n gets.
func (n *node) bytesOf() *int {
	sum := new(int)
	n.deliver = func(_ *Endpoint, r wire.Record) { *sum += len(r.Payload()) }
	return sum
}

func TestAFragmentOverAReliableLinkIsReleasedWhenThePeerHasAllOfIt(t *testing.T) {
	for _, d := range []mutate.Defect{mutate.None, mutate.CommittedBelieved} {
		w, a, b, e := newReliable(t, d)
		got := b.bytesOf()
		atRelease := -1
		a.onFree = func(f *Fragment) { atRelease = *got }
		a.postAll(e, confirmed(1, 20_000))
		w.runUntil(time.Second, "the release", func() bool { return atRelease >= 0 })
		if want := atRelease == 20_000; want != (d == mutate.None) {
			t.Errorf("%v: released when the peer had %d of 20000 bytes", d, atRelease)
		}
		w.run(time.Second)
		w.quiet()
	}
}

func TestAFragmentWhoseRestComesAfterThePeerGaveTheSessionUpFails(t *testing.T) {
	for _, d := range []mutate.Defect{mutate.None, mutate.CommittedBelieved} {
		w, a, b, e := newReliable(t, d)
		got := b.bytesOf()
		f := confirmed(1, 20_000)
		f.Limit = 10_000
		a.postAll(e, f)
		w.runUntil(time.Second, "half of it", func() bool { return *got == 10_000 })
		b.m.Endpoint(1).Watch(1)
		b.wake()
		a.asleep = w.now.Add(10 * time.Second)
		w.runUntil(9*time.Second, "the peer's giving up", func() bool { return len(b.downs) == 1 })
		a.asleep = 0
		f.Limit = f.Length
		a.inbox = nil // the Hello that announces it comes after the rest
		a.postAll(e, f)
		w.runUntil(20*time.Second, "the release", func() bool { return len(a.released) == 1 })
		if *got != 10_000 {
			t.Fatalf("%v: the peer has taken %d bytes, half of them after the end of the session", d, *got)
		}
		if (f.Err == nil) != (d == mutate.CommittedBelieved) {
			t.Errorf("%v: a fragment of which half came was released with %v", d, f.Err)
		}
		b.m.Endpoint(1).Watch(-1)
	}
}

func TestAFragmentIsAskedAboutThoughThatOfTheProbeUnderWayWasWithdrawn(t *testing.T) {
	w, a, b, e := newReliable(t, mutate.None)
	b.bytesOf()
	first, second := confirmed(1, 5000), confirmed(2, 5000)
	a.postAll(e, first)
	a.poll() // committed, and covered by a probe
	a.postAll(e, second)
	a.poll() // only committed
	if c := e.live.confirming; c.asked != 1 || len(c.fragments) != 2 {
		t.Fatalf("the probe asks about %d of %d fragments, want 1 of 2", c.asked, len(c.fragments))
	}
	e.Withdraw(w.now, first)
	if len(a.released) != 1 || a.released[0] != first {
		t.Fatalf("%d fragments were released", len(a.released))
	}
	w.runUntil(time.Second, "the second release", func() bool { return len(a.released) == 2 })
	w.run(time.Second)
	if len(a.released) != 2 || a.released[1] != second || second.Err != nil || len(a.downs) > 0 {
		t.Errorf("%d were released, the second with %v; sessions ended: %v", len(a.released), second.Err, a.downs)
	}
	w.quiet()
}

// A busy peer answers the newest four probes of a turn, so an answer may be missing though the
// peer is heard all the time.
func TestAFragmentIsAskedAboutAgainThoughThePeerIsHeard(t *testing.T) {
	w, a, b, e := newReliable(t, mutate.None)
	b.bytesOf()
	missing := 0
	w.filter = func(from, _ *node, frame []byte) bool {
		o, _, _ := wire.ParseOuter(frame)
		if from == b && o.Kind == wire.KindProbeReply && missing == 0 {
			missing++
			return false
		}
		return true
	}
	a.postAll(e, confirmed(1, 5000))
	back := b.m.Endpoint(1)
	for i := 0; len(a.released) == 0; i++ {
		if i == 1000 {
			t.Fatalf("not released within a second, %d answers were lost", missing)
		}
		b.frag(back, wire.Command, fmt.Sprint("on ", i))
		w.run(time.Millisecond)
	}
	if missing != 1 || len(a.downs) > 0 {
		t.Errorf("%d answers were lost, and sessions ended: %v", missing, a.downs)
	}
	w.quiet()
}

// The probes that ask about fragments have the same ids in each session: an answer of an earlier
// session would confirm pieces that have yet to arrive.
func TestAnAnswerThatIsOwedEndsWithItsSession(t *testing.T) {
	w, a, b, e := newReliable(t, mutate.None)
	back := b.m.Endpoint(1)
	b.bytesOf()
	a.postAll(e, confirmed(1, 5000))
	a.poll()
	for len(w.air) > 0 { // the probe is behind all pieces, and b does not poll after it
		f := heap.Pop(&w.air).(*flying)
		b.m.Receive(w.now, f.from, f.frame)
	}
	if back.owed != 1 {
		t.Fatalf("%d answers are owed", back.owed)
	}
	b.m.ends(w.now, back, ErrSessionLost)
	w.runUntil(5*time.Second, "another session", func() bool { return b.ups == 2 })
	if back.owed != 0 {
		t.Errorf("%d answers are owed in a session in which nothing was asked", back.owed)
	}
}
