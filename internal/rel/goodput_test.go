package rel

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/weftnet/weft/internal/wire"
)

// goodput moves megabytes through a line of 10 Gbit/s, 20 µs there and back, with socket buffers of 208 KiB, and returns
// bytes per second.
func goodput(t *testing.T, loss float64, megabytes int, change func(w *world, a, b *node)) (rate float64, st Stats) {
	t.Helper()
	w := newWorld(t, 7, weather{loss: loss, nsPerByte: 0.8, socket: 208 << 10})
	a, b := w.add(1, nil), w.add(2, nil)
	e := a.open(b)
	b.open(a)
	b.deliver = func(*Endpoint, wire.Record) {}
	e.Connect(w.now)
	a.wake()
	w.runUntil(3*time.Second, "hello", func() bool { return e.Up() })
	data := make([]byte, megabytes<<20)
	f := &Fragment{Space: wire.Data, Type: wire.TypeChunk, ID: 1, Parts: [][]byte{data}, Length: uint64(len(data)), Limit: uint64(len(data)), HeaderLen: wire.ChunkLen}
	wire.PutChunk(f.HeaderBuf[:], 0, 1, 0, 0)
	pump := func(e *Endpoint) {
		for e.Post(w.now, f) > 0 {
		}
		a.wake()
	}
	a.onRoom = pump
	if change != nil {
		change(w, a, b)
	}
	start := w.now
	pump(e)
	w.runUntil(20*time.Second, "the transfer", func() bool { return len(a.released) > 0 })
	rate = float64(len(data)) / w.now.Sub(start).Seconds()
	w.check()
	return rate, *a.m.Stats()
}

// Random loss alone does not slow a sender (decision 7, P9): the golden table shows by how little, and the ratios are
// held besides.
func TestGoodputUnderLoss(t *testing.T) {
	floor := map[float64]float64{0.001: 0.98, 0.01: 0.9, 0.05: 0.75, 0.20: 0.1}
	datadriven.RunTest(t, "testdata/goodput", func(t *testing.T, d *datadriven.TestData) string {
		var b strings.Builder
		var base float64
		fmt.Fprintf(&b, "%6s %9s %6s %6s %6s %6s %6s\n", "loss", "MB/s", "ratio", "sends", "fast", "tail", "rto")
		for _, loss := range []float64{0, 0.001, 0.01, 0.05, 0.20} {
			rate, st := goodput(t, loss, 8, nil)
			if loss == 0 {
				base = rate
			}
			fmt.Fprintf(&b, "%5.1f%% %9.0f %6.2f %6d %6d %6d %6d\n", 100*loss, rate/1e6, rate/base, st.TotalSends, st.FastResends, st.TailResends, st.TimeoutResends)
			if rate/base < floor[loss] {
				t.Errorf("at %v loss, goodput is %.2f of that without, want %.2f", loss, rate/base, floor[loss])
			}
		}
		return b.String()
	})
}

// A peer that gets no processor for 20 ms now and then looks like a loss, and must not be flooded with copies.
func TestAPeerPolledLateIsNotFlooded(t *testing.T) {
	_, st := goodput(t, 0, 8, func(w *world, a, b *node) {
		polls := 0
		b.deliver = func(*Endpoint, wire.Record) {
			if polls++; polls%1500 == 0 {
				b.asleep = w.now.Add(20 * time.Millisecond)
			}
		}
	})
	t.Logf("%d sends, %d resends", st.TotalSends, st.Resends)
	if st.Resends > st.TotalSends/20 {
		t.Errorf("%d of %d segments were sent again although none was lost", st.Resends, st.TotalSends)
	}
}

// A receiver with less room than it announced throws frames away; the sender must find a window that fits.
func TestASmallerBufferThanAnnouncedStillWorks(t *testing.T) {
	_, st := goodput(t, 0, 4, func(w *world, a, b *node) {
		w.weather.buffer = 16
	})
	if st.Resends > st.TotalSends {
		t.Errorf("%d segments were sent %d times again", st.TotalSends, st.Resends)
	}
	t.Logf("%d sends, %d resends", st.TotalSends, st.Resends)
}
