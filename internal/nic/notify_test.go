package nic

import (
	"testing"
	"time"

	"github.com/weftnet/weft/internal/link/fault"
	"github.com/weftnet/weft/internal/vni"
)

// QNIX-16, QNIX-32: an operation that asks for no notification frees its context and wakes no
// process.
func TestAnOperationWithoutNotificationEndsInSilence(t *testing.T) {
	for name, to := range map[string]int{"on one NIC": 0, "to another": 1} {
		t.Run(name, func(t *testing.T) {
			f := newFabric(t, 2, fault.Config{})
			a, b := f.process(0, "a/0"), f.process(to, "b/0")
			f.known("a/0", "b/0")
			data, buf := pattern(100, 1), make([]byte, 100)
			s, _ := a.v.TakeSend()
			a.v.SetSend(s, &vni.SendContext{Receiver: b.name, Tag: 1, Token: 1<<16 | uint32(s), Len: uint64(len(data)), PoolIndex: vni.NoPool})
			a.v.SetDirect(false, s, [][]byte{data})
			r, _ := b.v.TakeReceive()
			b.v.SetReceive(r, &vni.ReceiveContext{Tag: 1, Len: uint64(len(buf)), PoolIndex: vni.NoPool})
			b.v.SetDirect(true, r, [][]byte{buf})
			a.v.SetSleeping(true)
			b.v.SetSleeping(true)
			a.wakes, b.wakes = 0, 0
			b.post(vni.Command{Code: vni.CodeReceive, Context: uint16(r)})
			a.post(vni.Command{Code: vni.CodeSend, Context: uint16(s)})
			f.until(time.Second, "both contexts are free", func() bool {
				return a.v.Doorbell(false, s) != vni.Used && b.v.Doorbell(true, r) != vni.Used
			})
			if x, y := a.v.Doorbell(false, s), b.v.Doorbell(true, r); x != vni.Free || y != vni.Free {
				t.Errorf("the doorbells are %v and %v; want both free", x, y)
			}
			if a.wakes+b.wakes > 0 {
				t.Errorf("the sender was woken %d times, the receiver %d times", a.wakes, b.wakes)
			}
			if string(buf) != string(data) {
				t.Error("the message has not come")
			}
			f.noLeaks()
		})
	}
}
