package mem_test

import (
	"encoding/binary"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/link"
	"github.com/weftnet/weft/internal/link/linktest"
	"github.com/weftnet/weft/internal/link/mem"
)

func TestDriver(t *testing.T) {
	for _, mtu := range []int{limits.LeastFrame, 0, limits.MaxFrame} {
		t.Run(fmt.Sprintf("MTU %d", mtu), func(t *testing.T) {
			linktest.Run(t, linktest.Suite{
				Make: func(tb testing.TB) (a, b link.Driver) {
					s := mem.NewSwitch(mem.Config{MTU: mtu})
					return s.Port(), s.Port()
				},
				Claims:  link.Properties{Reliable: true, Ordered: true, Checked: true, Whole: true},
				Bounded: true,
				Nobody:  mem.Address(77),
			})
		})
	}
}

func TestAddressesAreMadeUpAndNeverReused(t *testing.T) {
	s := mem.NewSwitch(mem.Config{})
	a := s.Port()
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if got, want := a.Addr().String(), "[fd57::1]:1"; got != want {
		t.Errorf("first port lives at %s; want %s", got, want)
	}
	if got, want := s.Port().Addr().String(), "[fd57::2]:1"; got != want {
		t.Errorf("second port lives at %s; want %s", got, want)
	}
}

func TestASwitchRefusesWhatItCannotBe(t *testing.T) {
	for _, cfg := range []mem.Config{{MTU: limits.MaxFrame + 1}, {MTU: 1}, {Queue: -1}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("NewSwitch(%+v) does not panic", cfg)
				}
			}()
			mem.NewSwitch(cfg)
		}()
	}
}

func TestWakeComesWithTheFirstFrameOfAnEmptyQueueOnly(t *testing.T) {
	s := mem.NewSwitch(mem.Config{})
	a, b := s.Port(), s.Port()
	wakes := 0
	linktest.Send(t, a, b.Addr(), []byte("before"))
	b.Notify(func() { wakes++ })
	if wakes != 1 {
		t.Fatalf("%d wakes when Notify meets a waiting frame; want 1", wakes)
	}
	linktest.Send(t, a, b.Addr(), []byte("second"))
	if wakes != 1 {
		t.Fatalf("%d wakes after a frame for a queue that was not empty; want still 1", wakes)
	}
	var in linktest.Inbox
	linktest.Collect(t, b, &in, 2)
	linktest.Send(t, a, b.Addr(), []byte("third"))
	if wakes != 2 {
		t.Fatalf("%d wakes after a frame for an emptied queue; want 2", wakes)
	}
}

func TestMemoryFollowsFramesInFlightAndNotPorts(t *testing.T) {
	s := mem.NewSwitch(mem.Config{})
	const ports = 4000
	all := make([]*mem.Port, ports)
	for i := range all {
		all[i] = s.Port()
	}
	if n := s.Buffers(); n != 0 {
		t.Fatalf("%d ports that were never used have %d buffers; want none", ports, n)
	}
	var in linktest.Inbox
	for round := range 20 {
		for i := range 10 {
			linktest.Send(t, all[i], all[i+10].Addr(), []byte("x"))
		}
		for i := range 10 {
			linktest.Collect(t, all[i+10], &in, round*10+i+1)
		}
	}
	if n := s.Buffers(); n > 20*16 {
		t.Errorf("20 ports with one frame each in flight have %d buffers", n)
	}
}

// closer closes a port at the first frame that it receives.
type closer struct{ p *mem.Port }

func (c closer) Receive(clock.Time, link.Addr, []byte) { c.p.Close() }

func (c closer) ReceiveRun(now clock.Time, from link.Addr, frames []byte, size int) {
	link.Each(c, now, from, frames, size)
}

func TestAPortThatIsClosedByWhatItReceivesKeepsNoMemory(t *testing.T) {
	s := mem.NewSwitch(mem.Config{})
	a := s.Port()
	after := 0
	for i := range 100 {
		b := s.Port()
		for range 10 {
			a.Reserve(b.Addr())
			a.Commit(8)
		}
		b.Poll(0, closer{b})
		var c link.Counters
		if b.Counters(&c); c.FramesIn != 1 || c.DroppedIn != 9 {
			t.Fatalf("%+v; expected 1 frame in, and 9 dropped", c)
		}
		if i == 0 {
			after = s.Buffers()
		}
	}
	if n := s.Buffers(); n != after {
		t.Errorf("the switch has %d buffers after 100 ports, and had %d after one", n, after)
	}
}

func TestAPortThatOnlyPassesFramesKeepsNoneOfTheirMemory(t *testing.T) {
	s := mem.NewSwitch(mem.Config{})
	a, b := s.Port(), s.Port()
	for range 1000 {
		linktest.Send(t, a, b.Addr(), []byte("x"))
		f := b.Peek(a.Addr())
		if f == nil {
			t.Fatal("a frame that has been sent is not there")
		}
		b.Pass(0, len(f))
	}
	if n := s.Buffers(); n > 3*16 {
		t.Errorf("%d buffers have been made for one frame at a time; want as many as two ports keep", n)
	}
}

// checker checks that the frames of each source arrive in sequence.
type checker struct {
	next   map[link.Addr]uint64
	frames int
	errs   atomic.Value
}

func (c *checker) Receive(_ clock.Time, from link.Addr, frame []byte) {
	n := binary.LittleEndian.Uint64(frame)
	if n != c.next[from] || len(frame) != 8+int(n%200) {
		c.errs.Store(fmt.Sprintf("frame %d of %d bytes from %v; want frame %d", n, len(frame), from, c.next[from]))
	}
	c.next[from] = n + 1
	c.frames++
}

func (c *checker) ReceiveRun(now clock.Time, from link.Addr, frames []byte, size int) {
	link.Each(c, now, from, frames, size)
}

// Every port sends to all others and receives from all, each in its own goroutine. Queues are
// short, so that they fill up and ports compete for the last place.
func TestHammer(t *testing.T) {
	const ports, each = 4, 5000
	s := mem.NewSwitch(mem.Config{Queue: 16})
	all := make([]*mem.Port, ports)
	wakes := make([]atomic.Int64, ports)
	for i := range all {
		all[i] = s.Port()
		all[i].Notify(func() { wakes[i].Add(1) })
	}
	var wg sync.WaitGroup
	for i, p := range all {
		wg.Go(func() {
			c := &checker{next: map[link.Addr]uint64{}}
			var sent [ports]uint64
			for total := 0; total < each*(ports-1) || c.frames < each*(ports-1); {
				for j := range all {
					if j == i || sent[j] == each {
						continue
					}
					if f := p.Reserve(all[j].Addr()); f != nil {
						binary.LittleEndian.PutUint64(f, sent[j])
						p.Commit(8 + int(sent[j]%200))
						sent[j]++
						total++
					}
				}
				p.Flush(0)
				if n, _ := p.Poll(0, c); n == 0 {
					runtime.Gosched() // there are fewer cores than ports
				}
			}
			if e := c.errs.Load(); e != nil {
				t.Errorf("port %d: %v", i, e)
			}
		})
	}
	wg.Wait()
	for i := range wakes {
		if wakes[i].Load() == 0 {
			t.Errorf("port %d was never woken", i)
		}
	}
}

func TestPortsMayCloseWhileOthersSendToThem(t *testing.T) {
	s := mem.NewSwitch(mem.Config{Queue: 8})
	a := s.Port()
	for range 200 {
		b := s.Port()
		var wg sync.WaitGroup
		wg.Go(func() {
			for i := range 50 {
				if a.Reserve(b.Addr()) != nil {
					a.Commit(i)
				}
			}
		})
		wg.Go(func() {
			b.Poll(0, &linktest.Inbox{})
			if err := b.Close(); err != nil {
				t.Error(err)
			}
		})
		wg.Wait()
	}
}

func BenchmarkOneWay(b *testing.B) {
	s := mem.NewSwitch(mem.Config{})
	p, q := s.Port(), s.Port()
	var in drop
	for b.Loop() {
		p.Reserve(q.Addr())
		p.Commit(64)
		q.Poll(0, in)
	}
}

type drop struct{}

func (drop) Receive(clock.Time, link.Addr, []byte) {}

func (d drop) ReceiveRun(now clock.Time, from link.Addr, frames []byte, size int) {
	link.Each(d, now, from, frames, size)
}
