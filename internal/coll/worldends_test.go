package coll

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/vni"
)

// undertaking is an operation that a member begins.
type undertaking struct {
	what string
	code vni.Code
	tag  uint64
	size int
}

// undertakings are the kinds of operations. Their root is rank 0, if they have one.
var undertakings = []undertaking{
	{"a barrier", vni.CodeBarrier, 0, 0},
	{"a short broadcast", vni.CodeBroadcast, 0, 8},
	{"a long broadcast", vni.CodeBroadcast, 0, limits.BroadcastBytes},
	{"a reduction", vni.CodeReduce, uint64(vni.SumUint64) << 32, 64},
	{"a reduction for all", vni.CodeReduce, uint64(vni.SumUint64)<<32 | vni.AllRanks, 64},
}

// begins begins an operation, with fresh memory.
func (a *actor) begins(u undertaking) *request { return a.does(u.code, u.tag, make([]byte, u.size)) }

// wantBroken checks that a request has ended because a member has gone.
func (w *world) wantBroken(what string, r *request, gone *actor) {
	w.t.Helper()
	at := vni.Address{NIC: r.c.NIC, Slot: r.c.Slot, Gen: r.c.Gen}
	if r.c.Status != vni.StatusGroupBroken || r.c.Tag != uint64(gone.rank) || at != gone.Address {
		w.t.Errorf("%s: ended with %v because of rank %d at %v; expected the end of rank %d at %v", what, r.c.Status, r.c.Tag, at, gone.rank, gone.Address)
	}
}

// The end of a member ends the operations that the others cannot do without it. They learn which
// member has gone, and so does each later operation.
func TestTheEndOfAMemberEndsTheOperationsOfTheOthers(t *testing.T) { // QNIX-54
	for _, u := range undertakings {
		for _, gone := range []int{0, 1, 3} {
			for _, way := range []string{"its process ends", "it leaves", "it cancels the operation", "its NIC is lost"} {
				what := fmt.Sprintf("%s, rank %d: %s", u.what, gone, way)
				w := newWorld(t, 4)
				all := w.group(teamKey, 0, 1, 2, 3, 1)
				var began []*request
				lost := all[gone]
				for i, a := range all {
					if i == gone {
						continue
					}
					if r := a.begins(u); a.at != lost.at || way != "its NIC is lost" {
						began = append(began, r)
					}
				}
				w.run(5 * time.Millisecond)
				switch way {
				case "its process ends":
					lost.at.Gone(lost.Process)
				case "it leaves":
					if r := lost.does(vni.CodeLeave, 0, nil); !r.done || r.c.Status != vni.StatusOK {
						t.Errorf("%s: the leave has ended: %v, with %v", what, r.done, r.c.Status)
					}
				case "it cancels the operation":
					r := lost.begins(u)
					if r.done { // all that it needs was there
						lost.at.Gone(lost.Process)
					} else if lost.at.Cancel(lost.Process, r); r.c.Status != vni.StatusCancelled {
						t.Errorf("%s: the operation has ended %v, with %v", what, r.done, r.c.Status)
					}
				default:
					lost.at.cut = true
				}
				w.ended(what, began...)
				for _, r := range began {
					if r.c.Status != vni.StatusOK {
						w.wantBroken(what, r, lost)
					}
				}
				for i, a := range all {
					if i == gone || way == "its NIC is lost" && a.at == lost.at {
						continue
					}
					later := a.does(vni.CodeBarrier, 0, nil)
					w.ended(what+", later", later)
					w.wantBroken(what+", later", later, lost)
				}
				w.leave(all)
			}
		}
	}
}

// All members that do different things are told so. None waits for the others for ever.
func TestMembersThatDisagreeAreAllToldSo(t *testing.T) { // QNIX-54
	other := func(code vni.Code, tag uint64, size int) undertaking { return undertaking{"", code, tag, size} }
	for what, c := range map[string]struct{ most, one undertaking }{
		"a barrier and a reduction":   {undertakings[0], undertakings[3]},
		"a barrier and a broadcast":   {undertakings[0], other(vni.CodeBroadcast, 3, 8)},
		"a reduction and a barrier":   {undertakings[3], undertakings[0]},
		"a broadcast and a barrier":   {undertakings[1], undertakings[0]},
		"a broadcast and a reduction": {undertakings[1], undertakings[3]},
		"other operators":             {undertakings[3], other(vni.CodeReduce, uint64(vni.MaxUint64)<<32, 64)},
		"other lengths":               {undertakings[3], other(vni.CodeReduce, uint64(vni.SumUint64)<<32, 72)},
		"other receivers":             {undertakings[3], undertakings[4]},
		"other roots of a broadcast":  {undertakings[1], other(vni.CodeBroadcast, 2, 8)},
		"a long one's other root":     {undertakings[2], other(vni.CodeBroadcast, 2, 8)},
	} {
		for _, first := range []bool{false, true} { // the one that differs comes first
			w := newWorld(t, 4)
			all := w.group(teamKey, 0, 1, 2, 3)
			began := make([]*request, len(all))
			if first {
				began[3] = all[3].begins(c.one)
				w.run(5 * time.Millisecond)
			}
			for i, a := range all[:3] {
				began[i] = a.begins(c.most)
			}
			w.run(5 * time.Millisecond)
			if !first {
				began[3] = all[3].begins(c.one)
			}
			var later []*request
			w.run(20 * time.Millisecond)
			for _, a := range all {
				later = append(later, a.does(vni.CodeBarrier, 0, nil))
			}
			w.ended(what, slices.Concat(began, later)...)
			for i, r := range later {
				if r.c.Status != vni.StatusGroupMismatch {
					t.Errorf("%s, first %v: rank %d's operation ends with %v, and its next one with %v; expected %v", what, first, i, began[i].c.Status, r.c.Status, vni.StatusGroupMismatch)
				}
			}
			w.leave(all)
		}
	}
}

// After the loss of a member the others go on in the next epoch of the group, in their old order.
func TestTheOthersGoOnWithoutAMemberThatIsLost(t *testing.T) { // QNIX-54
	w := newWorld(t, 4)
	all := w.group(teamKey, 0, 1, 2, 3)
	live := all
	for epoch := uint32(1); epoch < 3; epoch++ {
		lost := live[1]
		lost.at.cut = true
		live = slices.Delete(slices.Clone(live), 1, 2)
		var began []*request
		for _, a := range live {
			began = append(began, a.does(vni.CodeBarrier, 0, nil))
		}
		w.ended("the barrier", began...)
		for _, r := range began {
			w.wantBroken("the barrier", r, lost)
		}
		key := teamKey
		key.Index = epoch
		var joins []*request
		old := make([]uint32, len(live))
		for i, a := range live {
			old[i] = a.number
			joins = append(joins, a.joins(key, 0, a.number))
			w.run(5 * time.Millisecond)
		}
		w.ended("the shrink", joins...)
		for i, a := range live {
			if a.joined(); a.join.c.Status != vni.StatusOK || a.rank != i || a.size != len(live) {
				t.Fatalf("epoch %d: the join ends with %v, rank %d of %d; expected rank %d of %d", epoch, a.join.c.Status, a.rank, a.size, i, len(live))
			}
		}
		for i, a := range live {
			r := &request{}
			a.at.Command(a.Process, r, vni.Command{Code: vni.CodeLeave, Group: old[i]}, &vni.SendContext{})
			if r.c.Status != vni.StatusOK {
				t.Errorf("epoch %d: the leave of the old group ends with %v", epoch, r.c.Status)
			}
		}
		w.run(20 * time.Millisecond)
		for i, a := range live {
			if n := len(a.Process.members); n != 1 {
				t.Errorf("epoch %d: the process of rank %d has %d seats when the shrink is confirmed", epoch, i, n)
			}
		}
		want := content(0, 5000)
		began = nil
		for i, a := range live {
			b := make([]byte, len(want))
			if i == 0 {
				copy(b, want)
			}
			began = append(began, a.does(vni.CodeBroadcast, 0, b))
		}
		w.ended("the broadcast", began...)
		for i, r := range began {
			if r.c.Status != vni.StatusOK || !bytes.Equal(r.memory, want) {
				t.Errorf("epoch %d: the broadcast ends with %v at rank %d", epoch, r.c.Status, i)
			}
		}
	}
	w.leave(all)
}

// A NIC that was away for longer than its session lasts hears of the groups anew, and a group
// begins with it.
func TestTheNextSessionTellsOfEachMembership(t *testing.T) {
	w := newWorld(t, 3)
	a := w.process(0, 0)
	join := a.joins(teamKey, 2, 0)
	w.run(5 * time.Millisecond)
	far := w.nics[2]
	far.cut = true
	for _, p := range []*place{w.nics[0], w.nics[1]} {
		p.peers[3].Watch(1)
		far.peers[p.cfg.NIC].Watch(1)
	}
	w.until("the sessions end", func() bool { return len(far.up) == 0 && len(w.nics[0].up) == 1 })
	if far.Len() != 0 {
		t.Errorf("NIC 3 knows %d groups of NICs that it has lost", far.Len())
	}
	far.cut = false
	w.nics[0].peers[3].Connect(w.now)
	w.nics[1].peers[3].Connect(w.now)
	w.until("new sessions open", func() bool { return len(far.up) == 2 })
	for _, p := range []*place{w.nics[0], w.nics[1]} {
		p.peers[3].Watch(-1)
		far.peers[p.cfg.NIC].Watch(-1)
	}
	b := w.process(2, 1)
	w.ended("the group is joined", join, b.joins(teamKey, 2, 0))
	if a.joined(); join.c.Status != vni.StatusOK || b.join.c.Status != vni.StatusOK || a.size != 2 {
		t.Errorf("the joins end with %v and %v", join.c.Status, b.join.c.Status)
	}
	w.leave([]*actor{a, b})
}

// Joins that cannot be in one group end with the group's size. The member with the lowest name
// decides.
func TestJoinsOfOtherSizesEndWithTheSizeOfTheGroup(t *testing.T) { // QNIX-54
	for _, crossing := range []bool{false, true} {
		w := newWorld(t, 3)
		a, b, c, late := w.process(0, 0), w.process(1, 1), w.process(2, 2), w.process(1, 3)
		a.joins(teamKey, 2, 0)
		if !crossing {
			w.run(5 * time.Millisecond)
		}
		b.joins(teamKey, 3, 0)
		w.ended("the join of another size", b.join)
		if want := vni.GroupSizes(2, 1); b.join.c.Status != vni.StatusGroupSize || b.join.c.Tag != want {
			t.Errorf("crossing %v: a join of another size ends with %v, %#x; expected %#x", crossing, b.join.c.Status, b.join.c.Tag, want)
		}
		c.joins(teamKey, 2, 0)
		w.ended("the group", a.join, c.join)
		w.run(5 * time.Millisecond)
		late.joins(teamKey, 2, 0)
		w.ended("a join of a group that has all its members", late.join)
		if late.join.c.Status != vni.StatusGroupSize || late.join.c.Tag != vni.GroupSizes(2, 2) || a.join.c.Status != vni.StatusOK || c.join.c.Status != vni.StatusOK {
			t.Errorf("crossing %v: the late join ends with %v, %#x; the others with %v and %v", crossing, late.join.c.Status, late.join.c.Tag, a.join.c.Status, c.join.c.Status)
		}
		w.leave([]*actor{a, b, c, late})
	}
}
