package coll

import (
	"encoding/binary"
	"testing"

	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/internal/wire"
)

// shrinking is a group of a process here, rank 0, and one at each of two peers. The process at
// NIC 3 has ended, and the other two shrink the group.
type shrinking struct {
	*team
	old uint32 // number of the membership here in the first group
}

// tell handles news of the process at NIC 2, which has this number in the group of an epoch.
func (s *shrinking) tell(op byte, epoch, number, blamed, last uint32) {
	pr := s.peers[2]
	b := news(op, pr.news.heard+1, "p0", 1, number, blamed)
	binary.LittleEndian.PutUint32(b[16:], epoch)
	binary.LittleEndian.PutUint32(b[76:], last)
	s.News(pr, b)
	s.Run()
}

// shrink begins a shrink of the membership with a number to an epoch.
func (s *shrinking) shrink(number, epoch uint32) *request {
	key := teamKey
	key.Index = epoch
	r := &request{memory: make([]byte, 3*vni.RosterBytes)}
	s.Command(s.local[0], r, vni.Command{Code: vni.CodeJoinGroup, Group: number}, &vni.SendContext{Receiver: key})
	s.Run()
	return r
}

// hears handles a signal of operation 0 from NIC 2, whose process has rank 1.
func (s *shrinking) hears(what uint8, epoch uint32) {
	m := s.members[s.number]
	h := wire.GroupHeader{Group: s.number, Epoch: epoch, Rank: 1}
	s.Signal(s.peers[2], wire.Signal{GroupHeader: h, What: what, Value: m.g.sum})
	s.Run()
}

func (s *shrinking) leave(number uint32) vni.Status {
	r := &request{}
	s.Command(s.local[0], r, vni.Command{Code: vni.CodeLeave, Group: number}, &vni.SendContext{})
	return r.c.Status
}

// newShrinking returns the group after the process here has its new group of epoch 1, and has
// left the first one.
func newShrinking(t *testing.T) *shrinking {
	s := &shrinking{team: newTeam(newEngine(t, 2), 1, 2)}
	s.old = s.numbers[0]
	for round := range uint8(2) {
		h := wire.GroupHeader{Group: s.old, Rank: 2 - uint32(round)}
		s.Signal(s.peers[3-uint64(round)], wire.Signal{GroupHeader: h, What: signalRound, Round: round, Value: s.member(0).g.sum})
	}
	s.News(s.peers[3], news(wire.TableLeave, 2, "p1", 1, 1, 0))
	join := s.shrink(s.old, 1)
	s.tell(wire.TableJoin, 1, 2, 0, 0)
	s.hears(signalRound, 1)
	if !join.done || join.c.Status != vni.StatusOK {
		t.Fatalf("the shrink ended: %v, with %v", join.done, join.c.Status)
	}
	if status := s.leave(s.old); status != vni.StatusOK {
		t.Fatalf("leave of the first group: %v", status)
	}
	return s
}

func TestASeatInTheOldGroupStaysUntilTheShrinkIsConfirmed(t *testing.T) {
	s := newShrinking(t)
	m := s.members[s.old]
	if m == nil || s.byKey[teamKey].seatOf(s.local[0].Address) == nil {
		t.Fatal("the seat in the first group is given up before the shrink is confirmed")
	}
	if status := s.leave(s.old); status != vni.StatusNoGroup {
		t.Errorf("a second leave of the first group: %v; expected %v", status, vni.StatusNoGroup)
	}
	if l, _ := s.Standings(s.local[0], 1, 9); len(l) != 1 || vni.Epoch(&l[0].Key) != 1 {
		t.Errorf("the process stands in %+v; expected the new group alone", l)
	}
	h := wire.GroupHeader{Group: s.number, Epoch: 1, Rank: 1}
	s.Signal(s.peers[2], wire.Signal{GroupHeader: h, What: signalJoined, Value: s.members[s.number].g.sum + 1})
	if s.members[s.old] == nil {
		t.Fatal("a confirmation of other seats gives up the seat in the first group")
	}
	s.hears(signalJoined, 1)
	if s.members[s.old] != nil || len(s.local[0].members) != 1 {
		t.Error("the seat in the first group stays after the shrink is confirmed")
	}
}

func TestAMemberThatHasShrunkWaitsForOneWhoseJoinHasFailed(t *testing.T) {
	s := newShrinking(t)
	s.tell(wire.TableLeave, 1, 2, 0, 1<<32-1) // its join has failed
	again := s.shrink(s.number, 2)
	if again.done {
		t.Fatalf("the second shrink ended with %v; expected that it waits for rank 1", again.c.Status)
	}
	if s.hears(signalFull, 2); again.done { // signalFull does not apply to a shrink
		t.Fatalf("the second shrink ended with %v, because a NIC says that the group is full", again.c.Status)
	}
	s.tell(wire.TableJoin, 2, 3, 0, 0)
	s.hears(signalRound, 2)
	if !again.done || again.c.Status != vni.StatusOK || uint32(again.c.Tag) != 2 {
		t.Fatalf("the second shrink ended: %v, with %v and %d members; expected 2", again.done, again.c.Status, uint32(again.c.Tag))
	}
	s.hears(signalJoined, 2)
	s.Gone(s.local[0])
	if s.wantIdle(); len(s.members) != 0 {
		t.Errorf("%d members", len(s.members))
	}
}

// A leave names the member that made the join fail. A rank outside the group is not believed.
func TestAJoinThatFailsIsBlamedOnTheMemberThatHasGone(t *testing.T) {
	for _, c := range []struct {
		blamed, last uint32
		want         uint64
	}{{1, 1<<32 - 1, 0}, {2, 1<<32 - 1, 1}, {0, 1<<32 - 1, 1}, {3, 1<<32 - 1, 1}, {1, 0, 1}} {
		s := newShrinking(t)
		s.tell(wire.TableLeave, 1, 2, c.blamed, c.last)
		r := &request{}
		s.Command(s.local[0], r, vni.Command{Code: vni.CodeBarrier, Group: s.number, Size: 2}, &vni.SendContext{})
		if !r.done || r.c.Status != vni.StatusGroupBroken || r.c.Tag != c.want {
			t.Errorf("blamed %d, last %d: the barrier ended with %v because of rank %d; expected rank %d", c.blamed, int32(c.last), r.c.Status, r.c.Tag, c.want)
		}
	}
}

func TestTheEndOfAProcessGivesUpItsOldSeats(t *testing.T) {
	s := newShrinking(t)
	s.Gone(s.local[0])
	if s.wantIdle(); len(s.members) != 0 {
		t.Errorf("%d members", len(s.members))
	}
	s = newShrinking(t)
	if status := s.leave(s.number); status != vni.StatusOK || len(s.members) != 0 {
		t.Errorf("leave of the new group: %v, and %d memberships stay", status, len(s.members))
	}
}
