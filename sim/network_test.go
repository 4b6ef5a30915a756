package sim

import (
	"bytes"
	"encoding/binary"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/link"
)

var _ link.Driver = (*port)(nil)

// sink records the frames that arrive at a port.
type sink struct {
	port   *port
	frames [][]byte
	at     []clock.Time
}

func (k *sink) Receive(now clock.Time, _ link.Addr, frame []byte) {
	k.frames = append(k.frames, bytes.Clone(frame))
	k.at = append(k.at, now)
}

func (k *sink) ReceiveRun(now clock.Time, from link.Addr, frames []byte, size int) {
	link.Each(k, now, from, frames, size)
}

func (k *sink) arrived() {
	for n, next := k.port.Poll(k.port.net.s.now, k); n > 0 && next <= k.port.net.s.now; {
		n, next = k.port.Poll(k.port.net.s.now, k)
	}
}

// pair makes two ports. The second one records the frames that it gets.
func pair(seed uint64, l Link, f Faults) (*network, *Counts, *sink) {
	counts := new(Counts)
	net := newNetwork(newSched(seed), seed, 2, l, f, counts)
	k := &sink{port: net.ports[1]}
	net.ports[0].plug(func() {})
	net.ports[1].plug(k.arrived)
	return net, counts, k
}

// send sends numbered frames of n bytes, separated by gap.
func (net *network) send(frames, n int, gap time.Duration) {
	for i := range frames {
		net.s.push(net.s.now.Add(time.Duration(i)*gap), call(func() {
			p := net.ports[0]
			if b := p.Reserve(net.ports[1].addr); b != nil {
				clear(b[:n])
				binary.LittleEndian.PutUint32(b, uint32(i))
				p.Commit(n)
				p.Flush(net.s.now)
			}
		}), 0)
	}
	net.s.drain()
}

func TestAFaultlessNetworkKeepsEveryFrameAndTheirOrder(t *testing.T) {
	net, counts, k := pair(1, Link{}, Faults{})
	net.send(1000, 100, time.Microsecond)
	if len(k.frames) != 1000 || *counts != (Counts{}) {
		t.Fatalf("%d of 1000 frames came; %+v", len(k.frames), *counts)
	}
	for i, f := range k.frames {
		if binary.LittleEndian.Uint32(f) != uint32(i) {
			t.Fatalf("frame %d came in place of %d", binary.LittleEndian.Uint32(f), i)
		}
	}
}

func TestBandwidthAndLatencyAreKept(t *testing.T) {
	net, _, k := pair(1, Link{Latency: time.Millisecond, Jitter: 1, Bandwidth: 1_000_000, SendQueue: 1 << 20}, Faults{})
	net.send(100, 1000, 0) // each takes 1 ms on the wire
	first, last := time.Duration(k.at[0]), time.Duration(k.at[99])
	if first.Round(100*time.Microsecond) != 2*time.Millisecond || last.Round(100*time.Microsecond) != 101*time.Millisecond {
		t.Errorf("the first came after %v, the last after %v", first, last)
	}
}

func TestAFullSendQueueOffersNoBuffer(t *testing.T) {
	net, _, k := pair(1, Link{Bandwidth: 1_000_000, SendQueue: 10_000}, Faults{})
	net.send(100, 1000, 0)
	if len(k.frames) < 10 || len(k.frames) > 12 {
		t.Errorf("%d frames of 1000 B left a queue of 10 kB", len(k.frames))
	}
	if at := net.ports[0].drained(); at == clock.Never {
		t.Error("the driver would not be told that there is room again")
	}
}

func TestAFullReceiveQueueDropsAndCounts(t *testing.T) {
	net, counts, _ := pair(1, Link{RecvQueue: 10_000}, Faults{})
	net.ports[1].arrived = func() {}
	net.send(20, 1000, time.Millisecond)
	if counts.Overflowed != 10 {
		t.Errorf("%d frames were dropped", counts.Overflowed)
	}
}

func TestAReliableNetworkHoldsBackInstead(t *testing.T) {
	net, counts, _ := pair(1, Link{RecvQueue: 10_000, Reliable: true}, Faults{Loss: 1, Corrupt: 1, Duplicate: 1})
	net.ports[1].arrived = func() {}
	net.send(20, 1000, time.Millisecond)
	if len(net.ports[1].in) < 5 || len(net.ports[1].in) > 10 || *counts != (Counts{}) {
		t.Errorf("%d frames wait; %+v", len(net.ports[1].in), *counts)
	}
	if net.ports[0].Properties() != (link.Properties{Reliable: true, Ordered: true, Checked: true, Whole: true}) {
		t.Error("it does not say what it is")
	}
}

func TestEveryFaultHappensAboutAsOftenAsAsked(t *testing.T) {
	f := Faults{Loss: 0.1, LossBurst: 3, Duplicate: 0.1, Reorder: 0.1, Corrupt: 0.1, Truncate: 0.1, Delay: 0.01, DelayMax: 10 * time.Millisecond}
	net, counts, k := pair(5, Link{}, f)
	net.send(20000, 200, 10*time.Microsecond)
	near := func(what string, got uint64, rate float64) {
		want := rate * 20000 * 0.9
		if float64(got) < 0.7*want || float64(got) > 1.4*want {
			t.Errorf("%s: %d frames; want about %.0f", what, got, want)
		}
	}
	near("lost", counts.Lost, 0.11)
	near("duplicated", counts.Duplicated, 0.1)
	near("reordered", counts.Reordered, 0.1)
	near("corrupted", counts.Corrupted, 0.1)
	near("truncated", counts.Truncated, 0.1)
	near("delayed", counts.Delayed, 0.01)
	if want := 20000 - int(counts.Lost) + int(counts.Duplicated); len(k.frames) != want {
		t.Errorf("%d frames came; want %d", len(k.frames), want)
	}
	overtaken, short := 0, 0
	for i, f := range k.frames {
		if len(f) < 200 {
			short++
		} else if i > 0 && len(k.frames[i-1]) == 200 && binary.LittleEndian.Uint32(f) < binary.LittleEndian.Uint32(k.frames[i-1]) {
			overtaken++
		}
	}
	if overtaken == 0 || short == 0 {
		t.Errorf("%d frames were overtaken, %d were short", overtaken, short)
	}
}

func TestAPartitionLosesAndAClogHoldsUp(t *testing.T) {
	net, counts, k := pair(5, Link{}, Faults{})
	net.path(0, 1).blocked++
	net.send(10, 100, time.Microsecond)
	net.path(0, 1).blocked--
	net.path(0, 1).clogged = net.s.now.Add(time.Second)
	from := net.s.now
	net.send(10, 100, time.Microsecond)
	if counts.Partitioned != 10 || counts.Clogged == 0 || len(k.frames) != 10 {
		t.Fatalf("%d frames came; %+v", len(k.frames), *counts)
	}
	if d := k.at[0].Sub(from); d < time.Second || d > 2*time.Second {
		t.Errorf("the first came after %v", d)
	}
}
