package hostile

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/weftnet/weft/internal/vni"
)

// bored is the time after which the process stops an act to which the NIC does not react. It then
// leaves and attaches again.
const bored = 500 * time.Millisecond

// flood requests as much as it can of every resource: unwanted sends to working processes, groups
// that never form, names that no process has, memory, and rings of the doorbell without a
// command.
func flood(ctx context.Context, f *foothold) {
	what := f.rng.IntN(6)
	for until := time.Now().Add(bored); !f.gone() && ctx.Err() == nil && time.Now().Before(until); {
		switch what {
		case 0, 1:
			f.floodSends(what == 1)
		case 2:
			f.floodJoins()
		case 3:
			f.floodRegions()
		case 4:
			for range 1000 {
				f.ring()
			}
			f.tally.Acts += 1000
		default:
			for f.send(vni.CodeResolve, 0) {
				f.tally.Acts++
			}
			f.ring()
		}
		f.release(what == 2 || what == 5)
	}
}

// floodSends fills the contexts with short or long messages that no process has requested.
func (f *foothold) floodSends(long bool) {
	n, code := f.rng.IntN(769), vni.CodeSendShort
	if long {
		n, code = f.rng.IntN(256<<10), vni.CodeSend
	}
	for {
		i, ok := f.half.TakeSend()
		if !ok {
			break
		}
		to := f.others[f.rng.IntN(len(f.others))]
		if f.rng.IntN(4) == 0 {
			to = f.name
		}
		c := vni.SendContext{Receiver: to, Tag: f.rng.Uint64(), Flags: vni.WantNotify, Token: 1<<16 | uint32(i),
			PoolIndex: vni.NoPool, Size: 1, Len: uint64(n)}
		if long {
			c.PoolIndex, c.Size = 0, uint32((n+4095)/4096)
		}
		f.half.SetSend(i, &c)
		if !f.half.Post(vni.Command{Code: code, Context: uint16(i)}) {
			f.half.GiveBack(false, i)
			break
		}
		f.tally.Acts++
	}
	f.kick()
}

// floodJoins begins as many joins of groups as there are contexts, and gives up.
func (f *foothold) floodJoins() {
	for {
		i, ok := f.half.TakeSend()
		if !ok {
			break
		}
		group, err := vni.MakeName(fmt.Sprintf("g%d", f.rng.Uint32()), 0)
		if err != nil {
			panic(err)
		}
		f.half.SetSend(i, &vni.SendContext{Receiver: group, Flags: vni.WantNotify, Token: 1<<16 | uint32(i),
			PoolIndex: 0, Size: 2, Len: 2 * vni.RosterBytes})
		if !f.half.Post(vni.Command{Code: vni.CodeJoinGroup, Context: uint16(i), Size: 2}) {
			f.half.GiveBack(false, i)
			break
		}
		f.tally.Acts++
	}
	f.kick()
}

// floodRegions allocates regions until it is refused, and frees all.
func (f *foothold) floodRegions() {
	for range 64 {
		if f.alloc(1<<(12+f.rng.IntN(12))) != nil {
			break
		}
		f.tally.Acts++
	}
	for len(f.regions) > 0 {
		if f.free() != nil {
			return
		}
	}
}

// kick kicks the NIC as a correct process does.
func (f *foothold) kick() {
	if !f.half.Listening() {
		f.ring()
	}
}

// release frees contexts whose operation has ended. If cancel is true, it cancels the other
// operations.
func (f *foothold) release(cancel bool) {
	for i := range f.seg.Geometry().Contexts {
		switch f.half.Doorbell(false, i) {
		case vni.Done:
			f.half.Release(false, i)
		case vni.Used:
			if cancel {
				f.half.Post(vni.Command{Code: vni.CodeCancel, Context: uint16(i), Size: vni.CancelSend})
			}
		}
	}
	f.kick()
}

// tables sends itself empty messages until no more are accepted. It repeatedly posts receives
// that match none of them, and cancels the receives. Each makes the NIC search the whole receive
// table.
func tables(ctx context.Context, f *foothold) {
	until := time.Now().Add(4 * bored)
	alive := func() bool { return !f.gone() && ctx.Err() == nil && time.Now().Before(until) }
	for n := 0; n < 70_000 && alive(); {
		for {
			i, ok := f.half.TakeSend()
			if !ok {
				break
			}
			f.half.SetSend(i, &vni.SendContext{Receiver: f.name, Tag: uint64(n), Flags: vni.WantNotify,
				Token: 1<<16 | uint32(i), PoolIndex: vni.NoPool, Size: 1})
			if !f.half.Post(vni.Command{Code: vni.CodeSendShort, Context: uint16(i)}) {
				f.half.GiveBack(false, i)
				break
			}
			n++
			f.tally.Acts++
		}
		f.kick()
		f.release(false)
	}
	for alive() {
		f.searches()
	}
}

// searches posts receives for a tag that no message has, and cancels them.
func (f *foothold) searches() {
	for range f.seg.Geometry().Contexts {
		i, ok := f.half.TakeReceive()
		if !ok {
			break
		}
		f.half.SetReceive(i,
			&vni.ReceiveContext{Tag: 1<<63 | f.rng.Uint64(), Flags: vni.WantNotify, PoolIndex: 0, Size: 1, Len: 8})
		if !f.half.Post(vni.Command{Code: vni.CodeReceive, Context: uint16(i)}) {
			f.half.GiveBack(true, i)
			break
		}
		f.half.Post(vni.Command{Code: vni.CodeCancel, Context: uint16(i), Size: vni.CancelReceive})
		f.tally.Acts++
	}
	f.kick()
	for i := range f.seg.Geometry().Contexts {
		if f.half.Doorbell(true, i) == vni.Done {
			f.half.Release(true, i)
		}
	}
}

// traffic does the work of a correct process: it sends messages to itself and to others,
// allocates and frees memory, and leaves and attaches again. So a stop or kill can interrupt any
// of it.
func traffic(ctx context.Context, f *foothold) {
	pause := rand.N(5 * time.Millisecond)
	for until := time.Now().Add(bored / 4); !f.gone() && ctx.Err() == nil && time.Now().Before(until); {
		f.floodSends(f.rng.IntN(2) == 0)
		f.searches()
		if f.rng.IntN(4) == 0 && f.alloc(1<<18) == nil {
			f.send(vni.CodeSend, 1<<18)
			f.kick()
			_ = f.free()
		}
		f.release(false)
		time.Sleep(pause)
	}
}
