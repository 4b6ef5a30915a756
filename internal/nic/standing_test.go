package nic

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/coll"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/link/fault"
	"github.com/weftnet/weft/internal/vni"
)

// stands returns the standing of a process, pause after its NIC has read its commands.
func (p *tester) stands(pause time.Duration) Standing {
	p.f.t.Helper()
	p.f.until(time.Second, "the commands are read", func() bool { return !p.e.process(p.slot).vni.Pending() })
	p.f.wait(pause)
	l := p.e.Standings(p.f.now, func(n vni.Name) bool { return n == p.name })
	if len(l) != 1 || l[0].Name != p.name || l[0].Address != (vni.Address{NIC: p.e.ID(), Slot: p.slot, Gen: p.gen}) {
		p.f.t.Fatalf("the NIC lists %d processes for %v: %+v", len(l), p.name, l)
	}
	return l[0]
}

// wantWait fails the test unless a process has only this wait, which has lasted at least atLeast.
func (p *tester) wantWait(atLeast time.Duration, want Wait) {
	p.f.t.Helper()
	s := p.stands(atLeast)
	if len(s.Waits) != 1 {
		p.f.t.Fatalf("%v has %d waits: %+v; expected %+v", p.name, len(s.Waits), s.Waits, want)
	}
	got := s.Waits[0]
	if got.For < atLeast {
		p.f.t.Errorf("%v has waited for %v; expected at least %v", p.name, got.For, atLeast)
	}
	if got.For = 0; got != want {
		p.f.t.Errorf("%v waits as %+v; expected %+v", p.name, got, want)
	}
}

func (p *tester) address() vni.Address {
	return vni.Address{NIC: p.e.ID(), Slot: p.slot, Gen: p.gen}
}

func TestAProcessWithoutOperationsWaitsForNothing(t *testing.T) {
	f := newFabric(t, 1, fault.Config{})
	a := f.process(0, "a/0")
	if s := a.stands(0); len(s.Waits)+len(s.Groups)+len(s.Unread) != 0 || s.PID != 1 || s.Parked {
		t.Errorf("it stands so: %+v", s)
	}
	a.v.SetSleeping(true)
	if s := a.stands(0); !s.Parked {
		t.Error("a process with a parked waiter is not shown as parked")
	}
	if l := f.engines[0].Standings(f.now, func(vni.Name) bool { return true }); len(l) != 1 {
		t.Errorf("%d processes are listed; expected a/0 alone, not the NIC's own", len(l))
	}
}

func TestEachKindOfReceiveShowsWhatItWaitsFor(t *testing.T) {
	eachPlace(t, func(t *testing.T, f *fabric, a, b *tester) {
		cancel := func(ctx int) {
			b.post(vni.Command{Code: vni.CodeCancel, Context: uint16(ctx), Size: vni.CancelReceive})
			b.finish(true, ctx)
		}
		buf := make([]byte, 100)
		ctx := b.recv("a/0", 7, 0, buf)
		b.wantWait(time.Second, Wait{What: WaitReceive, Peer: a.name, At: a.address(), Tag: 7, Bytes: 100})
		cancel(ctx)
		ctx = b.recv("", 0, vni.AnyTag, buf)
		b.wantWait(time.Second, Wait{What: WaitReceive, Any: true, AnyTag: true, Bytes: 100})
		cancel(ctx)
		ctx = b.recv("nobody/3", 1, 0, buf)
		b.wantWait(0, Wait{What: WaitReceive, Peer: vni.Name{App: [limits.NameBytes]byte([]byte("nobody" + string(make([]byte, limits.NameBytes-6)))), Index: 3}, Tag: 1, Bytes: 100})
		cancel(ctx)
		ctx = b.probe(vni.CodeProbe, vni.ReceiveContext{Sender: a.name, Tag: 5})
		b.wantWait(0, Wait{What: WaitProbe, Peer: a.name, At: a.address(), Tag: 5})
		cancel(ctx)
		ctx = b.recvLetter(9, 0, buf)
		b.wantWait(0, Wait{What: WaitDatagram, Any: true, Tag: 9, Bytes: 100})
		cancel(ctx)
		ring := b.gather(a, 4, 64, 4096)
		b.wantWait(0, Wait{What: WaitInbox, Peer: a.name, At: a.address(), Tag: 4, Bytes: 64})
		cancel(ring.ctx)
		f.noLeaks()
	})
}

func TestACallThatHasLeftShowsWhomItCalled(t *testing.T) {
	eachPlace(t, func(t *testing.T, f *fabric, a, b *tester) {
		buf := make([]byte, 10)
		got := b.recv("a/0", 3, 0, buf)
		sent, answer, token := a.call(b, 3, []byte("question"), make([]byte, 10))
		a.wantSent(sent)
		a.wantWait(time.Second, Wait{What: WaitReply, Peer: b.name, At: b.address(), Bytes: 10})
		b.wantReceived(got, buf, []byte("question"))
		if status := b.reply(a, token, nil); status != vni.StatusOK {
			t.Fatalf("the reply ended with %v", status)
		}
		a.finish(true, answer)
	})
}

func TestAnUnreceivedMessageIsListedWithItsSenderAndTag(t *testing.T) {
	eachPlace(t, func(t *testing.T, f *fabric, a, b *tester) {
		a.wantSent(a.send("b/0", 8, 0, make([]byte, 40)))
		f.until(time.Second, "the message is there", func() bool { return b.e.process(b.slot).stray.n == 1 })
		s := b.stands(time.Second)
		b.finish(true, b.recv("a/0", 8, 0, make([]byte, 40)))
		if len(s.Unread) != 1 || s.Unread[0].For < time.Second {
			t.Fatalf("unread: %+v", s.Unread)
		}
		if s.Unread[0].For = 0; s.Unread[0] != (Unread{From: a.name, At: a.address(), Tag: 8, Bytes: 40}) {
			t.Errorf("unread: %+v", s.Unread[0])
		}
	})
}

func TestASendShowsWhatItWaitsFor(t *testing.T) {
	eachPlace(t, func(t *testing.T, f *fabric, a, b *tester) {
		sent := a.send("b/0", 2, 0, make([]byte, 1<<20))
		a.wantWait(time.Second, Wait{What: WaitSend, Why: WhyPermission, Peer: b.name, At: b.address(), Tag: 2, Bytes: 1 << 20})
		b.finish(true, b.recv("a/0", 2, 0, make([]byte, 1<<20)))
		a.wantSent(sent)
	})
	t.Run("for a name", func(t *testing.T) {
		f := newFabric(t, 1, fault.Config{})
		a := f.process(0, "a/0")
		b, _ := vni.ParseName("b/0")
		a.start(vni.CodeResolve, &vni.SendContext{Receiver: b, Flags: vni.WantNotify}, nil)
		a.wantWait(time.Second, Wait{What: WaitName, Why: WhyName, Peer: b})
	})
	t.Run("for a NIC that is silent", func(t *testing.T) {
		f := newFabric(t, 2, fault.Config{})
		a, b := f.process(0, "a/0"), f.process(1, "b/0")
		f.until(time.Second, "the name is known", func() bool { return knowsName(a.e, b.name) })
		a.wantSent(a.send("b/0", 2, vni.WantAccept, nil)) // there is credit now
		f.kill(1)
		a.send("b/0", 2, vni.WantAccept, nil)
		a.wantWait(10*time.Millisecond, Wait{What: WaitSend, Why: WhyAccept, Peer: b.name, At: b.address(), Tag: 2})
	})
}

func TestTheListsOfAStandingAreBoundedAndBeginWithTheOldest(t *testing.T) {
	f := newFabric(t, 1, fault.Config{})
	a, b := f.process(0, "a/0"), f.process(0, "b/0")
	for i := range limits.StandingWaits + 3 {
		b.recv("a/0", uint64(i), 0, nil)
		b.stands(time.Millisecond)
	}
	for range limits.StandingUnread + 2 {
		a.wantSent(a.send("b/0", 1000, 0, nil))
	}
	s := b.stands(0)
	if len(s.Waits) != limits.StandingWaits || s.MoreWaits != 3 || len(s.Unread) != limits.StandingUnread || s.MoreUnread != 2 {
		t.Errorf("%d waits and %d more, %d unread and %d more", len(s.Waits), s.MoreWaits, len(s.Unread), s.MoreUnread)
	}
	for i, w := range s.Waits {
		if w.Tag != uint64(i) {
			t.Errorf("wait %d has tag %d", i, w.Tag)
		}
	}
}

func TestMembersStandInTheOperationThatTheyHaveEntered(t *testing.T) {
	f := newFabric(t, 2, fault.Config{})
	g := newTeam(f, 4)
	n := uint32(4)
	g.each(func(i int, p *tester) int { return p.barrier(g.numbers[i], n) }, g.ok)
	for i, p := range g.members {
		switch i {
		case 0, 3:
			p.barrier(g.numbers[i], n)
		}
	}
	for i, want := range []coll.Standing{
		{In: coll.Step{Number: 2, Kind: coll.StepBarrier, Root: -1}, Under: 1, Done: 1},
		{Done: 1},
		{Done: 1},
		{In: coll.Step{Number: 2, Kind: coll.StepBarrier, Root: -1}, Under: 1, Done: 1},
	} {
		want.Key, want.State, want.Size, want.Present, want.Rank = teamKey, coll.StandingOpen, 4, 4, i
		g.wantStanding(i, want)
	}
}

// wantStanding compares a member's place in its only group, except for its duration, which is at
// least a second.
func (g *team) wantStanding(i int, want coll.Standing) {
	g.f.t.Helper()
	s := g.members[i].stands(time.Second)
	if len(s.Groups) != 1 || s.MoreGroups != 0 {
		g.f.t.Fatalf("member %d has places in groups %+v", i, s.Groups)
	}
	got := s.Groups[0]
	if got.For < time.Second {
		g.f.t.Errorf("member %d stands there for %v; expected a second at least", i, got.For)
	}
	if got.For = 0; got != want {
		g.f.t.Errorf("member %d stands so: %+v; expected %+v", i, got, want)
	}
}

func TestBroadcastsAndReductionsShowTheirRoots(t *testing.T) {
	f := newFabric(t, 2, fault.Config{})
	g := newTeam(f, 2)
	for i, root := range []int{1, 0} { // each takes the other for the root, so both wait
		g.members[i].broadcast(g.numbers[i], root, make([]byte, 8))
	}
	for i, root := range []int{1, 0} {
		g.wantStanding(i, coll.Standing{Key: teamKey, State: coll.StandingOpen, Size: 2, Present: 2, Rank: i, Under: 1,
			In: coll.Step{Number: 1, Kind: coll.StepBroadcast, Root: root, Name: g.members[root].name}})
	}
	h := newTeam(newFabric(t, 2, fault.Config{}), 2)
	h.members[1].reduce(h.numbers[1], vni.AllRanks, vni.SumInt64, make([]byte, 8))
	h.wantStanding(1, coll.Standing{Key: teamKey, State: coll.StandingOpen, Size: 2, Present: 2, Rank: 1, Under: 1,
		In: coll.Step{Number: 1, Kind: coll.StepReduce, Root: -1}})
}

func TestAJoinShowsHowManyAreThere(t *testing.T) {
	f := newFabric(t, 2, fault.Config{})
	for i := range 3 {
		p := f.process(i%2, fmt.Sprintf("m/%d", i))
		p.startJoin("team", 0, 5, 0, make([]byte, 5*vni.RosterBytes))
	}
	f.wait(time.Second)
	for _, e := range f.engines {
		for _, s := range e.Standings(f.now, func(vni.Name) bool { return true }) {
			if len(s.Groups) != 1 {
				t.Fatalf("%v has places in groups %+v", s.Name, s.Groups)
			}
			got := s.Groups[0]
			got.For = 0
			want := coll.Standing{Key: teamKey, State: coll.StandingJoins, Size: 5, Present: 3, Rank: -1, Under: 1, In: coll.Step{Kind: coll.StepJoin, Root: -1}}
			if got != want {
				t.Errorf("%v stands so: %+v; expected %+v", s.Name, got, want)
			}
		}
	}
}

func TestABrokenGroupShowsWhatItsMembersDid(t *testing.T) {
	f := newFabric(t, 2, fault.Config{})
	g := newTeam(f, 3)
	g.each(func(i int, p *tester) int { return p.barrier(g.numbers[i], 3) }, g.ok)
	g.each(func(i int, p *tester) int {
		if i == 1 {
			return p.broadcast(g.numbers[i], 0, make([]byte, 8))
		}
		return p.barrier(g.numbers[i], 3)
	}, func(i int, c vni.Completion) {
		if c.Status != vni.StatusGroupMismatch {
			t.Fatalf("member %d: %v; expected a mismatch", i, c.Status)
		}
	})
	for i := range g.members {
		want := coll.Standing{Key: teamKey, State: coll.StandingBroken, Size: 3, Present: 3, Rank: i, Done: 1, Mismatch: true,
			In: coll.Step{Number: 2, Kind: coll.StepBarrier, Root: -1}}
		if i == 1 {
			want.In = coll.Step{Number: 2, Kind: coll.StepBroadcast, Root: 0, Name: g.members[0].name}
		}
		g.wantStanding(i, want)
	}
}

func TestABrokenGroupNamesTheMemberThatHasGone(t *testing.T) {
	f := newFabric(t, 2, fault.Config{})
	g := newTeam(f, 3)
	ctx := g.members[0].barrier(g.numbers[0], 3)
	gone := g.members[2].address()
	f.wait(time.Millisecond)
	g.members[2].exit()
	g.members[0].wantStatus(ctx, vni.StatusGroupBroken)
	want := coll.Standing{Key: teamKey, State: coll.StandingBroken, Size: 3, Present: 2, Rank: 0, Lost: g.members[2].name, LostAt: gone,
		In: coll.Step{Number: 1, Kind: coll.StepBarrier, Root: -1}}
	g.wantStanding(0, want)
	want.Rank, want.In = 1, coll.Step{}
	g.wantStanding(1, want)
	g.members[1].wantStatus(g.members[1].broadcast(g.numbers[1], 0, nil), vni.StatusGroupBroken)
	want.In = coll.Step{Number: 1, Kind: coll.StepBroadcast, Root: 0, Name: g.members[0].name}
	g.wantStanding(1, want)
}

// The news of a member's end may arrive while others are in an operation that still succeeds. The
// reported operation is the first that failed.
func TestABrokenGroupShowsTheFirstOperationThatFailed(t *testing.T) {
	for seed := range uint64(20) {
		f := newFabric(t, 3, fault.Config{Seed: 1 + 10*seed, Loss: 0.1, Reorder: 0.3})
		g := newTeam(f, 5)
		const gone, rounds = 1, 3
		failed, done := make([]uint32, 5), make([]uint32, 5)
		ctx := make([]int, 5)
		for i, p := range g.members {
			ctx[i] = p.barrier(g.numbers[i], 5)
		}
		f.until(time.Minute, "an operation has failed at each member", func() bool {
			left := 0
			for i, p := range g.members {
				if failed[i] > 0 || i == gone && done[i] == rounds {
					continue
				}
				if left++; !p.done(false, ctx[i]) {
					continue
				}
				status := p.v.Completion(false, ctx[i]).Status
				p.v.Release(false, ctx[i])
				switch {
				case status != vni.StatusOK:
					failed[i] = done[i] + 1
				case i == gone && done[i]+1 == rounds:
					done[i]++
					p.exit()
				default:
					done[i]++
					ctx[i] = p.barrier(g.numbers[i], 5)
				}
			}
			return left == 0
		})
		for i, p := range g.members {
			if i == gone {
				continue
			}
			got := p.stands(0).Groups[0]
			if got.State != coll.StandingBroken || got.Lost != g.members[gone].name || got.In.Number != failed[i] || got.Done != done[i] {
				t.Errorf("seed %d: operation %d failed at member %d, which stands so: %+v", seed, failed[i], i, got)
			}
		}
	}
}

// Each state of a send must have a reason: a new state without one would be reported as nothing.
func TestEveryStateOfASendHasAReason(t *testing.T) {
	if i := slices.Index(sendReasons[1:], ""); i >= 0 || len(sendReasons) != int(sendDelayed)+1 {
		t.Errorf("state %d of %d has none", i+1, len(sendReasons))
	}
}
