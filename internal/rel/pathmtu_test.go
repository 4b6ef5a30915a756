package rel

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/wire"
)

// narrow makes frames longer than n bytes vanish silently.
func (w *world) narrow(n int) {
	w.filter = func(_, _ *node, frame []byte) bool { return len(frame) <= n }
}

// narrowPair returns two modules that probe their path, with traffic from the first to the
// second.
func narrowPair(t *testing.T, seed uint64, wt weather, mtu, shorts int, longs []int) (w *world, tr *traffic) {
	t.Helper()
	w = newWorld(t, seed, wt)
	probes := func(c *Config) { c.Narrow, c.MTU = true, mtu }
	return w, newTraffic(w.add(1, probes), w.add(2, probes), shorts, longs)
}

func TestAnOrdinaryPathIsUsedInFullAfterOneRoundTrip(t *testing.T) {
	for _, mtu := range []int{limits.LeastFrame, 1000, limits.SureFrame, limits.SureFrame + 1, 1472, 8972, 65000} {
		w, tr := narrowPair(t, 1, weather{}, mtu, 1, []int{100_000})
		tr.pump()
		w.runUntil(time.Second, "the session", tr.e.Up)
		opened := w.now
		if size, goal, _ := tr.e.FrameLengths(); size != min(mtu, limits.SureFrame) || goal != mtu {
			t.Errorf("a session with MTU %d begins with frames of %d and a goal of %d bytes", mtu, size, goal)
		}
		w.runUntil(time.Second, "the whole MTU", func() bool { size, _, _ := tr.e.FrameLengths(); return size == mtu })
		if d := w.now.Sub(opened); d > 50*time.Microsecond {
			t.Errorf("MTU %d: frames are short for %v; expected a round trip of 20 µs", mtu, d)
		}
		w.runUntil(time.Second, "all messages", tr.finished)
		tr.exactly(t)
		w.run(time.Second)
		if s := tr.from.m.Stats(); s.PathDoubts+s.PathsNarrowed+s.PathsWidened+s.PartSends+s.Resends != 0 {
			t.Errorf("MTU %d: %+v", mtu, s)
		}
		w.quiet()
	}
}

func TestANarrowPathIsFoundByFramesThatArrive(t *testing.T) {
	for _, carries := range []int{limits.LeastFrame, 700, 1231, 1232, 1233, 1272, 1300, 1471, 4000, 8971} {
		mtu := 1472
		if carries > mtu {
			mtu = 8972
		}
		w, tr := narrowPair(t, 1, weather{}, mtu, 100, []int{100_000, 3000})
		w.narrow(carries)
		tr.pump()
		w.runUntil(time.Second, "all messages", tr.finished)
		tr.exactly(t)
		w.run(5 * time.Second)
		size, _, _ := tr.e.FrameLengths()
		if size > carries || size < carries-limits.PathStep {
			t.Errorf("a path that carries %d is used with frames of %d bytes", carries, size)
		}
		if s := tr.from.m.Stats(); s.PathsNarrowed != 1 {
			t.Errorf("a path that carries %d was found to be narrow %d times; expected once", carries, s.PathsNarrowed)
		}
		w.quiet()
	}
}

// Segments in flight keep their length, and arrive all the same.
func TestAPathMayBecomeNarrowAtAnyTime(t *testing.T) {
	for _, wt := range []weather{{}, {loss: 0.05}, {loss: 0.2, dup: 0.1, reorder: 0.2, jitter: time.Millisecond, corrupt: 0.02}} {
		for seed := range uint64(4) {
			for _, mtu := range []int{1472, 16000} {
				w, tr := narrowPair(t, seed, wt, mtu, 300, []int{300_000, 50_000, 2_000_000})
				back := newTrafficBack(tr)
				tr.pump()
				back.pump()
				w.runUntil(10*time.Second, "a beginning", func() bool {
					size, goal, _ := tr.e.FrameLengths()
					return size > 0 && size == goal && tr.to.m.stats.Receives > 20+5*seed
				})
				if tr.finished() {
					continue // before the length was known
				}
				w.narrow([]int{1300, 1232, 1000, limits.LeastFrame}[seed%4])
				w.runUntil(2*time.Minute, fmt.Sprintf("all messages, seed %d, %+v, MTU %d", seed, wt, mtu), func() bool { return tr.finished() && back.finished() })
				tr.exactly(t)
				back.exactly(t)
				s := tr.from.m.Stats()
				if s.PathDoubts == 0 || s.PartSends == 0 || len(tr.from.downs) > 0 {
					t.Errorf("seed %d: %d doubts, %d parts, down %v", seed, s.PathDoubts, s.PartSends, tr.from.downs)
				}
				w.run(10 * time.Second)
				w.quiet()
				for _, n := range w.nodes {
					if len(n.m.assemblies) != 0 {
						t.Errorf("seed %d: %d segments are left in parts", seed, len(n.m.assemblies))
					}
				}
			}
		}
	}
}

// newTrafficBack is traffic in the opposite direction between the same two.
func newTrafficBack(tr *traffic) *traffic { return newTraffic(tr.to, tr.from, tr.shorts, tr.longs) }

func TestAPathThatIsWideAgainIsUsedInFull(t *testing.T) {
	w, tr := narrowPair(t, 1, weather{}, 1472, 1, []int{10_000})
	w.narrow(1300)
	tr.pump()
	w.runUntil(time.Second, "all messages", tr.finished)
	w.run(time.Second)
	w.filter = nil
	// The path of a peer on which nothing is pending is not probed.
	tr.e.Watch(+1)
	tr.from.wake()
	w.runUntil(2*limits.PathRaise, "the whole MTU", func() bool { size, goal, _ := tr.e.FrameLengths(); return size == goal })
	if s := tr.from.m.Stats(); s.PathsNarrowed != 1 || s.PathsWidened != 1 {
		t.Errorf("narrow %d times, wide again %d times; expected once each", s.PathsNarrowed, s.PathsWidened)
	}
}

// Loss that does not depend on length makes frames short for a moment at most.
func TestRandomLossIsNotTakenForANarrowPath(t *testing.T) {
	narrow := 0
	for seed := range uint64(20) {
		w, tr := narrowPair(t, seed, weather{loss: 0.1}, 1472, 100, []int{3_000_000})
		tr.pump()
		w.runUntil(time.Minute, "all messages", tr.finished)
		tr.exactly(t)
		w.run(2 * time.Second)
		if size, goal, _ := tr.e.FrameLengths(); size != goal {
			narrow++
		}
	}
	if narrow > 1 {
		t.Errorf("%d of 20 paths that lose one frame in ten were taken for narrow", narrow)
	}
}

// A peer that is silent for a while says nothing about lengths.
func TestASilentPeerDoesNotMakeItsPathNarrow(t *testing.T) {
	w, tr := narrowPair(t, 1, weather{}, 1472, 0, nil)
	tr.e.Connect(w.now)
	tr.from.wake()
	unheard := 0
	w.filter = func(from, _ *node, _ []byte) bool {
		silent := from == tr.to && tr.e.Up()
		if silent {
			unheard++
		}
		return !silent
	}
	w.run(time.Second)
	w.filter = nil
	if unheard < 3 || tr.from.m.Stats().ProbeSends < 6 {
		t.Errorf("%d answers to %d probes were lost, expected more than one try to be in vain", unheard, tr.from.m.Stats().ProbeSends)
	}
	w.run(time.Second)
	if size, goal, _ := tr.e.FrameLengths(); size != goal || len(tr.from.downs) > 0 {
		t.Errorf("frames of %d bytes, of %d; down %v", size, goal, tr.from.downs)
	}
}

// A record may be longer than the path carries: its owner may have made it for several peers.
func TestRecordsThatAreLongerThanThePathGoInParts(t *testing.T) {
	w, tr := narrowPair(t, 1, weather{loss: 0.1}, 8972, 0, nil)
	w.narrow(1000)
	tr.e.Connect(w.now)
	tr.from.wake()
	w.runUntil(time.Second, "the session", tr.e.Up)
	for i := range 30 {
		for !tr.from.frag(tr.e, wire.Data, payload(i, 100+i*250)) {
			w.run(time.Millisecond)
		}
	}
	w.run(20 * time.Second)
	for i := range 30 {
		if tr.to.got[payload(i, 100+i*250)] != 1 {
			t.Errorf("record %d of %d bytes came %d times", i, 100+i*250, tr.to.got[payload(i, 100+i*250)])
		}
	}
	if st := tr.from.m.Stats(); st.PartSends == 0 || st.Resends == 0 {
		t.Errorf("%d went in parts, and %d were sent again", st.PartSends, st.Resends)
	}
	w.quiet()
}

// Parts of segments that never become whole take bounded memory, and make nothing else fail.
func TestPartsThatNeverMakeAWholeAreBounded(t *testing.T) {
	w, tr := narrowPair(t, 1, weather{}, 1472, 50, nil)
	tr.pump()
	w.runUntil(time.Second, "all messages", tr.finished)
	s := tr.e.live
	for i := range 3 * limits.PartedSegments {
		b := tr.from.Reserve(s.addr)
		p := wire.Part{Space: wire.Data, Seq: s.send[wire.Data].next.Add(1000 + i), Length: 640}
		p.Put(b[wire.OuterLen:], 64)
		tr.from.Commit(s.packets.seal(wire.KindPart, b, wire.OuterLen+wire.PartLen+64, nil))
		// The same segment, with another length.
		b = tr.from.Reserve(s.addr)
		p.Length = 704
		p.Put(b[wire.OuterLen:], 64)
		tr.from.Commit(s.packets.seal(wire.KindPart, b, wire.OuterLen+wire.PartLen+64, nil))
	}
	w.run(time.Millisecond)
	if n := len(tr.to.m.assemblies); n != limits.PartedSegments {
		t.Errorf("%d segments are kept in parts; expected %d", n, limits.PartedSegments)
	}
	if st := tr.to.m.Stats(); st.PartReceives != 3*limits.PartedSegments || st.Malformed != 3*limits.PartedSegments {
		t.Errorf("%d parts and %d malformed frames are counted; expected %d each", st.PartReceives, st.Malformed, 3*limits.PartedSegments)
	}
	tr.from.m.Close(w.now, tr.from)
	w.run(time.Second)
	if n := len(tr.to.m.assemblies); n != 0 {
		t.Errorf("%d segments are kept in parts beyond the end of their session", n)
	}
	w.check()
}

// A peer that begins too many segments in parts loses its own oldest one, and none of another
// peer.
func TestPartsOfOnePeerTakeNoRoomOfAnothers(t *testing.T) {
	w, a, b, _ := joined(t, nil)
	c := w.add(3, nil)
	c.open(b).Connect(w.now)
	c.wake()
	w.runUntil(time.Second, "a session with the other", func() bool { return b.ups == 2 })
	first := b.m.assemblyOf(b.m.Endpoint(c.cfg.NIC).live, &wire.Part{Length: 640})
	for i := range limits.PartedSegments + 1 {
		b.m.assemblyOf(b.m.Endpoint(a.cfg.NIC).live, &wire.Part{Seq: wire.Seq(i), Length: 640})
	}
	if !slices.Contains(b.m.assemblies, first) || len(b.m.assemblies) != 1+limits.PartedSegments {
		t.Errorf("%d segments are kept in parts, that of the other peer among them: %v", len(b.m.assemblies), slices.Contains(b.m.assemblies, first))
	}
}

// A piece that has arrived in parts may arrive once more in one frame, when its path has become
// wide again. It is not taken for a new one, though it was the expected one before the parts
// arrived.
func TestAPieceThatHasComeInPartsIsNotTakenAgainWhole(t *testing.T) {
	w, a, b, e := joined(t, nil)
	b.places = func(uint64) bool { return true }
	got := b.bytesOf()
	const first, second = 1000, 640
	f := chunks(1, first+second)
	f.Limit = first
	a.postAll(e, f)
	w.runUntil(time.Second, "the first piece", func() bool { return *got == first })
	w.run(time.Second)
	s := e.live
	seq := s.send[wire.Data].next
	piece := make([]byte, wire.ChunkLen+second)
	wire.PutChunk(piece, 0, 1, first, second)
	frame := a.Reserve(b.addr)
	(&wire.Part{Space: wire.Data, Seq: seq, Length: uint32(len(piece))}).Put(frame[wire.OuterLen:], len(piece))
	a.Commit(s.packets.seal(wire.KindPart, frame, wire.OuterLen+wire.PartLen, piece))
	w.run(time.Millisecond)
	frame = a.Reserve(b.addr)
	h := wire.Inner{Space: wire.Data, Seq: seq}
	s.piggyback(&h)
	h.Put(frame[wire.OuterLen:])
	a.Commit(s.packets.seal(wire.KindData, frame, dataHead, piece))
	w.run(time.Millisecond)
	if n := b.m.Endpoint(1).live.receive[wire.Data].next; *got != first+second || n != seq.Add(1) {
		t.Errorf("%d of %d bytes have come, and segments up to %d of %d", *got, first+second, n.Add(-1), seq)
	}
}
