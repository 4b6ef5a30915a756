package rel

import (
	"net/netip"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/wire"
)

// shallow moves megabytes over a line of 1 Gbit/s with a queue of 40 frames in front of it and a
// round trip of 200 µs.
func shallow(t *testing.T, megabytes int) (w *world, st Stats, most int) {
	t.Helper()
	w = newWorld(t, 7, weather{delay: 100 * time.Microsecond, nsPerByte: 8, buffer: 40})
	a, b := w.add(1, func(c *Config) { c.ReceiveCapacity = 4 << 20 }), w.add(2, func(c *Config) { c.ReceiveCapacity = 4 << 20 })
	e, pump := w.stream(a, b, megabytes)
	pump(e)
	sends, paced := a.m.Stats().ChunkSends+a.m.Stats().Resends, false
	w.runUntil(60*time.Second, "the transfer", func() bool {
		n := a.m.Stats().ChunkSends + a.m.Stats().Resends
		if paced { // paced before the last step
			most = max(most, int(n-sends))
		}
		sends, paced = n, e.Up() && w.now < e.congestion.pacedUntil && e.congestion.rate > 0
		return len(a.released) > 0
	})
	w.check()
	return w, *a.m.Stats(), most
}

func TestAShortQueueOnTheWayIsNotFloodedAgainAndAgain(t *testing.T) {
	w, st, most := shallow(t, 8)
	t.Logf("%d sends, %d resends, %d lost, %d at once", st.TotalSends, st.Resends, w.lost, most)
	if w.lost < 1000 {
		t.Fatalf("%d frames were lost: the first burst should have shown the queue", w.lost)
	}
	if uint64(st.Resends) > st.TotalSends {
		t.Errorf("%d of %d segments were sent again: bursts go on", st.Resends, st.TotalSends)
	}
	frame := 1472 - wire.Overhead + segmentBytes
	if most == 0 || most > limits.PaceBurst/frame+2 {
		t.Errorf("%d frames at once, expected at most a burst of %d bytes", most, limits.PaceBurst)
	}
}

// met returns two nodes with an open session.
func met(t *testing.T) (*world, *Endpoint) {
	t.Helper()
	w := newWorld(t, 7, weather{})
	a, b := w.add(1, nil), w.add(2, nil)
	e := a.open(b)
	e.Connect(w.now)
	a.wake()
	w.runUntil(3*time.Second, "hello", func() bool { return e.Up() })
	return w, e
}

func TestAPathThatHasLostLittleIsNotPaced(t *testing.T) {
	w, e := met(t)
	e.congestion.rate = 0.001
	for range 1000 {
		if _, ok := e.mayLeave(w.now, 10_000); !ok {
			t.Fatal("held back")
		}
	}
}

func TestAPacedPathIsSentAThirdMoreThanArrives(t *testing.T) {
	w, e := met(t)
	const frame, frames = 1000, 400
	e.congestion.rate, e.congestion.pacedUntil = 0.1, clock.Never // 100 MB/s
	e.pace = pace{0, w.now}
	now, left := w.now, 0
	for left < frames {
		at, ok := e.mayLeave(now, frame)
		if ok {
			left++
			continue
		}
		if at <= now || at > now.Add(time.Millisecond) {
			t.Fatalf("after %d frames it may go on in %v", left, at.Sub(now))
		}
		now = at
	}
	want := time.Duration(frames * frame / e.congestion.rate / paceGain)
	if took := now.Sub(w.now); (took - want).Abs() > want/100 {
		t.Errorf("%d frames took %v, expected %v", frames, took, want)
	}
}

// A retransmission that is held back twice waits for the earlier instant, then for the later one.
func TestARetransmissionStaysHeldWhenWhatWasHeldBesideItIsLetGo(t *testing.T) {
	w, e := met(t)
	m, out := e.m, w.nodes[0]
	w.weather.loss = 1
	wire.PutVoid(e.Reserve(w.now, wire.Data, 1000), 1000)
	m.Progress(w.now, out)
	m.resend(w.now, e.live, e.live.flight.tail, CauseTail)
	e.congestion.rate, e.congestion.pacedUntil = 0.001, clock.Never // 1 MB/s: some 700 µs for each
	e.pace = pace{0, w.now}
	f := &Fragment{Space: wire.Data, Type: wire.TypeChunk, ID: 1, Parts: [][]byte{make([]byte, 500)}, Length: 500, Limit: 500, HeaderLen: wire.ChunkLen}
	wire.PutChunk(f.HeaderBuf[:], 0, 1, 0, 0)
	e.Post(w.now, f, 1)
	resent := m.Stats().Resends
	_, next := m.Progress(w.now, out)
	f.Err = ErrForgotten
	e.Withdraw(w.now, f)
	for polls := 0; m.Stats().Resends == resent; polls++ {
		if next > w.now.Add(time.Millisecond) || polls > 10 {
			t.Fatalf("poll %d has it wait for %v, expected a millisecond at most, and few polls", polls, next.Sub(w.now))
		}
		w.now = next
		_, next = m.Progress(w.now, out)
	}
}

// However many retransmissions are held back, Progress returns a later time once all have been
// looked at, so that its caller can wait.
func TestManyRetransmissionsThatAreHeldBackKeepNobodyAwake(t *testing.T) {
	w, e := met(t)
	m, out := e.m, w.nodes[0]
	w.weather.loss = 1
	const many = 4 * limits.ResendsPerPoll
	for range many {
		wire.PutVoid(e.Reserve(w.now, wire.Data, 1000), 1000)
	}
	m.Progress(w.now, out)
	for e.live.flight.n > 0 {
		m.resend(w.now, e.live, e.live.flight.tail, CauseTail)
	}
	e.congestion.rate, e.congestion.pacedUntil = 0.001, clock.Never
	e.pace = pace{0, w.now}
	for polls := 0; ; polls++ {
		_, next := m.Progress(w.now, out)
		if next > w.now {
			break
		}
		if polls > many/limits.ResendsPerPoll {
			t.Fatalf("%d polls, and it wants the next at once", polls)
		}
	}
	before := m.Stats().Resends
	for end := w.now.Add(3 * many * time.Millisecond); w.now < end; {
		_, w.now = m.Progress(w.now, out)
	}
	if n := m.Stats().Resends - before; n < many {
		t.Errorf("%d of %d retransmissions have left", n, many)
	}
}

// full is a driver that takes nothing.
type full struct{ *node }

func (full) Reserve(netip.AddrPort) []byte { return nil }

func TestWhatTheDriverDoesNotTakeCostsNoPace(t *testing.T) {
	w, e := met(t)
	m := e.m
	w.weather.loss = 1
	wire.PutVoid(e.Reserve(w.now, wire.Data, 1000), 1000)
	m.Progress(w.now, w.nodes[0])
	m.resend(w.now, e.live, e.live.flight.tail, CauseTail)
	wire.PutVoid(e.Reserve(w.now, wire.Data, 1000), 1000)
	e.congestion.rate, e.congestion.pacedUntil = 0.001, clock.Never
	e.pace = pace{limits.PaceBurst / 2, w.now}
	for range 100 {
		m.Progress(w.now, full{w.nodes[0]})
	}
	if e.pace.credit != limits.PaceBurst/2 {
		t.Errorf("%.0f bytes may leave, expected %d", e.pace.credit, limits.PaceBurst/2)
	}
}
