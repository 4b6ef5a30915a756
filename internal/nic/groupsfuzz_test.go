package nic

import (
	"testing"

	"github.com/weftnet/weft/internal/link/fault"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/internal/wire"
)

// FuzzRecordsAboutGroups lets a peer send anything about groups while operations are in progress.
// It may spoil the group, but nothing else: no panic, no broken limit, and nothing is left when
// the processes end.
func FuzzRecordsAboutGroups(f *testing.F) {
	for _, h := range []wire.GroupHeader{{Group: 1, Rank: 1}, {Group: 1, Operation: 1, Rank: 1}, {Group: 2, Operation: 2, Rank: 1}} {
		for what := range uint8(10) {
			s := wire.Signal{GroupHeader: h, What: what, Value: 1<<32 | 5000}
			b := make([]byte, wire.SignalLen)
			s.Put(b)
			f.Add(b)
		}
		for what := range uint8(4) {
			p := wire.Piece{GroupHeader: h, Root: 1, Length: 8, What: what, Operator: uint8(vni.SumInt64)}
			b := make([]byte, wire.PieceLen+8)
			p.Put(b, 8)
			f.Add(b)
		}
	}
	for _, op := range []byte{wire.TableJoin, wire.TableLeave} {
		m := vni.Name{}
		copy(m.App[:], "m")
		told := news(op, 2, m, 1, 7, 1, 3) // the peer has announced rank 1
		b := make([]byte, wire.RecordLen+len(told))
		wire.PutTable(b, len(told))
		copy(b[wire.RecordLen:], told)
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if wire.CheckRecords(b) != nil {
			return
		}
		fb := newFabric(t, 2, fault.Config{})
		// Ranks 0 and 2 on the first NIC, with numbers 1 and 2; rank 1 on the second.
		g := newTeam(fb, 3)
		e := fb.engines[0]
		g.members[0].broadcast(g.numbers[0], 1, make([]byte, 8))
		g.members[2].reduce(g.numbers[2], vni.AllRanks, vni.SumInt64, make([]byte, 8))
		g.members[2].barrier(g.numbers[2], 3)
		fb.step()
		for len(b) > 0 {
			var r wire.Record
			r, b = wire.NextRecord(b)
			switch r.Type() {
			case wire.TypeSignal, wire.TypePiece, wire.TypeTable:
				(*handler)(e).Deliver(fb.now, e.peers.list[0].ep, r)
			}
		}
		for range 200 {
			fb.step()
			if err := e.Limits(); err != nil {
				t.Fatal(err)
			}
		}
		for _, p := range g.members {
			p.exit()
		}
		fb.noLeaks()
	})
}
