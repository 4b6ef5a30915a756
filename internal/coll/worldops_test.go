package coll

import (
	"bytes"
	"encoding/binary"
	"slices"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/vni"
)

// layouts are the NICs of the members of a group, by rank.
var layouts = [][]int{{0}, {0, 0}, {0, 1}, {1, 0, 1}, {0, 1, 2}, {2, 2, 1, 0, 1, 2, 0}}

// content returns the data that a root sends.
func content(root, length int) []byte {
	b := make([]byte, length)
	for i := range b {
		b[i] = byte(i*5 + i>>8 + root + 1)
	}
	return b
}

// A join tells each process its rank and all members, in the order of the ranks.
func TestAJoinTellsEachProcessAllMembers(t *testing.T) { // QNIX-54
	for _, of := range layouts {
		w := newWorld(t, 3)
		all := w.group(teamKey, of...)
		w.run(time.Second)
		for i, a := range all {
			c := a.join.c
			if full := uint64(len(of)) * vni.RosterBytes; a.rank != i || a.size != len(of) || a.number == 0 || c.Len != full || c.Full != full || c.NIC != uint64(a.at.members[a.number].g.piece) {
				t.Errorf("members at %v: process %d has rank %d of %d; the completion is %+v", of, i, a.rank, a.size, c)
			}
			for k, other := range all {
				b := a.join.memory[k*vni.RosterBytes:]
				le := binary.LittleEndian
				at := vni.Address{NIC: le.Uint64(b[32:]), Slot: le.Uint16(b[40:]), Gen: le.Uint32(b[28:])}
				if at != other.Address || !bytes.Equal(b[:24], other.Name.App[:]) || le.Uint32(b[24:]) != other.Name.Index {
					t.Errorf("members at %v: process %d is told that rank %d is at %v", of, i, k, at)
				}
			}
			for _, p := range w.nics {
				if p != a.at && !slices.Contains(p.names, a.Name) {
					t.Errorf("NIC %d does not expect the name of process %d", p.cfg.NIC, i)
				}
			}
		}
		w.wantIdle("after the joins")
		w.leave(all)
	}
}

// A barrier lets no member through before all members have entered.
func TestABarrierWaitsForEachMember(t *testing.T) { // QNIX-54
	for _, of := range layouts {
		w := newWorld(t, 3)
		all := w.group(teamKey, of...)
		for last := range all {
			var began []*request
			for i, a := range all {
				if i != last {
					began = append(began, a.does(vni.CodeBarrier, 0, nil))
				}
			}
			w.run(20 * time.Millisecond)
			if slices.ContainsFunc(began, func(r *request) bool { return r.done }) {
				t.Errorf("members at %v: a barrier ends without rank %d", of, last)
			}
			began = append(began, all[last].does(vni.CodeBarrier, 0, nil))
			w.ended("the barrier", began...)
			if slices.ContainsFunc(began, func(r *request) bool { return r.c.Status != vni.StatusOK }) {
				t.Errorf("members at %v: a barrier fails", of)
			}
		}
		w.run(time.Second)
		w.wantIdle("after the barriers")
		if n := w.nics[all[0].at.cfg.NIC-1].counts[vni.NICBarriers]; n == 0 {
			t.Error("no barrier is counted")
		}
		w.leave(all)
	}
}

// Each member gets the bytes of the root, for each length and each order of arrival, although
// frames are lost.
func TestABroadcastReachesEachMember(t *testing.T) { // QNIX-54
	for _, lose := range []int{0, 10} {
		for _, of := range layouts {
			w := newWorld(t, 3)
			all := w.group(teamKey, of...)
			w.lose = lose
			piece := all[0].at.members[all[0].number].g.piece
			for _, length := range []int{0, 1, piece - 1, piece, piece + 1, 2 * piece, 3*piece + 5} {
				root := w.rand.IntN(len(all))
				want := content(root, length)
				var began []*request
				for _, i := range w.rand.Perm(len(all)) {
					b := make([]byte, length)
					if i == root {
						copy(b, want)
					}
					began = append(began, all[i].does(vni.CodeBroadcast, uint64(root), b))
					w.run(time.Duration(w.rand.IntN(3)) * time.Millisecond)
				}
				w.ended("the broadcast", began...)
				for _, r := range began {
					if r.c.Status != vni.StatusOK || r.c.Len != uint64(length) || r.c.Full != uint64(length) || !bytes.Equal(r.memory, want) {
						t.Errorf("members at %v: %d bytes of rank %d: %v, %d of %d bytes, right %v", of, length, root, r.c.Status, r.c.Len, r.c.Full, bytes.Equal(r.memory, want))
					}
				}
			}
			w.lose = 0
			w.run(time.Second)
			w.wantIdle("after the broadcasts")
			w.leave(all)
		}
	}
}

// A member with too little memory gets as much as fits, and is told so. The others get all.
func TestABroadcastIsTruncatedWhereThereIsTooLittleMemory(t *testing.T) {
	for _, length := range []int{100, 5000} {
		w := newWorld(t, 3)
		all := w.group(teamKey, 0, 1, 2)
		want := content(0, length)
		began := []*request{all[0].does(vni.CodeBroadcast, 0, slices.Clone(want)), all[1].does(vni.CodeBroadcast, 0, make([]byte, length-1)), all[2].does(vni.CodeBroadcast, 0, make([]byte, length+1))}
		w.ended("the broadcast", began...)
		for i, c := range []struct {
			status vni.Status
			len    int
		}{{vni.StatusOK, length}, {vni.StatusTruncated, length - 1}, {vni.StatusOK, length}} {
			r := began[i]
			if r.c.Status != c.status || r.c.Len != uint64(c.len) || r.c.Full != uint64(length) || !bytes.Equal(r.memory[:c.len], want[:c.len]) || i == 2 && r.memory[length] != 0 {
				t.Errorf("%d bytes: rank %d ends with %v, %d of %d bytes", length, i, r.c.Status, r.c.Len, r.c.Full)
			}
		}
		if n := w.nics[1].counts[vni.NICTruncated]; n != 1 {
			t.Errorf("%d are counted as truncated", n)
		}
		w.run(time.Second)
		w.wantIdle("afterwards")
		w.leave(all)
	}
}

// The result of a reduction is that of all contributions, at the root or at each member.
func TestAReductionHasAllContributions(t *testing.T) { // QNIX-54
	for _, lose := range []int{0, 10} {
		for _, of := range layouts {
			w := newWorld(t, 3)
			all := w.group(teamKey, of...)
			w.lose = lose
			piece := all[0].at.members[all[0].number].g.piece
			for _, length := range []int{8, 64, piece} {
				for _, root := range []uint64{0, uint64(len(all) - 1), vni.AllRanks} {
					var began []*request
					order := w.rand.Perm(len(all))
					for _, i := range order {
						b := make([]byte, length)
						for k := 0; k < length; k += 8 {
							binary.LittleEndian.PutUint64(b[k:], uint64(1+i+k))
						}
						began = append(began, all[i].does(vni.CodeReduce, uint64(vni.SumUint64)<<32|root, b))
						w.run(time.Duration(w.rand.IntN(3)) * time.Millisecond)
					}
					w.ended("the reduction", began...)
					n := uint64(len(all))
					for k, r := range began {
						has := root == vni.AllRanks || root == uint64(order[k])
						want := 0
						if has {
							want = length
						}
						if r.c.Status != vni.StatusOK || r.c.Len != uint64(want) || r.c.Full != uint64(length) {
							t.Errorf("members at %v, root %d: rank %d ends with %v, %d of %d bytes", of, int32(root), order[k], r.c.Status, r.c.Len, r.c.Full)
						}
						for at := 0; has && at < length; at += 8 {
							if got, sum := binary.LittleEndian.Uint64(r.memory[at:]), n*(n+1)/2+n*uint64(at); got != sum {
								t.Fatalf("members at %v, root %d: at rank %d the sum at %d is %d; expected %d", of, int32(root), order[k], at, got, sum)
							}
						}
					}
				}
			}
			w.lose = 0
			w.run(time.Second)
			w.wantIdle("after the reductions")
			w.leave(all)
		}
	}
}

// A root may be far ahead of a member. Data that the member's NIC cannot keep is fetched when the
// process asks, and is still right.
func TestAMemberThatIsBehindGetsEachBroadcast(t *testing.T) { // QNIX-54
	for _, length := range []int{8, 5000} {
		w := newWorld(t, 3)
		all := w.group(teamKey, 0, 1, 2)
		const most = limits.GroupStagedOperations + 5
		var ahead []*request
		for k := range most {
			ahead = append(ahead, all[0].does(vni.CodeBroadcast, 0, content(k, length)), all[2].does(vni.CodeBroadcast, 0, make([]byte, length)))
			w.run(2 * time.Millisecond)
		}
		w.run(100 * time.Millisecond)
		if w.nics[1].counts[vni.NICCollectivesLate] == 0 {
			t.Fatalf("%d bytes: the NIC keeps all of them, so the test shows nothing", length)
		}
		for k := range most {
			r := all[1].does(vni.CodeBroadcast, 0, make([]byte, length))
			w.ended("the broadcast", r)
			if r.c.Status != vni.StatusOK || !bytes.Equal(r.memory, content(k, length)) {
				t.Errorf("%d bytes: broadcast %d ends with %v, right %v", length, k, r.c.Status, bytes.Equal(r.memory, content(k, length)))
			}
		}
		w.ended("all others", ahead...)
		for i, r := range ahead {
			if r.c.Status != vni.StatusOK || !bytes.Equal(r.memory, content(i/2, length)) {
				t.Errorf("%d bytes: broadcast %d ends with %v at rank %d", length, i/2, r.c.Status, i%2*2)
			}
		}
		w.run(time.Second)
		w.wantIdle("when all have caught up")
		w.leave(all)
	}
}
