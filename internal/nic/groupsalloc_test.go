package nic

import (
	"testing"

	"github.com/weftnet/weft/internal/link/fault"
	"github.com/weftnet/weft/internal/vni"
)

// Decision 16: the steady state allocates nothing.
func TestABarrierAllocatesNothing(t *testing.T) {
	f := newFabric(t, 4, fault.Config{})
	g := newTeam(f, 8)
	ctx := make([]int, len(g.members))
	var sc vni.SendContext
	round := func() {
		for i, p := range g.members {
			k, _ := p.v.TakeSend()
			p.uses[k]++
			sc = vni.SendContext{Token: p.uses[k]<<16 | uint32(k), Flags: vni.WantNotify, PoolIndex: vni.NoPool}
			p.v.SetSend(k, &sc)
			p.v.SetDirect(false, k, nil)
			p.post(vni.Command{Code: vni.CodeBarrier, Context: uint16(k), Group: g.numbers[i], Size: 8})
			ctx[i] = k
		}
		for i, p := range g.members {
			for !p.done(false, ctx[i]) {
				f.step()
			}
			if c := p.v.Completion(false, ctx[i]); c.Status != vni.StatusOK {
				t.Fatal(c.Status)
			}
			p.v.Release(false, ctx[i])
		}
	}
	for range 300 {
		round()
	}
	if n := f.allocations(200, round); n >= 1 {
		t.Errorf("a barrier of 8 members allocates %.1f times", n)
	}
}
