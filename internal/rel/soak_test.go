package rel

import (
	"fmt"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/wire"
)

// soak makes nodes connect, talk, restart, forget each other and lose the network, all at
// random, and then calms down.
type soak struct {
	w     *world
	sent  map[string]bool
	dark  map[[2]uint64]bool // one-way partitions
	frags map[*node][]*Fragment
	id    int
}

func (s *soak) step() {
	w := s.w
	a := w.nodes[w.rng.IntN(len(w.nodes))]
	b := w.nodes[w.rng.IntN(len(w.nodes))]
	if a == b {
		return
	}
	e := a.open(b)
	s.id++
	switch w.rng.IntN(12) {
	case 0, 1:
		e.Connect(w.now)
	case 2, 3, 4:
		p := fmt.Sprintf("%d→%d %d", a.cfg.NIC, b.cfg.NIC, s.id)
		space := wire.Space(w.rng.IntN(2))
		if a.frag(e, space, p) {
			s.sent[p] = true
		}
	case 5, 6:
		f := chunks(wire.FragmentID(s.id), 1+w.rng.IntN(60_000))
		f.Owner = e
		s.frags[a] = append(s.frags[a], f)
		for e.Post(w.now, f, 1+s.id%50) > 0 {
		}
		f.Limit = f.Next
		f.Length = f.Next
	case 7:
		if l := s.frags[a]; len(l) > 0 {
			f := l[len(l)-1]
			f.Owner.(*Endpoint).Withdraw(w.now, f)
		}
	case 8:
		s.dark[[2]uint64{a.cfg.NIC, b.cfg.NIC}] = w.rng.IntN(3) == 0
	case 9:
		a.asleep = w.now.Add(time.Duration(w.rng.IntN(30)) * time.Millisecond)
	case 10:
		if w.rng.IntN(6) == 0 {
			a.restart()
			s.frags[a] = nil
			for _, o := range w.nodes {
				if o != a {
					a.open(o)
				}
			}
		}
	case 11:
		if w.rng.IntN(10) == 0 {
			a.m.Forget(w.now, e)
			a.open(b)
		}
	}
	a.wake()
}

func TestSessionsSettleAfterAnything(t *testing.T) {
	seeds := uint64(40)
	if testing.Short() {
		seeds = 3
	}
	downs, delivered := map[error]int{}, 0
	for seed := range seeds {
		w := newWorld(t, seed, weather{loss: 0.1, dup: 0.1, reorder: 0.2, corrupt: 0.02, jitter: 5 * time.Millisecond})
		if seed%2 == 1 {
			w.weather = weather{delay: 2 * time.Millisecond} // only the nodes' actions are random
		}
		s := &soak{w: w, sent: map[string]bool{}, dark: map[[2]uint64]bool{}, frags: map[*node][]*Fragment{}}
		w.filter = func(from, to *node, frame []byte) bool { return !s.dark[[2]uint64{from.cfg.NIC, to.cfg.NIC}] }
		got := map[string]int{}
		for i := range 4 {
			n := w.add(i+1, nil)
			n.deliver = func(e *Endpoint, r wire.Record) {
				if r.Type() == wire.TypeFrag {
					got[string(r.Payload())]++
				}
			}
		}
		for range 400 {
			s.step()
			w.run(time.Duration(w.rng.IntN(20)) * time.Millisecond)
		}
		clear(s.dark)
		w.weather.loss, w.weather.corrupt = 0, 0
		w.run(5 * time.Second)
		delivered += len(got)
		for _, n := range w.nodes {
			for _, why := range n.downs {
				downs[why]++
			}
		}
		for p, n := range got {
			if n > 1 || !s.sent[p] {
				t.Errorf("seed %d: %q was delivered %d times, sent %v", seed, p, n, s.sent[p])
			}
		}
		for _, a := range w.nodes {
			for _, b := range w.nodes {
				if a == b {
					continue
				}
				s.reaches(a, b, got)
			}
		}
		w.run(5 * time.Second)
		w.quiet()
		frames := w.sent
		w.run(10 * time.Second)
		if w.sent != frames {
			t.Errorf("seed %d: %d frames went out in idle time", seed, w.sent-frames)
		}
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	for _, why := range []error{ErrUnreachable, ErrRestarted, ErrSessionLost, ErrForgotten} {
		if downs[why] == 0 {
			t.Errorf("no session ended with: %v", why)
		}
	}
	if delivered == 0 {
		t.Error("no message was delivered before the calm")
	}
}

// reaches fails the test unless a message from a to b arrives, by the second try at the latest:
// the first one may be lost with a session that b no longer knows.
func (s *soak) reaches(a, b *node, got map[string]int) {
	w := s.w
	e := a.open(b)
	for try := range 100 {
		p := fmt.Sprintf("after all %d→%d %d", a.cfg.NIC, b.cfg.NIC, try)
		if !a.frag(e, wire.Command, p) {
			w.run(50 * time.Millisecond)
			continue
		}
		downs := len(a.downs)
		for got[p] == 0 && len(a.downs) == downs {
			if !w.step(w.now.Add(5 * time.Second)) {
				w.t.Fatalf("%s did not arrive", p)
			}
		}
		if got[p] == 1 {
			return
		}
	}
	w.t.Fatalf("node %d does not reach node %d", a.cfg.NIC, b.cfg.NIC)
}
