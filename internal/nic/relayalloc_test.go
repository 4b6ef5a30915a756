package nic

import (
	"testing"

	"github.com/weftnet/weft/internal/link/fault"
	"github.com/weftnet/weft/internal/vni"
)

// Decision 16: the steady state allocates nothing, at the source or on the way, in one piece or in
// several.
func TestARelayAllocatesNothing(t *testing.T) {
	for _, size := range []int{100, 5000} {
		x := newAudience(t, 6, 2, fault.Config{})
		data := pattern(size, 1)
		m := x.a.multicast(x.names, 1, data)
		list := x.a.list
		received := x.receive(1, data)
		x.a.wantSent(m)
		received()
		bufs := make([][]byte, len(x.to))
		for i := range bufs {
			bufs[i] = make([]byte, size)
		}
		rs := make([]int, len(x.to))
		parts := [][]byte{list, data}
		var sc vni.SendContext
		var rc vni.ReceiveContext
		round := func() {
			for i, p := range x.to {
				k, _ := p.v.TakeReceive()
				rc = vni.ReceiveContext{Tag: 1, Flags: vni.WantNotify, Len: uint64(size), PoolIndex: vni.NoPool}
				p.v.SetReceive(k, &rc)
				p.v.SetDirect(true, k, bufs[i:i+1])
				p.post(vni.Command{Code: vni.CodeReceive, Context: uint16(k)})
				rs[i] = k
			}
			k, _ := x.a.v.TakeSend()
			x.a.uses[k]++
			sc = vni.SendContext{Tag: 1, Token: x.a.uses[k]<<16 | uint32(k), Flags: vni.WantNotify, PoolIndex: vni.NoPool, Len: uint64(len(list) + size)}
			x.a.v.SetSend(k, &sc)
			x.a.v.SetDirect(false, k, parts)
			x.a.post(vni.Command{Code: vni.CodeMulticast, Context: uint16(k), Size: uint32(len(x.to))})
			for i, p := range x.to {
				for !p.done(true, rs[i]) {
					x.step()
				}
				p.v.Release(true, rs[i])
			}
			for !x.a.done(false, k) {
				x.step()
			}
			x.a.v.Release(false, k)
		}
		for range 300 {
			round()
		}
		relayed := x.count(vni.NICRelayedMessages)
		if n := x.allocations(200, round); n >= 1 {
			t.Errorf("a multicast of %d bytes to 10 processes allocates %.1f times", size, n)
		}
		if x.count(vni.NICRelayedMessages) < relayed+2000 {
			t.Error("not all was relayed: this test tests nothing")
		}
	}
}
