package nic

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/link/fault"
	"github.com/weftnet/weft/internal/vni"
)

// startJoin posts a join and returns its context.
func (p *tester) startJoin(group string, epoch, size, base uint32, roster []byte) int {
	p.f.t.Helper()
	c := &vni.SendContext{Receiver: vni.Name{Index: epoch}, Flags: vni.WantNotify}
	copy(c.Receiver.App[:], group)
	return p.startGroup(vni.Command{Code: vni.CodeJoinGroup, Group: base, Size: size}, c, roster)
}

func (p *tester) startGroup(cmd vni.Command, c *vni.SendContext, data []byte) int {
	p.f.t.Helper()
	i, ok := p.v.TakeSend()
	for !ok {
		p.f.step()
		i, ok = p.v.TakeSend()
	}
	p.uses[i]++
	c.Token = p.uses[i]<<16 | uint32(i)
	c.Flags |= vni.WantNotify
	c.Len, c.PoolIndex = uint64(len(data)), vni.NoPool
	p.v.SetSend(i, c)
	p.v.SetDirect(false, i, [][]byte{data})
	cmd.Context = uint16(i)
	p.post(cmd)
	return i
}

func (p *tester) barrier(group, size uint32) int {
	return p.startGroup(vni.Command{Code: vni.CodeBarrier, Group: group, Size: size}, &vni.SendContext{}, nil)
}

func (p *tester) broadcast(group uint32, root int, data []byte) int {
	return p.startGroup(vni.Command{Code: vni.CodeBroadcast, Group: group}, &vni.SendContext{Tag: uint64(root)}, data)
}

func (p *tester) reduce(group uint32, root uint32, op vni.Operator, data []byte) int {
	return p.startGroup(vni.Command{Code: vni.CodeReduce, Group: group}, &vni.SendContext{Tag: uint64(root) | uint64(op)<<32}, data)
}

func (p *tester) wantStatus(i int, want vni.Status) vni.Completion {
	p.f.t.Helper()
	c := p.finish(false, i)
	if c.Status != want {
		p.f.t.Fatalf("%v: %v; expected %v", p.name, c.Status, want)
	}
	return c
}

// teamKey is the name of a team's group.
var teamKey = func() (n vni.Name) {
	copy(n.App[:], "team")
	return n
}()

// news returns the record by which a NIC announces that one of its processes joins or leaves a
// team. change is the number of the change in its session.
func news(op byte, change uint32, name vni.Name, slot uint16, gen, number, size uint32) []byte {
	b := make([]byte, 92) // internal/coll/seats.go
	le := binary.LittleEndian
	b[0] = op
	le.PutUint16(b[2:], slot)
	le.PutUint32(b[4:], gen)
	le.PutUint32(b[8:], number)
	le.PutUint32(b[12:], size)
	copy(b[20:], teamKey.App[:])
	le.PutUint32(b[44:], 1400)
	le.PutUint32(b[48:], name.Index)
	copy(b[52:], name.App[:])
	le.PutUint32(b[80:], change)
	return b
}

// team is a group of processes spread over the NICs of a fabric, by rank.
type team struct {
	f       *fabric
	members []*tester
	numbers []uint32
}

func newTeam(f *fabric, members int) *team {
	f.t.Helper()
	g := &team{f: f}
	for i := range members {
		g.members = append(g.members, f.process(i%len(f.engines), fmt.Sprintf("m/%d", i)))
	}
	rosters := make([][]byte, members)
	g.each(func(i int, p *tester) int {
		rosters[i] = make([]byte, members*vni.RosterBytes)
		return p.startJoin("team", 0, uint32(members), 0, rosters[i])
	}, func(i int, c vni.Completion) {
		if c.Status != vni.StatusOK || c.Tag != uint64(i)<<32|uint64(members) || !bytes.Equal(rosters[i], rosters[0]) {
			f.t.Fatalf("join of member %d: %v, rank and size %#x, equal rosters: %v", i, c.Status, c.Tag, bytes.Equal(rosters[i], rosters[0]))
		}
		g.numbers = append(g.numbers, c.Gen)
	})
	return g
}

// each starts an operation at every member, and checks how it ended.
func (g *team) each(start func(i int, p *tester) int, end func(i int, c vni.Completion)) {
	g.f.t.Helper()
	var ctx []int
	for i, p := range g.members {
		ctx = append(ctx, start(i, p))
	}
	for i, p := range g.members {
		end(i, p.finish(false, ctx[i]))
	}
}

func (g *team) ok(i int, c vni.Completion) {
	g.f.t.Helper()
	if c.Status != vni.StatusOK {
		g.f.t.Fatalf("member %d: %v, rank %d", i, c.Status, c.Tag)
	}
}

// networks holds the networks on which groups are tested.
var networks = []struct {
	name    string
	nics    int
	members int
	faults  fault.Config
}{
	{"one member", 1, 1, fault.Config{}},
	{"one NIC", 1, 5, fault.Config{}},
	{"two NICs", 2, 2, fault.Config{}},
	{"seven NICs, two members each", 7, 14, fault.Config{}},
	{"five NICs and a bad network", 5, 8, fault.Config{Seed: 11, Loss: 0.1, Duplicate: 0.05, Reorder: 0.1, Corrupt: 0.02}},
}

func eachNetwork(t *testing.T, test func(t *testing.T, f *fabric, g *team)) {
	for _, n := range networks {
		t.Run(n.name, func(t *testing.T) {
			f := newFabric(t, n.nics, n.faults)
			g := newTeam(f, n.members)
			test(t, f, g)
			for i, p := range g.members {
				p.wantStatus(p.startGroup(vni.Command{Code: vni.CodeLeave, Group: g.numbers[i]}, &vni.SendContext{}, nil), vni.StatusOK)
			}
			f.until(5*time.Second, "the group is forgotten everywhere", func() bool {
				for _, e := range f.engines {
					if e.groups.Len() != 0 {
						return false
					}
				}
				return true
			})
			f.noLeaks()
		})
	}
}

func TestNobodyLeavesABarrierBeforeAllHaveEntered(t *testing.T) { // QNIX-8
	eachNetwork(t, func(t *testing.T, f *fabric, g *team) {
		n := len(g.members)
		for round := range 12 {
			last := round % n
			ctx := make([]int, n)
			for i, p := range g.members {
				if i != last {
					ctx[i] = p.barrier(g.numbers[i], uint32(n))
				}
			}
			// Not longer: on the bad network, even all probes would be lost at some time.
			for range 300 {
				f.step()
			}
			for i, p := range g.members {
				if i != last && p.done(false, ctx[i]) {
					t.Fatalf("round %d: member %d has left with %v, and %d has not entered", round, i, p.v.Completion(false, ctx[i]), last)
				}
			}
			ctx[last] = g.members[last].barrier(g.numbers[last], uint32(n))
			for i, p := range g.members {
				p.wantStatus(ctx[i], vni.StatusOK)
			}
		}
	})
}

func TestABroadcastReachesEveryMember(t *testing.T) {
	eachNetwork(t, func(t *testing.T, f *fabric, g *team) {
		for k, size := range []int{0, 1, 700, 1300, 1400, 5000, 100_000, limits.BroadcastBytes} {
			root := (k * 3) % len(g.members)
			want := pattern(size, byte(k))
			bufs := make([][]byte, len(g.members))
			g.each(func(i int, p *tester) int {
				bufs[i] = make([]byte, size)
				if i == root {
					copy(bufs[i], want)
				}
				return p.broadcast(g.numbers[i], root, bufs[i])
			}, func(i int, c vni.Completion) {
				g.ok(i, c)
				if !bytes.Equal(bufs[i], want) {
					t.Fatalf("%d bytes from %d: member %d has others", size, root, i)
				}
			})
		}
	})
}

func TestBroadcastsWaitForAMemberThatDoesNotAsk(t *testing.T) {
	f := newFabric(t, 6, fault.Config{Seed: 4, Loss: 0.05})
	g := newTeam(f, 6)
	const size = 200_000
	const rounds = 5 // more than a NIC keeps for a process, so some must be fetched
	lazy := 4        // it has a member below it when the root is 0: 5
	bufs := make([][]byte, rounds*6)
	var root []int
	for k := range rounds {
		want := pattern(size, byte(k))
		ctx := make([]int, 6)
		for i, p := range g.members {
			if i == lazy {
				continue
			}
			b := make([]byte, size)
			if i == 0 {
				copy(b, want)
			}
			bufs[k*6+i] = b
			ctx[i] = p.broadcast(g.numbers[i], 0, b)
		}
		for i, p := range g.members {
			if i != 0 && i != lazy {
				p.wantStatus(ctx[i], vni.StatusOK)
				if !bytes.Equal(bufs[k*6+i], want) {
					t.Fatalf("broadcast %d: member %d has other bytes", k, i)
				}
			}
		}
		root = append(root, ctx[0])
	}
	for range 5000 {
		f.step()
	}
	if p := g.members[0]; !p.done(false, root[0]) || p.done(false, root[rounds-1]) {
		t.Error("the root of a broadcast that is staged everywhere waits, or that of one that is not does not")
	}
	for k := range rounds {
		b := make([]byte, size)
		p := g.members[lazy]
		p.wantStatus(p.broadcast(g.numbers[lazy], 0, b), vni.StatusOK)
		if !bytes.Equal(b, pattern(size, byte(k))) {
			t.Fatalf("broadcast %d: the lazy member has other bytes", k)
		}
		g.members[0].wantStatus(root[k], vni.StatusOK)
	}
	if g.members[lazy].e.Count(vni.NICCollectivesLate) == 0 {
		t.Error("nothing was fetched from the root; the test shows nothing")
	}
	f.noLeaks()
}

func vector(v ...int64) []byte {
	var b []byte
	for _, x := range v {
		b = binary.LittleEndian.AppendUint64(b, uint64(x))
	}
	return b
}

func TestReductionsAddUpAtTheRootOrEverywhere(t *testing.T) {
	eachNetwork(t, func(t *testing.T, f *fabric, g *team) {
		n := len(g.members)
		sum, least := int64(0), int64(1<<40)
		for i := range n {
			sum += int64(i*i) - 3
			least = min(least, int64(i*i)-3)
		}
		for k := range 6 {
			for _, root := range []uint32{vni.AllRanks, uint32(k % n)} {
				op, want := vni.SumInt64, vector(sum, int64(n*k))
				if k%2 == 1 {
					op, want = vni.MinInt64, vector(least, int64(k))
				}
				bufs := make([][]byte, n)
				g.each(func(i int, p *tester) int {
					bufs[i] = vector(int64(i*i)-3, int64(k))
					return p.reduce(g.numbers[i], root, op, bufs[i])
				}, func(i int, c vni.Completion) {
					g.ok(i, c)
					if (root == vni.AllRanks || int(root) == i) && !bytes.Equal(bufs[i], want) {
						t.Fatalf("reduction %d to %d: member %d has %x, expected %x", k, int32(root), i, bufs[i], want)
					}
				})
			}
		}
	})
}
