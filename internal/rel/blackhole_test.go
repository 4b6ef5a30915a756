package rel

import (
	"fmt"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/wire"
)

// standing returns two modules that know that their path carries the longest frames of both, and
// have measured its round trips.
func standing(t *testing.T, seed uint64, wt weather, mtu int) (w *world, tr *traffic) {
	t.Helper()
	w, tr = narrowPair(t, seed, wt, mtu, 50, []int{20 * mtu})
	tr.pump()
	w.runUntil(time.Minute, "a beginning", func() bool {
		size, goal, _ := tr.e.FrameLengths()
		return tr.finished() && size > 0 && size == goal
	})
	w.run(time.Second)
	return w, tr
}

// another sends another fragment of n bytes, and returns how long it takes.
func (tr *traffic) another(n int, most time.Duration, what string) time.Duration {
	tr.longs = append(tr.longs, n)
	f := chunks(wire.FragmentID(len(tr.longs)), n)
	tr.frags = append(tr.frags, f)
	tr.got[f.ID] = make([]int, n)
	w := tr.from.w
	began := w.now
	tr.from.wake()
	tr.pump()
	w.runUntil(most, what, tr.finished)
	return w.now.Sub(began)
}

// If a path becomes narrow, by however much, it takes two or three round trips until the length
// is doubted. Certainty then takes as many answer times as there are tries. That holds whether
// or not frames of the length with which a session begins get through.
func TestABlackHoleIsFoundByProbesAtThePaceOfRoundTrips(t *testing.T) {
	for _, c := range []struct {
		weather weather
		most    time.Duration
	}{
		{weather{}, 10 * time.Millisecond},
		{weather{delay: 200 * time.Microsecond}, 20 * time.Millisecond},
		{weather{delay: 2 * time.Millisecond}, 150 * time.Millisecond},
		{weather{delay: 2 * time.Millisecond, reorder: 0.3, jitter: 20 * time.Millisecond}, time.Second},
		{weather{delay: 2 * time.Millisecond, reorder: 0.1, jitter: 20 * time.Millisecond, loss: 0.1}, 1500 * time.Millisecond},
		{weather{loss: 0.1}, time.Second},
	} {
		for _, mtu := range []int{limits.SureFrame, 1472, 8972} {
			for _, carries := range []int{limits.LeastFrame, 1000, 1230, 1300} {
				for seed := range uint64(5) {
					w, tr := standing(t, seed, c.weather, mtu)
					w.narrow(carries)
					what := fmt.Sprintf("50,000 bytes over a path that carries %d of %d, %+v, seed %d", carries, mtu, c.weather, seed)
					took := tr.another(50_000, c.most, what)
					tr.exactly(t)
					size, _, _ := tr.e.FrameLengths()
					if doubts := tr.from.m.Stats().PathDoubts; size > carries || carries < mtu && doubts != 1 && c.weather.loss == 0 {
						t.Errorf("%s took %v with frames of %d bytes in the end, and %d steps down; expected one", what, took, size, doubts)
					}
				}
			}
		}
	}
}

// Losses of one length count although shorter frames arrive, as they do on a path that carries
// only those.
func TestLossesAreNotForgottenForShorterFramesThatCome(t *testing.T) {
	w, tr := standing(t, 1, weather{}, 1472)
	w.narrow(1000)
	began, sent := w.now, 0
	tr.to.deliver = nil
	tr.from.onRoom = func(e *Endpoint) {
		if w.now.Sub(began) < time.Second {
			tr.from.frag(e, wire.Data, payload(sent, 700+sent%2*600))
			sent++
		}
	}
	for range 4 {
		tr.from.onRoom(tr.e)
	}
	w.runUntil(20*time.Millisecond, "a step down", func() bool { size, _, _ := tr.e.FrameLengths(); return size < 1000 })
	w.run(2 * time.Second)
	w.quiet()
}

// An answer to the longest probe ends a doubt: frames keep their length.
func TestADoubtEndsWithTheFirstLongFrameThatComes(t *testing.T) {
	w, tr := standing(t, 1, weather{}, 1472)
	lost := 0
	w.filter = func(_, _ *node, frame []byte) bool {
		if o, _, _ := wire.ParseOuter(frame); o.Kind == wire.KindData && len(frame) > 1300 && lost < 2 {
			lost++
			return false
		}
		return true
	}
	probes := tr.from.m.Stats().ProbeSends
	tr.another(1400, 10*time.Millisecond, "a message that is lost twice")
	w.run(time.Second)
	s := tr.from.m.Stats()
	if size, goal, _ := tr.e.FrameLengths(); size != goal || s.PathDoubts != 0 || s.ProbeSends != probes+3 || lost != 2 || tr.e.live.path.trying != 0 {
		t.Errorf("frames of %d bytes, of %d, after %d losses; %d probes, %d steps down, %d bytes are tried", size, goal, lost, s.ProbeSends-probes, s.PathDoubts, tr.e.live.path.trying)
	}
}

// A search that is interrupted because the length below comes into doubt resumes where it was.
func TestASearchGoesOnAfterADoubt(t *testing.T) {
	w, tr := narrowPair(t, 1, weather{}, 1472, 1, []int{3000})
	w.narrow(1300)
	tr.pump()
	p := func() *path { return &tr.e.live.path }
	w.runUntil(time.Second, "a search", func() bool { return tr.e.Up() && p().missed == 2 })
	narrow, lost := w.filter, 0
	w.filter = func(from, to *node, frame []byte) bool {
		if o, _, _ := wire.ParseOuter(frame); o.Kind == wire.KindData && len(frame) > 1100 && lost < 2 {
			lost++
			return false
		}
		return narrow(from, to, frame)
	}
	tr.another(1100, 10*time.Millisecond, "a message that is lost twice")
	if p().resume != 1472 {
		t.Errorf("frames of %d bytes were tried when the length below came into doubt; expected 1472", p().resume)
	}
	w.run(5 * time.Second)
	s := tr.from.m.Stats()
	if size, _, _ := tr.e.FrameLengths(); size > 1300 || size < 1300-limits.PathStep || s.PathsNarrowed != 1 || s.PathDoubts != 0 || lost != 2 {
		t.Errorf("frames of %d bytes on a path that carries 1300; narrowed %d times, %d steps down, %d lost", size, s.PathsNarrowed, s.PathDoubts, lost)
	}
}

// A session may begin on a path that does not even carry the length that nearly all paths carry.
func TestASessionFindsAPathTooNarrowForItsFirstFrames(t *testing.T) {
	for _, mtu := range []int{limits.SureFrame, 1472, 8972} {
		for _, carries := range []int{limits.LeastFrame, 1000} {
			w, tr := narrowPair(t, 1, weather{}, mtu, 20, []int{50_000})
			w.narrow(carries)
			tr.pump()
			w.runUntil(30*time.Millisecond, fmt.Sprintf("all messages, MTU %d, carries %d", mtu, carries), tr.finished)
			tr.exactly(t)
			w.run(5 * time.Second)
			if size, _, _ := tr.e.FrameLengths(); size > carries || size < carries-limits.PathStep {
				t.Errorf("a path that carries %d, of %d, is used with frames of %d bytes", carries, mtu, size)
			}
			w.quiet()
		}
	}
}
