package hostile

import (
	"context"
	"time"

	"github.com/weftnet/weft/internal/vni"
)

// scribble writes random words to all the writable memory, as fast as possible.
func scribble(ctx context.Context, f *foothold) {
	for !f.gone() && ctx.Err() == nil {
		for range 4096 {
			f.scribble(0, len(f.rw))
		}
		f.ring()
	}
}

// garble does the work of a correct process with errors: random fields, and fields that change
// while the NIC may be reading them. Each life draws its wildness: a milder process is tolerated
// longer, and gets deeper.
func garble(ctx context.Context, f *foothold) {
	wildness := 1 + f.rng.IntN(4)
	_ = f.alloc(1 << 20)
	until := time.Now().Add(time.Duration(f.rng.IntN(300)) * time.Millisecond)
	for !f.gone() && ctx.Err() == nil && time.Now().Before(until) {
		for range 1 + f.rng.IntN(20) {
			tolerantly(func() { f.misbehave(4 - f.rng.IntN(wildness)) })
			f.tally.Acts++
		}
		f.change()
		f.ring()
		tolerantly(f.look)
	}
}

// misbehave commits one misdeed. A smaller number is wilder.
func (f *foothold) misbehave(n int) {
	r := f.rng
	switch n {
	case 1:
		f.scribble(0, len(f.rw))
	case 2:
		f.half.Post(vni.Command{Code: vni.Code(r.IntN(256)), Context: uint16(r.IntN(70)), Group: r.Uint32(),
			Size: uint32(r.IntN(3))})
	case 3:
		if i, ok := f.half.TakeReceive(); ok {
			f.half.SetDescriptors(true, i, []vni.Descriptor{{Region: uint32(r.IntN(3)), Flag: vni.DescriptorValid,
				Offset: uint64(r.IntN(1 << 21)), Len: uint64(r.IntN(1 << 21))}})
			f.half.SetReceive(i, &vni.ReceiveContext{Tag: r.Uint64N(4), Flags: vni.WantNotify,
				PoolIndex: int32(r.IntN(300) - 40), Size: r.Uint32() >> r.IntN(32), Len: r.Uint64() >> r.IntN(64)})
			f.half.Post(vni.Command{Code: [4]vni.Code{vni.CodeReceive, vni.CodeReceiveRing, vni.CodeReceiveDatagram,
				vni.CodeProbe}[r.IntN(4)], Context: uint16(i)})
		}
	default:
		f.send(f.code(), r.IntN(1<<20))
	}
}

// code returns the code of a command on a send context.
func (f *foothold) code() vni.Code {
	all := []vni.Code{vni.CodeSend, vni.CodeSend, vni.CodeSend, vni.CodeSendShort, vni.CodePut, vni.CodeGet,
		vni.CodeResolve, vni.CodeMulticast,
		vni.CodeMulticastShort, vni.CodeJoinGroup, vni.CodeBarrier, vni.CodeBroadcast, vni.CodeReduce,
		vni.CodeLeave, vni.CodeSendRun, vni.CodeSendDatagram}
	return all[f.rng.IntN(len(all))]
}

// send posts a send of n bytes that is valid in most fields: from the pool, the region, or the
// context.
func (f *foothold) send(code vni.Code, n int) bool {
	r := f.rng
	i, ok := f.half.TakeSend()
	if !ok {
		return false
	}
	c := vni.SendContext{Receiver: f.someone(), Tag: r.Uint64N(4), Flags: uint32(r.IntN(16)) | vni.WantNotify,
		Token: 1<<16 | uint32(i), PoolIndex: vni.NoPool, Size: 1, Len: uint64(n)}
	switch {
	case code == vni.CodeSendShort || code == vni.CodeMulticastShort:
		c.Len = uint64(r.IntN(768))
	case len(f.regions) > 0:
		c.Len = min(c.Len, uint64(len(f.regions[0].mem)))
		f.half.SetDescriptors(false, i,
			[]vni.Descriptor{{Region: f.regions[0].id, Flag: vni.DescriptorValid, Len: c.Len}})
	default:
		c.PoolIndex, c.Size = 0, uint32((n+4095)/4096)
	}
	if code == vni.CodePut || code == vni.CodeGet {
		id := f.half.Identity()
		c.Remote = vni.Remote{NIC: id.NIC, Slot: uint16(r.IntN(6)), Gen: id.Gen + uint32(r.IntN(3)) - 1,
			Region: uint32(r.IntN(3)), Key: r.Uint64()}
	}
	f.half.SetSend(i, &c)
	return f.half.Post(vni.Command{Code: code, Context: uint16(i), Group: uint32(r.IntN(3)),
		Size: uint32(1 + r.IntN(3))})
}

// change alters data that the NIC may be reading: payloads, contexts and descriptors, and
// sometimes a doorbell.
func (f *foothold) change() {
	// The approximate start of the pool: everything else is before it, except for the last page.
	pool := len(f.rw) - f.seg.Geometry().PoolPages*4096
	for range 8 {
		f.scribble(pool, len(f.rw)-8192)
	}
	if len(f.regions) > 0 {
		for range 64 {
			f.regions[0].mem[f.rng.IntN(len(f.regions[0].mem))]++
		}
	}
	if f.rng.IntN(64) == 0 {
		f.scribble(4096+64, pool)
	}
	if f.rng.IntN(1024) == 0 {
		f.scribble(len(f.rw)-4096, len(f.rw))
	}
}

// look usually collects the results of earlier sends and receives.
func (f *foothold) look() {
	for _, receive := range []bool{false, true} {
		for i := range f.seg.Geometry().Contexts {
			if f.rng.IntN(8) > 0 && f.half.Doorbell(receive, i) == vni.Done {
				f.half.Release(receive, i)
			}
		}
	}
}
