package rel

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/wire"
)

// dumbReceiver is the second implementation of the receive window: it remembers every number
// that ever arrived.
type dumbReceiver struct {
	came map[wire.Seq]bool
	next wire.Seq
}

func (d *dumbReceiver) add(s wire.Seq) arrival {
	ahead := s.Sub(d.next)
	switch {
	case ahead < 0:
		return arrivedOld
	case ahead >= limits.Window:
		return arrivedHigh
	case d.came[s]:
		return arrivedDup
	}
	d.came[s] = true
	for d.came[d.next] {
		d.next++
	}
	return arrivedNew
}

func TestReceiveWindowAgreesWithASet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		first := wire.Seq(rapid.Uint32().Draw(t, "first"))
		w := receiveWindow{}
		w.start(first)
		dumb := dumbReceiver{came: map[wire.Seq]bool{}, next: first}
		reach := rapid.SampledFrom([]int{3, 70, 600, limits.Window + 20}).Draw(t, "reach")
		for range rapid.IntRange(1, 400).Draw(t, "steps") {
			s := dumb.next.Add(rapid.IntRange(-5, reach).Draw(t, "ahead"))
			if rapid.IntRange(0, 3).Draw(t, "next") == 0 {
				s = dumb.next
			}
			if rapid.IntRange(0, 3).Draw(t, "extend") == 0 {
				n := min(rapid.IntRange(1, 100).Draw(t, "n"), limits.Window-w.depth())
				for q := w.top; q != w.top.Add(n); q++ {
					dumb.add(q)
				}
				w.add(w.top, n)
			}
			before := w.judge(s)
			if got, want := w.add(s, 1), dumb.add(s); got != want || before != want {
				t.Fatalf("segment %d at %d: judged %d, added as %d, want %d", s, dumb.next, before, got, want)
			}
			if w.ack() != dumb.next.Add(-1) {
				t.Fatalf("acknowledges %d, want %d", w.ack(), dumb.next.Add(-1))
			}
			var words [wire.MaxAckWords]uint64
			n := w.selective(&words)
			for i := range 64 * n {
				s := dumb.next.Add(1 + i)
				if got := words[i/64]>>(i%64)&1 != 0; got != dumb.came[s] {
					t.Fatalf("bit %d of segment %d is %v, it came: %v", i, s, got, dumb.came[s])
				}
			}
			for i := 64 * n; i < limits.Window-1; i++ {
				if dumb.came[dumb.next.Add(1+i)] {
					t.Fatalf("no bit for segment %d, which came", dumb.next.Add(1+i))
				}
			}
			w.shrink()
		}
	})
}

// A sender is sure of a hole when ReorderFrames segments have arrived after it, also if several
// arrive together. A new hole is doubtful again.
func TestAHoleIsDoubtfulUntilThreeHaveComeBehindIt(t *testing.T) {
	w := receiveWindow{}
	w.start(100)
	for _, c := range []struct {
		from wire.Seq
		n    int
		want bool
	}{
		// 101 is missing.
		{100, 1, false}, {102, 1, true}, {103, 1, true}, {104, 1, true}, {105, 1, false},
		// 106 is missing.
		{107, 2, true}, {109, 50, true}, {159, 1, false},
		{106, 1, false}, {161, 9, true}, {101, 1, false}, {160, 1, false}, {170, 1, false},
	} {
		if c.from == w.top {
			w.add(w.top, c.n)
		} else {
			w.add(c.from, 1)
			w.add(w.top, c.n-1)
		}
		if got := w.doubtful(c.n); got != c.want {
			t.Errorf("after %d segments from %d on, the newest hole is doubtful: %v", c.n, c.from, got)
		}
	}
}

// TestSendWindowAgreesWithAMap drives a send window by the acknowledgements of a receiver that
// loses segments.
func TestSendWindowAgreesWithAMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		first := wire.Seq(rapid.Uint32().Draw(t, "first"))
		limit := rapid.SampledFrom([]int{1, 5, 100, limits.Window}).Draw(t, "limit")
		w := sendWindow{}
		w.start(first, limit)
		dumb := map[wire.Seq]*segment{}
		base, next := first, first
		for range rapid.IntRange(1, 300).Draw(t, "steps") {
			if rapid.Bool().Draw(t, "send") {
				for n := min(w.room(), rapid.IntRange(1, 300).Draw(t, "n")); n > 0; {
					g := &segment{frames: min(n, rapid.IntRange(1, 50).Draw(t, "frames"))}
					w.push(g)
					if g.seq != next {
						t.Fatalf("segment got %d, want %d", g.seq, next)
					}
					n -= g.frames
					for range g.frames {
						dumb[next] = g
						next++
					}
				}
			} else {
				for range rapid.IntRange(1, 50).Draw(t, "n") {
					s := base.Add(rapid.IntRange(-2, limit+2).Draw(t, "s"))
					if rapid.Bool().Draw(t, "oldest") {
						s = base
					}
					if got := w.find(s); got != dumb[s] {
						t.Fatalf("find(%d) gave %p, want %p", s, got, dumb[s])
					}
					if dumb[s] != nil {
						w.forget(s, 1)
						delete(dumb, s)
					}
					w.settle()
					for base != next && dumb[base] == nil {
						base++
					}
				}
			}
			w.shrink()
			if w.base != base || w.next != next || w.used() != next.Sub(base) || w.room() != limit-next.Sub(base) {
				t.Fatalf("window is %d…%d, want %d…%d", w.base, w.next, base, next)
			}
		}
	})
}

func TestReplayWindowAgreesWithASet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var w replayWindow
		taken := map[uint64]bool{}
		var top uint64
		for range rapid.IntRange(1, 300).Draw(t, "steps") {
			reach := rapid.SampledFrom([]uint64{3, 70, 3000, 1 << 40}).Draw(t, "reach")
			c := top + rapid.Uint64Range(0, reach).Draw(t, "ahead")
			if back := rapid.Uint64Range(0, 2500).Draw(t, "back"); back < c {
				c -= back
			}
			c = max(c, 1)
			fresh := w.fresh(c)
			switch {
			case taken[c] && fresh:
				t.Fatalf("counter %d taken twice", c)
			case !taken[c] && !fresh && c+1984 > top:
				t.Fatalf("counter %d refused, though %d is only %d higher", c, top, top-c)
			}
			if fresh {
				w.take(c)
				taken[c] = true
				top = max(top, c)
			}
		}
	})
}

func TestRingsStartSmallGrowAndShrink(t *testing.T) {
	var s sendWindow
	var r receiveWindow
	s.start(7, limits.Window)
	r.start(7)
	if len(s.ring) != limits.FirstRing || r.size() != limits.FirstRing {
		t.Errorf("rings start at %d and %d, want %d", len(s.ring), r.size(), limits.FirstRing)
	}
	for s.room() > 0 {
		s.push(&segment{frames: 1})
	}
	r.add(wire.Seq(7+limits.Window-1), 1)
	if len(s.ring) != limits.Window || r.size() != limits.Window {
		t.Errorf("full rings have %d and %d, want %d (USNIC-41)", len(s.ring), r.size(), limits.Window)
	}
	for q := s.base; q != s.next; q++ {
		s.forget(q, 1)
		r.add(q, 1)
	}
	s.settle()
	s.shrink()
	r.shrink()
	if len(s.ring) != limits.FirstRing || r.size() != limits.FirstRing {
		t.Errorf("idle rings keep %d and %d, want %d", len(s.ring), r.size(), limits.FirstRing)
	}
}
