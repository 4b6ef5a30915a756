package hostile

import (
	"context"
	"encoding/binary"
	"time"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/vni"
)

// ringPages is the number of pool pages of each ring. Neighbouring rings share some of them.
const ringPages = 2

// rings posts rings that share memory, fills them by runs to itself, and overwrites as much of
// both as it can while the NIC uses them. Each life draws the share of misdeeds that the NIC must
// not tolerate.
func rings(ctx context.Context, f *foothold) {
	dares := []int{0, 0, 200, 20}[f.rng.IntN(4)] // one misdeed in this many; 0: never
	for until := time.Now().Add(bored); !f.gone() && ctx.Err() == nil && time.Now().Before(until); {
		for range 1 + f.rng.IntN(10) {
			tolerantly(func() { f.wreck(dares > 0 && f.rng.IntN(dares) == 0) })
			f.tally.Acts++
		}
		f.kick()
		tolerantly(f.look)
	}
}

// wreck commits one misdeed.
func (f *foothold) wreck(dares bool) {
	r, contexts := f.rng, f.seg.Geometry().Contexts
	i := r.IntN(contexts)
	switch n := r.IntN(8); {
	case dares:
		f.half.SetConsumed(i, f.half.Produced(i)+r.Uint64()>>r.IntN(64), r.Uint32()>>r.IntN(32))
	case n == 0:
		f.postRing()
	case n == 1: // pretends to have read everything
		f.half.SetConsumed(i, f.half.Produced(i), 0)
		f.half.Post(vni.Command{Code: vni.CodeRefill, Context: uint16(i), Size: vni.CancelReceive})
	case n == 2: // without an effect
		f.half.Post(vni.Command{Code: vni.CodeRefill, Context: uint16(i), Size: vni.CancelReceive})
	case n == 3:
		f.half.Post(vni.Command{Code: vni.CodeCancel, Context: uint16(i), Size: vni.CancelReceive})
	case n == 4: // overwrites data that the NIC has written, or is about to send
		pool := f.seg.Pool()
		for range 64 {
			pool[r.IntN(len(pool))] = byte(r.Uint32())
		}
	default:
		f.sendRun()
	}
}

// postRing posts a ring for messages from any sender, usually of a valid size.
func (f *foothold) postRing() {
	i, ok := f.half.TakeReceive()
	if !ok {
		return
	}
	r := f.rng
	c := vni.ReceiveContext{Flags: vni.WantNotify | vni.AnyTag,
		PoolIndex: int32(r.IntN(max(f.seg.Geometry().PoolPages-ringPages, 1))), Size: ringPages,
		Len: ringPages * limits.PageBytes, Most: r.Uint64N(1000)}
	if r.IntN(16) == 0 {
		c.Len, c.Most = r.Uint64()>>r.IntN(64), r.Uint64()>>r.IntN(64)
	}
	f.half.SetConsumed(i, f.half.Produced(i), 0)
	f.half.SetReceive(i, &c)
	f.half.Post(vni.Command{Code: vni.CodeReceiveRing, Context: uint16(i)})
}

// sendRun sends many messages by one command, usually to itself. It changes their lengths before
// or after the NIC reads them.
func (f *foothold) sendRun() {
	i, ok := f.half.TakeSend()
	if !ok {
		return
	}
	r, pages := f.rng, f.seg.Geometry().PoolPages
	page := r.IntN(max(pages-1, 1))
	mem := f.seg.Pool()[page*limits.PageBytes:]
	count, sum := 1+r.IntN(40), 0
	for k := range count {
		n := r.IntN(80)
		binary.LittleEndian.PutUint16(mem[2*k:], uint16(n))
		sum += n
	}
	c := vni.SendContext{Receiver: f.name, Tag: r.Uint64N(4), Flags: vni.WantNotify, Token: 1<<16 | uint32(i),
		PoolIndex: int32(page), Size: 1, Len: uint64(2*count + sum)}
	if r.IntN(4) == 0 {
		c.Receiver = f.someone()
	}
	if r.IntN(16) == 0 {
		c.Len = uint64(r.IntN(1 << 17))
	}
	f.half.SetSend(i, &c)
	if !f.half.Post(vni.Command{Code: vni.CodeSendRun, Context: uint16(i), Size: uint32(count)}) {
		f.half.GiveBack(false, i)
		return
	}
	f.kick()
	for range 20 {
		binary.LittleEndian.PutUint16(mem[2*r.IntN(count):], uint16(r.Uint32()))
	}
}
