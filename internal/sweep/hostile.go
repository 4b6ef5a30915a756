package sweep

import (
	"encoding/binary"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/sim"
)

// hostile is a process that writes into its interface whatever comes to its mind: random words anywhere, commands nobody
// gave, contexts that make no sense and contexts that nearly do. Its NIC may throw it out, and nothing else may happen.
type hostile struct {
	w     *world
	kinds int // of misbehaviour: some are less wild than others, and are borne with longer
	rng   *rand.Rand
	seg   *vni.Segment
	rw    []byte
	vni   *vni.Process
}

// byHostile reports whether a name is that of a hostile process, whose messages are not in the ledger.
func byHostile(name string) bool { return strings.HasPrefix(name, "evil/") }

func (h *hostile) main(p *sim.Process) error {
	h.rng = p.Rand()
	h.seg, h.rw = p.VNI()
	h.vni = h.seg.Process()
	h.kinds = 1 + h.rng.IntN(4)
	for h.w.phase == load && !p.Detached() {
		for range 1 + h.rng.IntN(20) {
			h.misbehave()
		}
		p.Ring()
		p.Sleep(time.Duration(h.rng.Int64N(int64(time.Millisecond))))
	}
	return nil
}

func (h *hostile) misbehave() {
	defer func() { _ = recover() }() // it may well harm itself
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
			h.vni.Post(vni.Command{Code: vni.Code(1 + h.rng.IntN(40)), Context: uint16(i), Size: h.rng.Uint32() >> h.rng.IntN(32)})
		}
	case 3:
		if i, ok := h.vni.TakeReceive(); ok {
			h.vni.SetReceive(i, &vni.ReceiveContext{Tag: h.rng.Uint64N(4), PoolIndex: int32(h.rng.Uint32()), Size: h.rng.Uint32() >> h.rng.IntN(32), Len: h.rng.Uint64() >> h.rng.IntN(64)})
			h.vni.Post(vni.Command{Code: vni.CodeReceive, Context: uint16(i)})
		}
	}
}

func (h *hostile) post() {
	h.vni.Post(vni.Command{Code: vni.Code(h.rng.IntN(256)), Context: uint16(h.rng.IntN(70)), Group: h.rng.Uint32(), Size: uint32(h.rng.IntN(3))})
}

func (h *hostile) sendContext() *vni.SendContext {
	to, _ := vni.ParseName(pick(h.rng, h.w.names...))
	c := &vni.SendContext{
		Receiver: to, Gen: uint32(h.rng.IntN(3)), Tag: h.rng.Uint64N(4), Flags: h.rng.Uint32() >> h.rng.IntN(32), Token: h.rng.Uint32(),
		PoolIndex: int32(h.rng.Uint32()) >> h.rng.IntN(32), Size: h.rng.Uint32() >> h.rng.IntN(32), Len: h.rng.Uint64() >> h.rng.IntN(64),
	}
	if h.rng.IntN(4) == 0 {
		c.NIC, c.Slot = sim.NICID(h.rng.IntN(h.w.plan.nics+1)), uint16(h.rng.IntN(6))
	}
	c.Remote.NIC, c.Remote.Slot, c.Remote.Gen = sim.NICID(h.rng.IntN(h.w.plan.nics)), uint16(h.rng.IntN(4)), uint32(h.rng.IntN(3))
	c.Remote.Region, c.Remote.Key = uint32(h.rng.IntN(3)), h.rng.Uint64()
	c.Remote.Offset = h.rng.Uint64() >> h.rng.IntN(64)
	return c
}
