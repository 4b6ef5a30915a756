package nic

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/link/fault"
	"github.com/weftnet/weft/internal/nicid"
	"github.com/weftnet/weft/internal/trust"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/internal/wire"
)

// listTeller is a NIC that sends pieces of revocation lists to NIC 1, which has an authority.
type listTeller struct {
	*fabric
	ca trust.CAKey
	at *Engine
}

func newListTeller(t *testing.T) *listTeller {
	l := &listTeller{ca: trust.CAKey{'a'}}
	l.fabric = newWideFabric(t, 1472, 2, fault.Config{}, func(c *Config) {
		p, err := trust.NewPolicy(trust.PolicyConfig{ID: nicid.ID(c.ID), Authorities: []trust.CAPublic{l.ca.Public()}})
		if err != nil {
			t.Fatal(err)
		}
		c.Trust = p
		c.WallSeconds = morning
	})
	l.at = l.engines[0]
	l.run(10 * time.Millisecond)
	return l
}

// list returns list n of an authority, with the given number of serial numbers.
func (l *listTeller) list(ca trust.CAKey, n uint64, serials int) []byte {
	l.t.Helper()
	r := &trust.RevocationList{Number: n}
	for i := range serials {
		r.Serials = append(r.Serials, uint64(i+1))
	}
	if err := r.Sign(ca.Private()); err != nil {
		l.t.Fatal(err)
	}
	return r.Append(nil)
}

// pieces returns the records of a list of the authority.
func (l *listTeller) pieces(n uint64, list []byte) (all [][]byte) {
	for at := 0; at < len(list); at += revocationPiece {
		b := make([]byte, revocationHead, revocationHead+revocationPiece)
		b[0] = wire.TableRevocation
		binary.LittleEndian.PutUint32(b[4:], uint32(len(list)))
		binary.LittleEndian.PutUint32(b[8:], uint32(at))
		binary.LittleEndian.PutUint64(b[16:], uint64(l.ca.Public().ID()))
		binary.LittleEndian.PutUint64(b[24:], n)
		all = append(all, append(b, list[at:min(at+revocationPiece, len(list))]...))
	}
	return all
}

func (l *listTeller) tell(records ...[]byte) {
	for _, r := range records {
		for !l.engines[1].Utter(1, inTable(r)) {
			l.step()
		}
	}
	l.run(10 * time.Millisecond)
}

func (l *listTeller) want(what string, lists, taken, refused int) {
	l.t.Helper()
	all, changes := l.at.Revocations()
	if len(all) != lists || changes != uint64(taken) || l.at.Count(vni.NICRevocations) != uint64(taken) || l.at.Count(vni.NICRevocationsRefused) != uint64(refused) {
		l.t.Errorf("%s: there are %d lists after %d changes, and %d were refused; want %d, %d, %d", what, len(all), changes,
			l.at.Count(vni.NICRevocationsRefused), lists, taken, refused)
	}
}

func TestAListIsTakenWhateverTheOrderOfItsPieces(t *testing.T) {
	l := newListTeller(t)
	p := l.pieces(3, l.list(l.ca, 3, 200))
	for i := len(p) - 1; i > 0; i-- {
		l.tell(p[i], p[i])
	}
	l.want("without the first piece", 0, 0, 0)
	l.tell(p[0])
	l.want("with all pieces", 1, 1, 0)
	l.tell(l.pieces(2, l.list(l.ca, 2, 300))...)
	l.want("with an older list", 1, 1, 0)
	l.tell(l.pieces(4, l.list(l.ca, 4, 1))...)
	l.want("with a newer list", 1, 2, 0)
	if n := len(l.at.peers.lists.arriving); n != 0 {
		t.Errorf("%d lists are still arriving", n)
	}
}

// A list that the authority has not signed is not kept, and further lists of its sender are
// ignored in this session.
func TestAForgedListIsRefusedAndCounted(t *testing.T) {
	l := newListTeller(t)
	forged := l.list(l.ca, 3, 200)
	forged[100] ^= 1
	l.tell(l.pieces(3, forged)...)
	l.want("a list with a flipped bit", 0, 0, 1)
	l.tell(l.pieces(4, l.list(l.ca, 4, 1))...)
	l.want("a good list of the same NIC", 0, 0, 1)
	if _, err := l.at.Revoke(l.list(trust.CAKey{'b'}, 9, 1)); err == nil {
		t.Error("a list of another authority is taken")
	}
	if newer, err := l.at.Revoke(l.list(l.ca, 4, 1)); !newer || err != nil {
		t.Errorf("a list of this NIC's owner: %v, %v", newer, err)
	}
	l.run(10 * time.Millisecond)
	l.want("in the end", 1, 1, 1)
}

func TestPiecesThatAreNoneAreDroppedAndTheMemoryOfListsIsBounded(t *testing.T) {
	l := newListTeller(t)
	good := l.pieces(3, l.list(l.ca, 3, 200))[1]
	bad := func(change func(b []byte)) []byte {
		b := append([]byte(nil), good...)
		change(b)
		return b
	}
	for i, b := range [][]byte{
		good[:revocationHead], good[:len(good)-1], append(bad(func([]byte) {}), 0),
		bad(func(b []byte) { b[3] = 1 }), bad(func(b []byte) { b[12] = 1 }),
		bad(func(b []byte) { binary.LittleEndian.PutUint32(b[4:], limits.RevocationBytes+1) }),
		bad(func(b []byte) { binary.LittleEndian.PutUint32(b[8:], 1) }),
		bad(func(b []byte) { binary.LittleEndian.PutUint32(b[8:], 1<<31) }),
	} {
		l.tell(b)
		if n := l.at.Count(vni.DropFormat); n != uint64(i+1) {
			t.Errorf("record %d: %d are counted", i, n)
		}
	}
	for n := range uint64(5000) { // each begins another list
		l.tell(bad(func(b []byte) { binary.LittleEndian.PutUint64(b[24:], 10+n) }))
	}
	if n := len(l.at.peers.lists.arriving); n != 1 {
		t.Errorf("%d lists of one NIC are arriving; want the newest alone", n)
	}
	l.engines[1].Close(l.now)
	l.run(10 * time.Millisecond)
	if n := len(l.at.peers.lists.arriving); n != 0 {
		t.Errorf("%d lists of a NIC that has gone are arriving", n)
	}
}

func TestRefusedRequestsOfOtherNICsAreCounted(t *testing.T) {
	f := newFabric(t, 1, fault.Config{})
	f.engines[0].ControlRefused()
	f.engines[0].ControlDropped()
	f.engines[0].ControlDropped()
	f.engines[0].SegmentRefused()
	if r, d := f.engines[0].Count(vni.NICControlRefused), f.engines[0].Count(vni.NICControlDropped); r != 1 || d != 2 {
		t.Errorf("%d refused and %d dropped; want 1 and 2", r, d)
	}
	if n := f.engines[0].Count(vni.NICSegmentsRefused); n != 1 {
		t.Errorf("%d requests about segments are counted as refused; expected 1", n)
	}
}
