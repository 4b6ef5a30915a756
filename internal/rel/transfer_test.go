package rel

import (
	"fmt"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/wire"
)

// traffic sends short messages and long fragments in one direction, as fast as rel takes them,
// and checks what arrives.
type traffic struct {
	from, to *node
	e        *Endpoint
	shorts   int
	longs    []int // lengths
	nextS    int
	frags    []*Fragment
	got      map[wire.FragmentID][]int // times that each byte arrived
	done     int
}

func newTraffic(from, to *node, shorts int, longs []int) *traffic {
	tr := &traffic{from: from, to: to, e: from.open(to), shorts: shorts, longs: longs, got: map[wire.FragmentID][]int{}}
	for i, n := range longs {
		tr.frags = append(tr.frags, chunks(wire.FragmentID(i+1), n))
		tr.got[wire.FragmentID(i+1)] = make([]int, n)
	}
	to.deliver = func(e *Endpoint, r wire.Record) {
		if r.Type() != wire.TypeChunk {
			to.got[string(r.Payload())]++
			return
		}
		id, off := r.Chunk()
		for i, b := range r.Payload() {
			at := int(off) + i
			if b != byte(at^at>>8^int(id)) {
				to.w.t.Fatalf("byte %d of fragment %d is wrong", at, id)
			}
			tr.got[id][at]++
		}
	}
	from.onFree = func(f *Fragment) { tr.done++ }
	from.onRoom = func(e *Endpoint) { from.next = from.w.now; tr.pump() }
	return tr
}

// pump posts as much as rel takes.
func (tr *traffic) pump() {
	for more := true; more; {
		more = false
		if tr.nextS < tr.shorts {
			s := wire.Command
			size := 4 + tr.nextS*37%300
			if tr.nextS%10 == 9 {
				s, size = wire.Data, 1000
			}
			if tr.from.frag(tr.e, s, payload(tr.nextS, size)) {
				tr.nextS++
				more = true
			}
		}
		for _, f := range tr.frags {
			if f.Next < f.Length && tr.e.Post(tr.from.w.now, f, 1+int(f.ID)*tr.nextS%60) > 0 {
				more = true
			}
		}
	}
}

func (tr *traffic) finished() bool {
	return tr.nextS == tr.shorts && len(tr.to.got) >= tr.shorts && tr.done == len(tr.frags)
}

// exactly fails the test unless everything arrived exactly once.
func (tr *traffic) exactly(t *testing.T) {
	t.Helper()
	if len(tr.to.got) != tr.shorts {
		t.Errorf("%d short messages arrived, %d were sent", len(tr.to.got), tr.shorts)
	}
	for p, n := range tr.to.got {
		if n != 1 {
			t.Errorf("a message of %d bytes arrived %d times", len(p), n)
		}
	}
	for id, times := range tr.got {
		for i, n := range times {
			if n != 1 {
				t.Fatalf("byte %d of fragment %d arrived %d times", i, id, n)
			}
		}
	}
	for _, f := range tr.frags {
		if f.Err != nil {
			t.Errorf("fragment %d: %v", f.ID, f.Err)
		}
	}
}

// transfer moves a mixed load in one direction through the weather and checks all of it.
func transfer(t *testing.T, seed uint64, wt weather, change func(*Config)) (took time.Duration, tr *traffic) {
	t.Helper()
	w := newWorld(t, seed, wt)
	a, b := w.add(1, change), w.add(2, change)
	b.open(a)
	tr = newTraffic(a, b, 400, []int{1, 1424, 1425, 100_000, 300_000})
	b.places = func(offset uint64) bool { return offset/1408%16 != 3 } // all except some
	start := w.now
	tr.pump()
	w.runUntil(20*time.Second, fmt.Sprintf("seed %d: the transfer", seed), tr.finished)
	took = w.now.Sub(start)
	w.run(2 * time.Second)
	tr.exactly(t)
	w.quiet()
	if len(a.downs)+len(b.downs) > 0 {
		t.Errorf("seed %d: sessions ended: %v %v", seed, a.downs, b.downs)
	}
	return took, tr
}

func TestEverythingArrivesOnceOnAGoodLink(t *testing.T) {
	took, tr := transfer(t, 1, weather{}, nil)
	if st := tr.from.m.Stats(); st.Resends != 0 {
		t.Errorf("%d segments were sent again although none was lost", st.Resends)
	}
	if tr.to.placed == 0 {
		t.Error("no piece was as expected")
	}
	t.Log(took)
}

func TestEverythingArrivesOnceOnAReliableLink(t *testing.T) {
	_, tr := transfer(t, 1, weather{}, func(c *Config) { c.Reliable, c.Tagged = true, false })
	if st := tr.to.m.Stats(); st.AckSends != 0 {
		t.Errorf("%d ACKs were sent on a reliable link", st.AckSends)
	}
}

func TestEverythingArrivesOnceInBadWeather(t *testing.T) {
	seeds := uint64(40)
	if testing.Short() {
		seeds = 5
	}
	for seed := range seeds {
		p := float64(seed%5) * 0.05
		wt := weather{loss: p, dup: p, reorder: p, corrupt: p / 2, jitter: 500 * time.Microsecond}
		took, tr := transfer(t, seed, wt, nil)
		if testing.Verbose() {
			st := tr.from.m.Stats()
			t.Logf("loss %.2f: %v, %d sends, %d+%d+%d resends", p, took, st.TotalSends, st.FastResends, st.TailResends, st.TimeoutResends)
		}
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
		if st := tr.to.m.Stats(); p > 0 && (tr.from.m.Stats().Resends == 0 || st.Duplicates+st.OutOfWindowLow+st.Replays == 0 || st.Ahead == 0 || st.CRCErrors == 0) {
			t.Errorf("seed %d: the weather was not bad: %d resends, %d and %d duplicates, %d replays, %d ahead, %d damaged", seed,
				tr.from.m.Stats().Resends, st.Duplicates, st.OutOfWindowLow, st.Replays, st.Ahead, st.CRCErrors)
		}
		if p == 0 && tr.to.placed == 0 {
			t.Error("no piece was as expected")
		}
	}
}
