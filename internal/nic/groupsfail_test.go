package nic

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/link/fault"
	"github.com/weftnet/weft/internal/link/mem"
	"github.com/weftnet/weft/internal/vni"
)

func TestJoinsThatCannotBeAreToldSo(t *testing.T) { // QNIX-11, decision 10
	f := newFabric(t, 3, fault.Config{})
	g := newTeam(f, 3)
	stranger, other := f.process(0, "x/0"), f.process(1, "y/0")
	f.known("x/0", "y/0")
	roster := make([]byte, 5*vni.RosterBytes)
	member := g.members[0]
	member.wantStatus(member.startJoin("team", 0, 3, 0, roster), vni.StatusGroupJoined)
	// The group has all its members.
	stranger.wantStatus(stranger.startJoin("team", 0, 3, 0, roster), vni.StatusGroupSize)
	stranger.wantStatus(stranger.startJoin("Team", 0, 3, 0, roster), vni.StatusBadArgument)
	stranger.wantStatus(stranger.startJoin("none", 0, 0, 0, roster), vni.StatusBadArgument)
	// An epoch to which no member has shrunk.
	stranger.wantStatus(stranger.startJoin("late", 3, 2, 0, roster), vni.StatusBadArgument)
	stranger.wantStatus(stranger.startJoin("late", 1, 0, 77, roster), vni.StatusNoGroup)

	first := stranger.startJoin("pair", 0, 2, 0, roster)
	f.until(time.Second, "the join is known", func() bool { return f.engines[1].groups.Len() == 2 })
	// The first member does not notice.
	other.wantStatus(other.startJoin("pair", 0, 3, 0, roster), vni.StatusGroupSize)
	second := other.startJoin("pair", 0, 2, 0, make([]byte, len(roster)))
	stranger.wantStatus(first, vni.StatusOK)
	other.wantStatus(second, vni.StatusOK)

	member.wantStatus(member.barrier(g.numbers[0], 4), vni.StatusGroupSize)
	member.wantStatus(member.barrier(99, 3), vni.StatusNoGroup)
	member.wantStatus(member.broadcast(g.numbers[0], 3, roster), vni.StatusBadArgument)
	member.wantStatus(member.reduce(g.numbers[0], 0, vni.SumInt64, roster[:7]), vni.StatusBadArgument)
	member.wantStatus(member.reduce(g.numbers[0], 0, 0, roster[:8]), vni.StatusBadArgument)
	// Each is counted where it was posted, and by no other NIC.
	for i, want := range []uint64{11, 1, 0} {
		if n := f.engines[i].Count(vni.NICFailedBadArgument); n != want {
			t.Errorf("NIC %d counts %d operations with bad arguments; expected %d", i, n, want)
		}
	}
	g.each(func(i int, p *tester) int { return p.barrier(g.numbers[i], 3) }, g.ok)
	f.noLeaks()
}

func TestJoinsOfDifferentSizesThatCrossAreDecidedByName(t *testing.T) {
	// Polls of the NIC that has the wrong one: later the right ones know of it, but not yet that
	// it is over.
	for ahead := range 2 {
		f := newFabric(t, 2, fault.Config{})
		a, b, c := f.process(0, "a/0"), f.process(1, "b/0"), f.process(0, "c/0")
		f.known("a/0", "b/0", "c/0")
		roster := make([]byte, 3*vni.RosterBytes)
		wrong := b.startJoin("crossed", 0, 3, 0, make([]byte, len(roster)))
		for range ahead {
			f.engines[1].Poll(f.now)
		}
		first := a.startJoin("crossed", 0, 2, 0, roster)
		b.wantStatus(wrong, vni.StatusGroupSize)
		second := c.startJoin("crossed", 0, 2, 0, make([]byte, len(roster)))
		a.wantStatus(first, vni.StatusOK)
		c.wantStatus(second, vni.StatusOK)
		f.noLeaks()
	}
}

func TestWhoWasToldOfAnotherSizeCanJoinWithIt(t *testing.T) {
	f := newFabric(t, 2, fault.Config{})
	a, b := f.process(0, "a/0"), f.process(1, "b/0")
	f.known("a/0", "b/0")
	first := a.startJoin("crossed", 0, 2, 0, make([]byte, 2*vni.RosterBytes))
	b.wantStatus(b.startJoin("crossed", 0, 3, 0, make([]byte, 3*vni.RosterBytes)), vni.StatusGroupSize)
	b.wantStatus(b.startJoin("crossed", 0, 2, 0, make([]byte, 2*vni.RosterBytes)), vni.StatusOK)
	a.wantStatus(first, vni.StatusOK)
	f.noLeaks()
}

// While there is one with another size, no group is complete, and more join than it has room for.
func TestOfJoinsThatWereTooManyTheLowestNamesStay(t *testing.T) {
	f := newFabric(t, 4, fault.Config{})
	a, b, c, wrong := f.process(0, "a/0"), f.process(1, "b/0"), f.process(2, "c/0"), f.process(3, "d/0")
	f.known("a/0", "b/0", "c/0", "d/0")
	larger := wrong.startJoin("crowd", 0, 3, 0, make([]byte, 3*vni.RosterBytes))
	f.engines[3].Poll(f.now)
	var ctx [3]int
	for i, p := range []*tester{a, b, c} {
		ctx[i] = p.startJoin("crowd", 0, 2, 0, make([]byte, 2*vni.RosterBytes))
	}
	wrong.wantStatus(larger, vni.StatusGroupSize)
	c.wantStatus(ctx[2], vni.StatusGroupSize)
	b.wantStatus(ctx[1], vni.StatusOK)
	a.wantStatus(ctx[0], vni.StatusOK)
	f.noLeaks()
}

// The ways in which a member can end, and how the others' operation notices it.
func TestADeathEndsWhatTheOthersWaitForAndNamesTheDead(t *testing.T) {
	for name, end := range map[string]func(f *fabric, p *tester, number uint32){
		"its process ends": func(_ *fabric, p *tester, _ uint32) { p.exit() },
		"its NIC falls silent": func(f *fabric, p *tester, _ uint32) {
			for i, e := range f.engines {
				if e == p.e {
					f.engines = append(f.engines[:i:i], f.engines[i+1:]...)
				}
			}
		},
		"its NIC says goodbye": func(f *fabric, p *tester, _ uint32) { p.e.Close(f.now) },
		"it leaves": func(_ *fabric, p *tester, number uint32) {
			p.startGroup(vni.Command{Code: vni.CodeLeave, Group: number}, &vni.SendContext{}, nil)
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFabric(t, 5, fault.Config{Seed: 9, Loss: 0.05})
			g := newTeam(f, 5)
			const dead = 2
			g.each(func(i int, p *tester) int { return p.barrier(g.numbers[i], 5) }, g.ok)
			ctx := make([]int, 5)
			for i, p := range g.members {
				if i != dead {
					ctx[i] = p.barrier(g.numbers[i], 5)
				}
			}
			for range 500 {
				f.step()
			}
			end(f, g.members[dead], g.numbers[dead])
			for i, p := range g.members {
				if i == dead {
					continue
				}
				c := p.finish(false, ctx[i])
				if c.Status != vni.StatusGroupBroken || c.Tag != dead || c.Slot != g.members[dead].slot || c.NIC != g.members[dead].e.ID() {
					t.Errorf("member %d: %v because of rank %d, slot %d of NIC %d", i, c.Status, c.Tag, c.Slot, c.NIC)
				}
				p.wantStatus(p.barrier(g.numbers[i], 5), vni.StatusGroupBroken)
			}
			shrink(t, g, dead)
		})
	}
}

func TestWhoGivesAnOperationUpLeavesTheGroup(t *testing.T) {
	f := newFabric(t, 5, fault.Config{Seed: 9, Loss: 0.05})
	g := newTeam(f, 5)
	const quitter, late = 2, 4
	ctx := make([]int, 5)
	for i, p := range g.members {
		if i != late {
			ctx[i] = p.barrier(g.numbers[i], 5)
		}
	}
	for range 500 {
		f.step()
	}
	g.members[quitter].post(vni.Command{Code: vni.CodeCancel, Context: uint16(ctx[quitter])})
	g.members[quitter].wantStatus(ctx[quitter], vni.StatusCancelled)
	g.members[quitter].wantStatus(g.members[quitter].barrier(g.numbers[quitter], 5), vni.StatusNoGroup)
	for i, p := range g.members {
		if i != late && i != quitter {
			if c := p.wantStatus(ctx[i], vni.StatusGroupBroken); c.Tag != quitter {
				t.Errorf("member %d: because of rank %d", i, c.Tag)
			}
		}
	}
	g.members[late].wantStatus(g.members[late].barrier(g.numbers[late], 5), vni.StatusGroupBroken)
	shrink(t, g, quitter)

	join := g.members[0].startJoin("never", 0, 2, 0, make([]byte, 2*vni.RosterBytes))
	f.step()
	g.members[0].post(vni.Command{Code: vni.CodeCancel, Context: uint16(join)})
	g.members[0].wantStatus(join, vni.StatusCancelled)
}

// shrink makes the survivors of a team agree on a new group and use it.
func shrink(t *testing.T, g *team, dead int) {
	t.Helper()
	n := len(g.members)
	ctx := make([]int, n)
	rosters := make([][]byte, n)
	for i, p := range g.members {
		if i != dead {
			rosters[i] = make([]byte, n*vni.RosterBytes)
			ctx[i] = p.startJoin("team", 1, 0, g.numbers[i], rosters[i])
		}
	}
	rank := 0
	for i, p := range g.members {
		if i == dead {
			continue
		}
		c := p.wantStatus(ctx[i], vni.StatusOK)
		if c.Tag != uint64(rank)<<32|uint64(n-1) {
			t.Errorf("member %d: rank and size %#x; expected %d of %d", i, c.Tag, rank, n-1)
		}
		rank++
		g.numbers[i] = c.Gen
	}
	want := pattern(50_000, 8)
	for i, p := range g.members {
		if i == dead {
			continue
		}
		b := make([]byte, len(want))
		if i == 0 {
			copy(b, want)
		}
		rosters[i], ctx[i] = b, p.broadcast(g.numbers[i], 0, b)
	}
	for i, p := range g.members {
		if i != dead {
			p.wantStatus(ctx[i], vni.StatusOK)
			if !bytes.Equal(rosters[i], want) {
				t.Errorf("member %d has other bytes", i)
			}
		}
	}
}

// A broadcast is given up while a peer takes no more of it. When the peer can take more, there is
// nothing to continue.
func TestABroadcastThatIsGivenUpWaitsForNoPeer(t *testing.T) {
	f := newWideFabric(t, 1472, 2, fault.Config{Seed: 1}, func(c *Config) { c.ReceiveCapacity = 16 << 10 })
	g := newTeam(f, 2)
	all := f.engines
	root, e := g.members[0], all[0]
	ctx := root.broadcast(g.numbers[0], 0, make([]byte, limits.BroadcastBytes))
	f.until(time.Second, "the first pieces leave", func() bool { return e.Count(vni.NICPiecesSent) > 0 })
	f.engines = all[:1] // and none is acknowledged
	f.run(time.Millisecond)
	if n := e.Count(vni.NICPiecesSent); n >= limits.BroadcastBytes/1472 {
		t.Fatalf("%d pieces have left: this test tests nothing", n)
	}
	root.post(vni.Command{Code: vni.CodeCancel, Context: uint16(ctx), Size: vni.CancelSend})
	root.wantStatus(ctx, vni.StatusCancelled)
	f.engines = all
	f.noLeaks()
}

func TestWhatAMemberHasCompletedBeforeItEndsCompletesEverywhere(t *testing.T) {
	for seed := range uint64(20) {
		f := newFabric(t, 5, fault.Config{Seed: seed*100 + 1, Loss: 0.2, Reorder: 0.2})
		g := newTeam(f, 5)
		ctx := make([]int, 5)
		for i, p := range g.members {
			ctx[i] = p.barrier(g.numbers[i], 5)
		}
		quick := -1
		f.until(10*time.Second, "one is through", func() bool {
			for i, p := range g.members {
				if p.done(false, ctx[i]) {
					quick = i
				}
			}
			return quick >= 0
		})
		p := g.members[quick]
		p.exit()
		for i, p := range g.members {
			if i != quick {
				p.wantStatus(ctx[i], vni.StatusOK)
				if c := p.finish(false, p.barrier(g.numbers[i], 5)); c.Status != vni.StatusGroupBroken || c.Tag != uint64(quick) {
					t.Fatalf("the next barrier of %d: %v because of %d; expected %d", i, c.Status, c.Tag, quick)
				}
			}
		}
	}
}

func TestMembersWhoDoDifferentThingsAreTold(t *testing.T) {
	f := newFabric(t, 3, fault.Config{})
	g := newTeam(f, 3)
	one := g.members[0].barrier(g.numbers[0], 3)
	two := g.members[1].broadcast(g.numbers[1], 1, []byte("x"))
	g.members[0].wantStatus(one, vni.StatusGroupMismatch)
	g.members[1].wantStatus(two, vni.StatusGroupMismatch)
	f.run(time.Second) // the third is told
	g.members[2].wantStatus(g.members[2].barrier(g.numbers[2], 3), vni.StatusGroupMismatch)
}

func TestAProcessIsInSeveralGroupsAndReturnsToOneOfTheSameName(t *testing.T) {
	f := newFabric(t, 3, fault.Config{Seed: 5, Loss: 0.1, Reorder: 0.3})
	g := newTeam(f, 6)
	var numbers [2][6]uint32
	for round := range 6 {
		var ctx [2][6]int
		for i, p := range g.members {
			for k := range 2 {
				ctx[k][i] = p.startJoin(fmt.Sprint("parity.", k*(i%2)+2*k), 0, []uint32{6, 3}[k], 0, make([]byte, 6*vni.RosterBytes))
			}
		}
		for i, p := range g.members {
			for k := range 2 {
				numbers[k][i] = p.wantStatus(ctx[k][i], vni.StatusOK).Gen
			}
		}
		for i, p := range g.members {
			for k := range 2 {
				ctx[k][i] = p.barrier(numbers[k][i], []uint32{6, 3}[k])
			}
		}
		for i, p := range g.members {
			for k := range 2 {
				if c := p.finish(false, ctx[k][i]); c.Status != vni.StatusOK {
					t.Fatalf("round %d, group %d, member %d: %v", round, k, i, c.Status)
				}
				p.wantStatus(p.startGroup(vni.Command{Code: vni.CodeLeave, Group: numbers[k][i]}, &vni.SendContext{}, nil), vni.StatusOK)
			}
		}
	}
	f.noLeaks()
}

func TestALateMemberDoesWhatThoseWhoHaveLeftHaveDone(t *testing.T) {
	f := newFabric(t, 4, fault.Config{})
	g := newTeam(f, 4)
	want := pattern(9000, 1)
	const late = 3
	ctx := make([]int, 4)
	for i, p := range g.members[:late] {
		b := make([]byte, len(want))
		if i == 0 {
			copy(b, want)
		}
		ctx[i] = p.broadcast(g.numbers[i], 0, b)
	}
	for i, p := range g.members[:late] {
		p.wantStatus(ctx[i], vni.StatusOK) // it is staged for the late member
		p.wantStatus(p.startGroup(vni.Command{Code: vni.CodeLeave, Group: g.numbers[i]}, &vni.SendContext{}, nil), vni.StatusOK)
	}
	for range 1000 {
		f.step()
	}
	p, b := g.members[late], make([]byte, len(want))
	p.wantStatus(p.broadcast(g.numbers[late], 0, b), vni.StatusOK)
	if !bytes.Equal(b, want) {
		t.Error("the late member has other bytes")
	}
	p.wantStatus(p.broadcast(g.numbers[late], 0, b), vni.StatusGroupBroken)
	f.noLeaks()
}

// A member without room takes part and is to fetch the data later, but its NIC dies before that.
// Only the root's process waits for it, and the root's NIC does not exchange data with it.
func TestTheRootHearsOfTheDeathOfAMemberThatOnlyOthersKnow(t *testing.T) {
	f := newFabric(t, 4, fault.Config{})
	g := newTeam(f, 4)
	const leaf = 3 // below 2
	size := limits.BroadcastBytes
	var root int
	for range 3 { // the third exceeds what is staged for the leaf
		ctx := make([]int, 4)
		for i, p := range g.members[:leaf] {
			ctx[i] = p.broadcast(g.numbers[i], 0, make([]byte, size))
		}
		for i, p := range g.members[1:leaf] {
			p.wantStatus(ctx[1+i], vni.StatusOK)
		}
		root = ctx[0]
	}
	for end := f.now.Add(time.Second); f.now < end; {
		f.step()
	}
	if g.members[0].done(false, root) || g.members[leaf].e.Count(vni.NICCollectivesLate) != 1 {
		t.Fatal("the root does not wait for the leaf to fetch; the test shows nothing")
	}
	f.engines = f.engines[:leaf]
	if c := g.members[0].wantStatus(root, vni.StatusGroupBroken); c.Tag != leaf {
		t.Errorf("the root blames rank %d", c.Tag)
	}
}

// Two survivors in different epochs find one another: the one that is behind continues in the
// later epoch. If two members leave and the second has done fewer operations than the first, its
// missing operations fail, even those that the first has done.
func TestWhatTheSecondThatLeavesHasNotDoneFailsThoughTheFirstHas(t *testing.T) {
	f := newFabric(t, 4, fault.Config{})
	g := newTeam(f, 4)
	var ctx [4]int
	for _, i := range []int{0, 2, 3} { // 3 is below 2, and 1 and 2 are below the root
		ctx[i] = g.members[i].reduce(g.numbers[i], 0, vni.SumInt64, make([]byte, 8))
	}
	g.members[3].wantStatus(ctx[3], vni.StatusOK)
	for _, i := range []int{3, 1} {
		p := g.members[i]
		p.wantStatus(p.startGroup(vni.Command{Code: vni.CodeLeave, Group: g.numbers[i]}, &vni.SendContext{}, nil), vni.StatusOK)
		f.run(10 * time.Millisecond)
		if done := g.members[0].done(false, ctx[0]); done != (i == 1) {
			t.Fatalf("member %d has left, and the reduction at the root has ended: %v", i, done)
		}
	}
	g.members[0].wantStatus(ctx[0], vni.StatusGroupBroken)
	f.noLeaks() // including what 2 has sent
}

// A NIC that comes later is not told of a broken group: its processes may make a group of the same
// name.
func TestABrokenGroupKeepsNoneOutThatComesLater(t *testing.T) {
	f := newFabric(t, 2, fault.Config{})
	g := newTeam(f, 2)
	g.members[1].exit()
	g.members[0].wantStatus(g.members[0].barrier(g.numbers[0], 2), vni.StatusGroupBroken)
	later := f.addNIC(3, 1, fault.Config{})
	for i := range 2 {
		if err := later.AddNode(uint64(i+1), mem.Address(i+1)); err != nil {
			t.Fatal(err)
		}
	}
	p := f.process(2, "later/0")
	f.run(time.Second)
	p.wantStatus(p.startJoin("team", 0, 1, 0, make([]byte, vni.RosterBytes)), vni.StatusOK)
}

// A member that shrinks the group waits for the living members of the broken group, and stops
// waiting for one that ends meanwhile.
func TestOneThatShrinksDoesNotWaitForAMemberThatEndsMeanwhile(t *testing.T) {
	for _, nics := range []int{3, 1} {
		f := newFabric(t, nics, fault.Config{})
		g := newTeam(f, 3)
		g.members[2].exit()
		g.members[0].wantStatus(g.members[0].barrier(g.numbers[0], 3), vni.StatusGroupBroken)
		roster := make([]byte, 3*vni.RosterBytes)
		ctx := g.members[0].startJoin("team", 1, 0, g.numbers[0], roster)
		f.run(10 * time.Millisecond)
		if g.members[0].done(false, ctx) {
			t.Fatal("it does not wait for the member that lives")
		}
		g.members[1].exit()
		if c := g.members[0].wantStatus(ctx, vni.StatusOK); c.Tag != 1 {
			t.Errorf("rank and size are %#x", c.Tag)
		}
	}
}

func TestThoseWhoShrinkMeetInTheLatestEpoch(t *testing.T) {
	f := newFabric(t, 4, fault.Config{})
	g := newTeam(f, 4)
	g.members[3].exit()
	for i, p := range g.members[:3] {
		p.wantStatus(p.barrier(g.numbers[i], 4), vni.StatusGroupBroken)
	}
	join := func(i int, epoch uint32) int {
		return g.members[i].startJoin("team", epoch, 0, g.numbers[i], make([]byte, 4*vni.RosterBytes))
	}
	behind := join(0, 1)
	f.step()
	ahead := join(1, 2) // it has given the first up
	g.members[0].wantStatus(behind, vni.StatusGroupMismatch)
	late := join(2, 1) // has not started yet
	g.members[2].wantStatus(late, vni.StatusGroupMismatch)
	ctx := []int{join(0, 2), ahead, join(2, 2)}
	for i, p := range g.members[:3] {
		p.wantStatus(ctx[i], vni.StatusOK)
	}
}
