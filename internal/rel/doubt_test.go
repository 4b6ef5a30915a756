package rel

import (
	"net/netip"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/wire"
)

// The link driver is told of odd losses, once, and of ordinary ones never.
func TestOddLossesThrowDoubtOnThePathAndOrdinaryOnesDoNot(t *testing.T) {
	for _, test := range []struct {
		name    string
		weather weather
		lose    func(w *world, frame []byte) bool
		ends    bool
		want    int
	}{
		{"none", weather{}, nil, true, 0},
		{"one in twenty", weather{loss: 0.05}, nil, true, 0},
		{"every second at the start", weather{}, func(w *world, f []byte) bool { return len(f) > 1000 && w.sent%2 == 0 }, true, 1},
		{"everything, after the start", weather{}, func(w *world, _ []byte) bool { return w.nodes[0].ups > 0 }, false, 0},
	} {
		w := newWorld(t, 3, test.weather)
		got := 0
		a := w.add(1, func(c *Config) {
			c.DoubtBatches = func(to netip.AddrPort) {
				if to != address(2) {
					t.Errorf("%s: doubt about %v", test.name, to)
				}
				got++
			}
		})
		b := w.add(2, nil)
		if test.lose != nil {
			w.filter = func(_, _ *node, f []byte) bool { return !test.lose(w, f) }
		}
		tr := newTraffic(a, b, 0, []int{200_000})
		tr.pump()
		w.run(3 * time.Second)
		arrived := tr.done == 1 && tr.frags[0].Err == nil
		if got != test.want || arrived != test.ends {
			t.Errorf("%s: %d doubts, and the message has arrived: %v; want %d, %v", test.name, got, arrived, test.want, test.ends)
		}
	}
}

// The losses of a long round are found in the next round, which may be short. That one is not to
// blame, nor are the driver's batches.
func TestAShortRoundDoesNotAnswerForTheLongOneBeforeIt(t *testing.T) {
	for seed := range uint64(50) {
		w := newWorld(t, seed, weather{loss: 0.05, nsPerByte: 0.8, delay: 20 * time.Microsecond})
		got := 0
		a := w.add(1, func(c *Config) { c.DoubtBatches = func(netip.AddrPort) { got++ } })
		b := w.add(2, func(c *Config) { c.ReceiveCapacity = 4 << 20 })
		b.deliver = func(*Endpoint, wire.Record) {}
		e := a.open(b)
		e.Connect(w.now)
		a.wake()
		w.runUntil(3*time.Second, "hello", e.Up)
		for _, segments := range []int{300, 18, 300, 18} {
			for i := range segments {
				if !a.frag(e, wire.Data, payload(i, 1000)) {
					t.Fatalf("segment %d of %d was refused", i, segments)
				}
			}
			a.wake()
			acked := a.m.Stats().SegmentsAcked
			w.runUntil(time.Second, "the first acknowledgement", func() bool { return a.m.Stats().SegmentsAcked > acked })
		}
		w.run(time.Second)
		if lost := a.m.Stats().FastResends; lost < 15 {
			t.Fatalf("seed %d: %d segments were lost; expected some thirty", seed, lost)
		}
		if got > 0 || e.paced(w.now) {
			t.Errorf("seed %d: %d doubts, paced %v, after a loss of one in twenty", seed, got, e.paced(w.now))
		}
	}
}

// Small rounds that lose a quarter now and then are chance. It takes 64 segments to conclude
// that batches do not get through.
func TestTheFirstRoundsAreJudgedTogether(t *testing.T) {
	for _, test := range []struct {
		name   string
		rounds [][2]int // segments, those lost
		bad    int      // the round whose verdict makes it a bad start, 0 if none does
	}{
		{"a small one has bad luck", [][2]int{{20, 6}, {20, 0}, {20, 1}, {20, 1}, {20, 20}}, 0},
		{"small ones lose all", [][2]int{{20, 20}, {20, 20}, {20, 20}, {20, 20}}, 4},
		{"a large one does", [][2]int{{64, 17}}, 1},
		{"a large one does but for one", [][2]int{{64, 16}}, 0},
		{"the fifth does", [][2]int{{16, 0}, {16, 0}, {16, 0}, {16, 0}, {64, 64}}, 0},
		{"some are too small to count", [][2]int{{15, 15}, {15, 15}, {15, 15}, {15, 15}, {15, 15}, {64, 64}}, 6},
	} {
		var c congestion
		c.start(1 << 20)
		counter, bad := uint64(0), 0
		for i, r := range append(test.rounds, [2]int{1, 0}, [2]int{1, 0}) {
			c.posts(r[0])
			before := c.before.from
			c.acked(1000, c.round.from)
			for range test.rounds[max(i-1, 0)][1] * min(i, 1) {
				c.loses(before)
			}
			counter += uint64(r[0])
			if c.judge(clock.Time(i+1)*1000, counter) && bad == 0 {
				bad = i
			}
			if i == len(test.rounds) {
				break
			}
		}
		if bad != test.bad {
			t.Errorf("%s: a bad start with round %d, want %d", test.name, bad, test.bad)
		}
	}
}
