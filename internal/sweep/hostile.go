package sweep

import (
	"context"
	"encoding/binary"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/simulated"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/sim"
)

// hostile is a process that writes arbitrary data into its interface: random words anywhere,
// commands that do not exist, contexts without meaning, and contexts that are almost valid. Its
// NIC may expel it. It must have no other effect.
type hostile struct {
	w     *world
	kinds int // kinds of misbehaviour: milder ones are tolerated for longer
	rng   *rand.Rand
	seg   *vni.Segment
	rw    []byte
	vni   *vni.Process
}

// byHostile reports whether a name is that of a hostile process. The ledger does not hold
// messages of such processes.
func byHostile(name string) bool { return strings.HasPrefix(name, "evil/") }

func (h *hostile) main(p *sim.Process) error {
	h.rng = p.Rand()
	h.seg, h.rw = simulated.VNI(p)
	h.vni = h.seg.Process()
	h.kinds = 1 + h.rng.IntN(4)
	for h.w.phase == load && !p.Detached() {
		for range 1 + h.rng.IntN(20) {
			h.misbehave()
		}
		simulated.Ring(p)
		p.Runtime().Sleep(context.Background(), time.Duration(h.rng.Int64N(int64(time.Millisecond))))
	}
	return nil
}

func (h *hostile) misbehave() {
	defer func() { _ = recover() }() // the process may harm itself
	if h.rng.IntN(4) == 0 {
		h.nearlyRight()
		return
	}
	switch 3 - h.rng.IntN(h.kinds) {
	case 0:
		// any word
		at := h.rng.IntN(len(h.rw)/8) * 8
		binary.LittleEndian.PutUint64(h.rw[at:], h.rng.Uint64()>>h.rng.IntN(64))
	case 1:
		h.post()
	case 2:
		if i, ok := h.vni.TakeSend(); ok {
			h.vni.SetSend(i, h.sendContext())
			h.vni.Post(vni.Command{Code: vni.Code(1 + h.rng.IntN(40)), Context: uint16(i),
				Size: h.rng.Uint32() >> h.rng.IntN(32)})
		}
	case 3:
		if i, ok := h.vni.TakeReceive(); ok {
			h.vni.SetReceive(i, &vni.ReceiveContext{Tag: h.rng.Uint64N(4), PoolIndex: int32(h.rng.Uint32()),
				Size: h.rng.Uint32() >> h.rng.IntN(32), Len: h.rng.Uint64() >> h.rng.IntN(64)})
			h.vni.Post(vni.Command{Code: [3]vni.Code{vni.CodeReceive, vni.CodeReceiveRing,
				vni.CodeReceiveDatagram}[h.rng.IntN(3)], Context: uint16(i)})
		}
	}
}

// nearlyRight posts a run or a ring that is valid except for one thing: lengths that differ from
// those of its bytes, or its count of bytes read. It sends messages to its own ring.
func (h *hostile) nearlyRight() {
	pool := h.seg.Pool()
	if len(pool) < limits.PageBytes {
		return
	}
	if h.rng.IntN(2) == 0 {
		count, n := 1+h.rng.IntN(20), h.rng.IntN(2000)
		for k := range count {
			binary.LittleEndian.PutUint16(pool[2*k:], uint16(h.rng.IntN(200)))
		}
		to, _ := vni.ParseName(pick(h.rng, h.w.names...))
		h.start(vni.CodeSendRun, uint32(count),
			&vni.SendContext{Receiver: to, Tag: h.rng.Uint64N(4), Size: 1, Len: uint64(2*count + n)})
		return
	}
	if i, ok := h.vni.TakeReceive(); ok {
		h.vni.SetReceive(i, &vni.ReceiveContext{Flags: vni.WantNotify | vni.AnyTag, Size: 1, Len: limits.PageBytes,
			Most: 1 + h.rng.Uint64N(1000)})
		h.vni.SetConsumed(i, h.vni.Produced(i), 0)
		h.vni.Post(vni.Command{Code: vni.CodeReceiveRing, Context: uint16(i)})
		if h.rng.IntN(2) == 0 {
			h.vni.SetConsumed(i, h.rng.Uint64()>>h.rng.IntN(64), h.rng.Uint32()>>h.rng.IntN(32))
		}
	}
	h.start(vni.CodeSend, 0,
		&vni.SendContext{Receiver: h.vni.Identity().Name, Tag: h.rng.Uint64N(4), Size: 1, Len: h.rng.Uint64N(2000)})
}

// start posts a send from the first page of the pool.
func (h *hostile) start(code vni.Code, size uint32, c *vni.SendContext) {
	if i, ok := h.vni.TakeSend(); ok {
		c.Flags, c.Token = vni.WantNotify, 1<<16|uint32(i)
		h.vni.SetSend(i, c)
		h.vni.Post(vni.Command{Code: code, Context: uint16(i), Size: size})
	}
}

func (h *hostile) post() {
	h.vni.Post(vni.Command{Code: vni.Code(h.rng.IntN(256)), Context: uint16(h.rng.IntN(70)), Group: h.rng.Uint32(),
		Size: uint32(h.rng.IntN(3))})
}

func (h *hostile) sendContext() *vni.SendContext {
	to, _ := vni.ParseName(pick(h.rng, h.w.names...))
	c := &vni.SendContext{
		Receiver: to, Gen: uint32(h.rng.IntN(3)), Tag: h.rng.Uint64N(4), Flags: h.rng.Uint32() >> h.rng.IntN(32),
		Token:     h.rng.Uint32(),
		PoolIndex: int32(h.rng.Uint32()) >> h.rng.IntN(32), Size: h.rng.Uint32() >> h.rng.IntN(32),
		Len: h.rng.Uint64() >> h.rng.IntN(64),
	}
	if h.rng.IntN(4) == 0 {
		c.NIC, c.Slot = nicID(h.rng.IntN(h.w.plan.nics+1)), uint16(h.rng.IntN(6))
	}
	c.Remote.NIC, c.Remote.Slot, c.Remote.Gen = nicID(h.rng.IntN(h.w.plan.nics)), uint16(h.rng.IntN(4)),
		uint32(h.rng.IntN(3))
	c.Remote.Region, c.Remote.Key = uint32(h.rng.IntN(3)), h.rng.Uint64()
	c.Remote.Offset = h.rng.Uint64() >> h.rng.IntN(64)
	return c
}
