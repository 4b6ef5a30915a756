package weft

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/link"
	"github.com/weftnet/weft/internal/link/shm"
	"github.com/weftnet/weft/internal/poller"
	"github.com/weftnet/weft/internal/vni"
)

// BenchmarkStep splits the path of a 64-byte message over shared memory into steps. Each step
// does the work of the step before and more, for both ends. One goroutine does this work, so
// neither end waits, and no cache line moves between cores. docs/performance.md explains
// the steps.
func BenchmarkStep(b *testing.B) {
	b.Run("clock", func(b *testing.B) {
		var now clock.Time
		for range b.N {
			now = poller.Now()
		}
		_ = now
	})
	b.Run("engine-taken", func(b *testing.B) {
		p, _ := neighbours(b)
		for range b.N {
			p.nic.poller.Enter()
			p.nic.poller.Leave(clock.Never)
		}
	})
	b.Run("idle-poll", func(b *testing.B) {
		p, _ := neighbours(b)
		p.nic.poller.Do(func(now clock.Time) {
			for range b.N {
				p.nic.engine.Poll(now)
			}
		})
	})
	b.Run("link", stepLink)
	b.Run("engines", stepEngines)
	b.Run("processes", stepProcesses)
	b.Run("posted", stepPosted)
}

// neighbours returns two processes on two NICs of this host that have already communicated.
func neighbours(b *testing.B) (p, q *Process) {
	ctx := b.Context()
	open := func(name string, nodes ...Node) *Process {
		p, err := Open(ctx, Config{Name: Name{App: name}, Link: SharedMemory(fmt.Sprintf("%s-%d", name, time.Now().UnixNano())), Nodes: nodes})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { p.Close() })
		return p
	}
	p = open("p")
	q = open("q", Node{ID: p.nic.ID(), Addr: p.nic.Addr()})
	within, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if _, err := p.WaitName(within, q.name); err != nil {
		b.Fatal(err)
	}
	for range 100 {
		exchange(b, within, p, q, make([]byte, 64))
		exchange(b, within, q, p, make([]byte, 64))
	}
	b.ResetTimer()
	return p, q
}

func exchange(b *testing.B, ctx context.Context, p, q *Process, buf []byte) {
	if err := p.Send(ctx, q.name, 1, buf); err != nil {
		b.Fatal(err)
	}
	if _, err := q.Recv(ctx, p.name, 1, buf); err != nil {
		b.Fatal(err)
	}
}

// stepLink measures only the ring: it writes, reads and releases a frame as long as that of the
// message.
func stepLink(b *testing.B) {
	listen := func() *shm.Driver {
		d, err := shm.Listen(shm.Config{})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { d.Close() })
		return d
	}
	from, to := listen(), listen()
	var count counter
	from.Reserve(to.Addr())
	from.Commit(128)
	from.Flush(0)
	for count == 0 {
		to.Poll(0, &count)
	}
	var head [6]uint64
	body, n, at, of := make([]byte, 64), 0, to.Addr(), from.Addr()
	post, peek, pass := from.Caps().PostLone, to.Caps().Peek, to.Caps().Pass
	b.ResetTimer()
	for range b.N {
		for !post(0, at, &head, body) { // the end of the ring is in the way
			from.Reserve(at)
			from.Commit(128)
			from.Flush(0)
			to.Poll(0, &count)
		}
		if f := peek(of); len(f) == 112 {
			pass(0, len(f))
			n++
		}
	}
	if n != b.N {
		b.Errorf("%d frames have come of %d", n, b.N)
	}
}

type counter int

func (c *counter) Receive(clock.Time, link.Addr, []byte) { *c++ }

func (c *counter) ReceiveRun(now clock.Time, from link.Addr, frames []byte, size int) {
	link.Each(c, now, from, frames, size)
}

// posted reports whether a Post has sent its message.
func posted(_ clock.Time, ok bool) bool { return ok }

// stepEngines measures the two engines with their link: the name, credit, headers, matching and
// the copy.
func stepEngines(b *testing.B) {
	p, q := neighbours(b)
	from, to, buf := vniName(b, p.name), vniName(b, q.name), make([]byte, 64)
	p.nic.poller.Do(func(now clock.Time) {
		q.nic.poller.Do(func(clock.Time) {
			out, in := p.nic.engine.Straight(p.addr.Slot, p.addr.Generation, poller.Now), q.nic.engine.Straight(q.addr.Slot, q.addr.Generation, poller.Now)
			b.ResetTimer()
			for range b.N {
				for !posted(out.Post(&to, 1, buf)) {
					// Processes credit.
					p.nic.engine.Poll(now)
					// The end of the ring is in the way.
					if room := out.Send(&vni.StraightSend{To: to, Tag: 1, Len: 64}); room != nil {
						copy(room, buf)
						out.Sent()
						break
					}
				}
				if !in.Expect(&from, 1, false) {
					b.Fatal("no message is expected")
				}
				if m := in.Meet(now, buf); m.From == nil {
					b.Fatal("a message was not met")
				}
				if in.Due() != clock.Never {
					q.nic.engine.Poll(now) // sends credit
				}
			}
		})
	})
}

// stepPosted is like stepEngines, but the receive is posted before its message arrives, and
// polls.
func stepPosted(b *testing.B) {
	p, q := neighbours(b)
	w := &vni.StraightReceive{From: vniName(b, p.name), Tag: 1, Buf: make([]byte, 64)}
	to, msg := vniName(b, q.name), make([]byte, 64)
	p.nic.poller.Do(func(now clock.Time) {
		q.nic.poller.Do(func(clock.Time) {
			out, in := p.nic.engine.Straight(p.addr.Slot, p.addr.Generation, poller.Now), q.nic.engine.Straight(q.addr.Slot, q.addr.Generation, poller.Now)
			b.ResetTimer()
			for range b.N {
				if _, ok := in.Receive(w); !ok {
					b.Fatal("a receive is refused")
				}
				room := out.Send(&vni.StraightSend{To: to, Tag: 1, Len: 64})
				for ; room == nil; room = out.Send(&vni.StraightSend{To: to, Tag: 1, Len: 64}) {
					p.nic.engine.Poll(now) // processes credit
				}
				copy(room, msg)
				out.Sent()
				for !w.Done() {
					q.nic.engine.Poll(now)
				}
			}
		})
	})
}

// stepProcesses measures all the work of Send and Recv.
func stepProcesses(b *testing.B) {
	p, q := neighbours(b)
	ctx, buf := context.Background(), make([]byte, 64)
	for range b.N {
		exchange(b, ctx, p, q, buf)
	}
}

func vniName(b *testing.B, n Name) vni.Name {
	vn, err := n.vni()
	if err != nil {
		b.Fatal(err)
	}
	return vn
}
