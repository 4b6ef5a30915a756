package nic

import (
	"testing"

	"github.com/weftnet/weft/internal/link/fault"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/internal/wire"
)

// eagerPiece makes a piece of n bytes of an eager message.
func eagerPiece(id wire.FragmentID, offset, n, length int, env *wire.Envelope, fill byte) wire.Record {
	b := make([]byte, wire.EagerLen+n)
	wire.PutEager(b, id, uint64(offset), uint64(length), env, n)
	for i := range b[wire.EagerLen:] {
		b[wire.EagerLen+i] = fill
	}
	return b
}

// A sender reuses a fragment id's slot at once after it has withdrawn a message. The Withdraw may
// be lost, and so arrive after pieces of the next message.
func TestALateWithdrawDoesNotCostTheNextMessage(t *testing.T) {
	for _, order := range []struct {
		name   string
		pieces []int // of the withdrawn message (1), whose third piece is lost, and of the next (2)
	}{
		{"the old one began first", []int{1, 2, 2, 1}},
		{"the new one began first", []int{2, 1, 2, 1}},
		{"the new one came whole", []int{2, 2, 1, 1}},
	} {
		t.Run(order.name, func(t *testing.T) {
			f := newFabric(t, 2, fault.Config{})
			a, b := f.process(0, "a/0"), f.process(1, "b/0")
			f.known("a/0", "b/0")
			buf := make([]byte, 100)
			r := b.recv("", 0, vni.AnyTag, buf)
			pr := b.e.peerOf(a.e.ID())
			b.e.giveCredit(pr, b.e.procs.at(b.slot))
			env := wire.Envelope{DstSlot: b.slot, DstGen: b.gen, SrcSlot: a.slot, SrcGen: a.gen}
			var sent [3]int
			for _, m := range order.pieces {
				env.Number = uint32(m)
				(*handler)(b.e).Deliver(f.now, pr.ep, eagerPiece(wire.FragmentID(2048*m), 50*sent[m], 50, 50*(4-m), &env, byte(m)))
				sent[m]++
			}
			w := make([]byte, wire.WithdrawLen)
			env.Number = 1
			wire.PutWithdraw(w, 2048, &env)
			(*handler)(b.e).Deliver(f.now, pr.ep, w)
			b.wantReceived(r, buf, eagerPiece(1, 0, 100, 100, &env, 2)[wire.EagerLen:])
			for _, l := range b.e.Leaks() {
				t.Error(l)
			}
		})
	}
}
