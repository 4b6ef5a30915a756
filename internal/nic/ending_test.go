package nic

import (
	"fmt"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/link/fault"
	"github.com/weftnet/weft/internal/vni"
)

// ending holds two processes with operations of every kind in progress between them, at both of
// them: short, staged, eager and long messages, expected and unexpected, multicasts, PUTs and
// GETs.
type ending struct {
	t     *testing.T
	f     *fabric
	a, b  *tester
	ops   []endingOp
	ids   [2]uint32
	alive map[*tester]bool
}

type endingOp struct {
	p       *tester
	receive bool
	ctx     int
}

func newEnding(t *testing.T, nics int, faults fault.Config) *ending {
	x := &ending{t: t, f: newFabric(t, nics, faults)}
	x.a, x.b = x.f.process(0, "a/0"), x.f.process(nics-1, "b/0")
	x.f.known("a/0", "b/0")
	x.alive = map[*tester]bool{x.a: true, x.b: true}
	for i, p := range []*tester{x.a, x.b} {
		o := []*tester{x.b, x.a}[i]
		id, key, err := o.e.AddRegion(o.slot, make([]byte, 100_000))
		if err != nil {
			t.Fatal(err)
		}
		x.ids[1-i] = id
		remote := vni.Remote{NIC: o.e.ID(), Slot: o.slot, Gen: o.gen, Region: id, Key: key}
		for j, n := range []int{10, 3000, 15_000, 60_000} {
			x.add(p, true, p.recv(o.name.String(), uint64(j), 0, make([]byte, n)))
			x.add(p, false, p.send(o.name.String(), uint64(j), uint32(j%2)*vni.WantAccept, pattern(n, 1)))
			x.add(p, false, p.send(o.name.String(), 99, 0, pattern(n, 1))) // no receive takes these
			x.add(p, false, p.multicast([]string{o.name.String(), o.name.String()}, 98, pattern(n, 1)))
			x.add(p, false, p.start(vni.CodePut, &vni.SendContext{Flags: vni.WantNotify, Remote: remote}, pattern(n, 1)))
			x.add(p, false, p.start(vni.CodeGet, &vni.SendContext{Flags: vni.WantNotify, Remote: remote}, make([]byte, n)))
		}
		// No message comes for this one.
		x.add(p, true, p.recv(o.name.String(), 77, 0, make([]byte, 10)))
	}
	return x
}

func (x *ending) add(p *tester, receive bool, ctx int) {
	x.ops = append(x.ops, endingOp{p, receive, ctx})
}

func (x *ending) exit(p *tester) {
	p.exit()
	x.alive[p] = false
}

func (x *ending) cancel(p *tester) {
	for _, op := range x.ops {
		if op.p == p && x.alive[p] && !p.done(op.receive, op.ctx) {
			list := vni.CancelSend
			if op.receive {
				list = vni.CancelReceive
			}
			p.post(vni.Command{Code: vni.CodeCancel, Context: uint16(op.ctx), Size: list})
		}
	}
}

// over waits until all operations of the living processes have ended, and receives the unexpected
// messages.
func (x *ending) over() {
	x.f.t.Helper()
	for _, op := range x.ops {
		if x.alive[op.p] {
			x.f.until(8*time.Second, fmt.Sprintf("%v: receive %v, context %d", op.p.name, op.receive, op.ctx), func() bool { return op.p.done(op.receive, op.ctx) })
			op.p.v.Release(op.receive, op.ctx)
		}
	}
	for p, alive := range x.alive {
		for alive && p.e.process(p.slot).stray.n > 0 {
			p.finish(true, p.recv("", 0, vni.AnyTag, make([]byte, 100_000)))
		}
	}
	x.f.noLeaks()
}

// At any step, and for any event, every operation of a surviving process ends, and nothing of the
// others is left behind (decisions 6, 7 and 9).
func TestEveryOperationEndsWhateverEndsUnderIt(t *testing.T) {
	events := []struct {
		name string
		nics int // at least
		do   func(x *ending)
	}{
		{"a process exits", 1, func(x *ending) { x.exit(x.b) }},
		{"both exit", 1, func(x *ending) { x.exit(x.a); x.exit(x.b) }},
		{"one cancels everything and exits", 1, func(x *ending) { x.cancel(x.a); x.exit(x.b) }},
		{"both cancel everything", 1, func(x *ending) { x.cancel(x.a); x.cancel(x.b) }},
		{"the regions are closed", 1, func(x *ending) {
			for i, p := range []*tester{x.a, x.b} {
				if err := p.e.RemoveRegion(x.f.now, p.slot, p.gen, x.ids[i]); err != nil {
					x.t.Error(err)
				}
			}
			x.exit(x.b)
		}},
		{"a NIC falls silent", 2, func(x *ending) {
			x.f.engines = x.f.engines[:1]
			x.alive[x.b] = false
		}},
		{"a NIC says goodbye", 2, func(x *ending) {
			x.f.engines[1].Close(x.f.now)
			x.f.engines = x.f.engines[:1]
			x.alive[x.b] = false
		}},
	}
	for _, ev := range events {
		t.Run(ev.name, func(t *testing.T) {
			for _, pl := range places {
				if pl.nics < ev.nics {
					continue
				}
				stride := 4
				if testing.Short() {
					stride = 1
				}
				for steps := 0; steps < 60; steps += 1 + steps/stride {
					x := newEnding(t, pl.nics, pl.faults)
					// All commands have been read, half of CommandsShared of each of two processes
					// at once.
					for range 7 + steps {
						x.f.step()
					}
					ev.do(x)
					for range 200 {
						x.f.step()
					}
					x.cancelUnwanted()
					x.over()
					if t.Failed() {
						t.Fatalf("%s, after %d steps", pl.name, steps)
					}
				}
			}
		})
	}
}

// cancelUnwanted withdraws the sends without a receive and the receives without a send, if both
// processes live.
func (x *ending) cancelUnwanted() {
	if x.alive[x.a] && x.alive[x.b] {
		x.cancel(x.a)
		x.cancel(x.b)
	}
}
