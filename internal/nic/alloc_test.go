package nic

import (
	"testing"
	"time"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/link/fault"
	"github.com/weftnet/weft/internal/vni"
)

// repost is tester.start and tester.recv without their own allocations.
func (p *tester) repost(receive bool, c *vni.SendContext, r *vni.ReceiveContext, code vni.Code, parts [][]byte) int {
	take := p.v.TakeSend
	if receive {
		take = p.v.TakeReceive
	}
	i, ok := take()
	for !ok {
		p.f.step()
		i, ok = take()
	}
	if receive {
		p.v.SetReceive(i, r)
	} else {
		c.Token = 1<<16 | uint32(i)
		p.v.SetSend(i, c)
	}
	p.v.SetDirect(receive, i, parts)
	for !p.v.Post(vni.Command{Code: code, Context: uint16(i)}) {
		p.f.step()
	}
	if !p.v.Listening() {
		p.e.Ring(p.slot)
	}
	return i
}

// ended steps until a context is done, and frees it.
func (p *tester) ended(receive bool, i int) {
	for p.v.Doorbell(receive, i) != vni.Done {
		p.f.step()
	}
	if s := p.v.Completion(receive, i).Status; s != vni.StatusOK {
		p.f.t.Fatalf("ended with %v", s)
	}
	p.v.Release(receive, i)
}

func TestTheSteadyDataPathAllocatesNothing(t *testing.T) { // decision 16
	places := []struct {
		name string
		nics int
		// Any fault config removes the property Reliable from the link, so that all of rel runs.
		bad fault.Config
	}{{"local", 1, fault.Config{}}, {"mem", 2, fault.Config{}}, {"lossy", 2, fault.Config{Seed: 1}}}
	sizes := []struct {
		name string
		n    int
	}{{"empty", 0}, {"short", 64}, {"copied", limits.CopiedMessage}, {"eager", limits.StagedMessage}, {"long", 300_000}}
	for _, pl := range places {
		f := newFabric(t, pl.nics, pl.bad)
		a, b := f.process(0, "a/0"), f.process(pl.nics-1, "b/0")
		f.known("a/0", "b/0")
		region := make([]byte, 300_000)
		id, key, err := b.e.AddRegion(b.slot, region)
		if err != nil {
			t.Fatal(err)
		}
		for _, size := range sizes {
			data, buf := [][]byte{make([]byte, size.n)}, [][]byte{make([]byte, size.n)}
			message := vni.SendContext{Receiver: b.name, Flags: vni.WantNotify, PoolIndex: vni.NoPool, Len: uint64(size.n)}
			delivered := message
			delivered.Flags |= vni.WantAccept
			memory := message
			memory.Remote = vni.Remote{NIC: b.e.ID(), Slot: b.slot, Gen: b.gen, Region: id, Key: key}
			receive := vni.ReceiveContext{Flags: vni.WantNotify, PoolIndex: vni.NoPool, Len: uint64(size.n)}
			for _, op := range []struct {
				name string
				run  func()
			}{
				{"expected", func() {
					r := b.repost(true, nil, &receive, vni.CodeReceive, buf)
					a.ended(false, a.repost(false, &message, nil, vni.CodeSend, data))
					b.ended(true, r)
				}},
				{"unexpected", func() {
					s := a.repost(false, &message, nil, vni.CodeSend, data)
					for range 50 {
						f.step()
					}
					b.ended(true, b.repost(true, nil, &receive, vni.CodeReceive, buf))
					a.ended(false, s)
				}},
				{"delivered", func() {
					r := b.repost(true, nil, &receive, vni.CodeReceive, buf)
					a.ended(false, a.repost(false, &delivered, nil, vni.CodeSend, data))
					b.ended(true, r)
				}},
				{"put", func() { a.ended(false, a.repost(false, &memory, nil, vni.CodePut, data)) }},
				{"get", func() { a.ended(false, a.repost(false, &memory, nil, vni.CodeGet, data)) }},
			} {
				t.Run(pl.name+"/"+size.name+"/"+op.name, func(t *testing.T) {
					f.t = t
					warm, runs := 300, 50
					if testing.Short() {
						warm, runs = 100, 10
					}
					for range warm { // tables and pools reach their size
						op.run()
					}
					if n := f.allocations(runs, op.run); n != 0 {
						t.Errorf("%v allocations a time", n)
					}
				})
			}
		}
		f.t = t
		f.noLeaks()
	}
}

func TestAnIdlePollVisitsNoIdleProcess(t *testing.T) { // decision 11
	f := newFabric(t, 1, fault.Config{})
	const many = 1024
	g := vni.Geometry{Commands: 16, Contexts: 2, Descriptors: 1}
	for i := range many {
		rw, ro := g.Sizes()
		seg, err := vni.NewSegment(words(rw), words(ro), g)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := f.register(f.engines[0], vni.Name{App: [limits.NameBytes]byte{'p'}, Index: uint32(i)}, seg, nil); err != nil {
			t.Fatal(err)
		}
	}
	e := f.engines[0]
	for range limits.IdlePolls + 10 {
		f.now = f.now.Add(time.Microsecond)
		e.Poll(f.now)
	}
	if e.Listening() || e.active.n != 0 || e.turns.ready.n != 0 {
		t.Fatalf("%d processes are still visited, %d take turns", e.active.n, e.turns.ready.n)
	}
	visits := func(what string, polls, want uint64) {
		t.Helper()
		before := e.Count(vni.NICVisits)
		for range polls {
			f.now = f.now.Add(time.Microsecond)
			e.Poll(f.now)
		}
		if n := e.Count(vni.NICVisits) - before; n != want {
			t.Errorf("%s: %d polls make %d visits; want %d", what, polls, n, want)
		}
	}
	visits("all are idle", 100, 0)
	e.Ring(7)
	if e.active.n != 1 || e.active.front().slot != 7 {
		t.Error("the process that rang is not the one that is visited")
	}
	visits("one rang", 100, 100) // no matter how many others there are
	e.Ring(8)
	visits("two rang", 100, 200)
}
