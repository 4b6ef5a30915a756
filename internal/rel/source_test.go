package rel

import (
	"errors"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/wire"
)

// rough is a network that loses, repeats and reorders.
var rough = weather{loss: 0.02, dup: 0.02, reorder: 0.1, delay: 200 * time.Microsecond, jitter: time.Millisecond}

// talk is two nodes that send each other numbered messages.
type talk struct {
	w      *world
	a, b   *node
	ea, eb *Endpoint
	sent   int
}

// newTalk opens a session that a begins with b at an address of its host. Each node takes frames
// at all addresses of its host.
func newTalk(t *testing.T, seed uint64, wt weather, sealed bool, at netip.Addr, hosts ...netip.Addr) *talk {
	t.Helper()
	k := &talk{w: newWorld(t, seed, wt)}
	change := func(i int) func(*Config) {
		if sealed {
			return sealAs(i, nil)
		}
		return nil
	}
	k.a = k.w.add(1, everywhere(&k.a, change(1)))
	k.b = k.w.add(2, everywhere(&k.b, change(2)))
	k.b.hosts = hosts
	var err error
	if k.ea, err = k.a.m.Open(2, netip.AddrPortFrom(at, 7000)); err != nil {
		t.Fatal(err)
	}
	k.ea.Connect(k.w.now)
	k.a.wake()
	k.w.runUntil(2*time.Second, "the session", func() bool {
		k.eb = k.b.m.Endpoint(1)
		return k.ea.Up() && k.eb != nil && k.eb.Up()
	})
	return k
}

// say sends messages in both directions, one in each step.
func (k *talk) say(n int, step time.Duration) {
	for range n {
		k.sent++
		k.a.frag(k.ea, wire.Command, fmt.Sprint("there ", k.sent))
		k.b.frag(k.eb, wire.Command, fmt.Sprint("back ", k.sent))
		k.w.run(step)
	}
}

// whole fails the test unless all messages have arrived once, in one session.
func (k *talk) whole(t *testing.T) {
	t.Helper()
	k.w.run(time.Second)
	for _, n := range []*node{k.a, k.b} {
		if len(n.got) != k.sent || len(n.order) != k.sent || len(n.downs) > 0 || n.ups != 1 {
			t.Errorf("NIC %d got %d of %d messages, %d in all; sessions: %d, ended: %v", n.cfg.NIC, len(n.got), k.sent, len(n.order), n.ups, n.downs)
		}
	}
}

var (
	own     = address(2).Addr()
	virtual = netip.MustParseAddr("10.0.9.9")
)

func eachKind(t *testing.T, try func(t *testing.T, sealed bool, seed uint64)) {
	for _, sealed := range []bool{false, true} {
		for seed := range uint64(8) {
			t.Run(fmt.Sprintf("sealed %v, seed %d", sealed, seed), func(t *testing.T) { try(t, sealed, seed) })
		}
	}
}

func TestASessionOutlivesAnotherPreferredAddress(t *testing.T) {
	eachKind(t, func(t *testing.T, sealed bool, seed uint64) {
		k := newTalk(t, seed, rough, sealed, own, virtual)
		k.say(50, 3*time.Millisecond)
		k.b.routes = virtual
		k.say(50, 3*time.Millisecond)
		k.w.run(20 * time.Second) // nothing is sent
		k.say(5, time.Second)
		k.whole(t)
		if st := k.a.m.Stats(); k.ea.Addr().Addr() != own || st.Foreign+st.Strays > 0 {
			t.Errorf("the peer is at %v, %d frames came from elsewhere", k.ea.Addr(), st.Foreign+st.Strays)
		}
	})
}

func TestASessionMayBeginAtAnAddressThatNoFrameLeavesFromByItself(t *testing.T) {
	eachKind(t, func(t *testing.T, sealed bool, seed uint64) {
		k := newTalk(t, seed, rough, sealed, virtual, virtual)
		k.say(30, 3*time.Millisecond)
		k.whole(t)
		if k.ea.Addr().Addr() != virtual || k.eb.live.local != virtual {
			t.Errorf("the peer is at %v, and answers from %v", k.ea.Addr(), k.eb.live.local)
		}
	})
}

func TestAHelloOfAKnownPeerLeavesFromWhereItsSessionWas(t *testing.T) {
	eachKind(t, func(t *testing.T, sealed bool, seed uint64) {
		k := newTalk(t, seed, weather{}, sealed, virtual, virtual)
		k.a.restart() // and knows no other NIC
		k.b.frag(k.eb, wire.Command, "of no avail")
		k.w.runUntil(10*time.Second, "the end of the session", func() bool { return !k.eb.Up() })
		k.eb.Connect(k.w.now)
		k.b.wake()
		k.w.runUntil(2*time.Second, "another session", func() bool { return k.a.m.Endpoint(2) != nil })
		if at := k.a.m.Endpoint(2).Addr().Addr(); at != virtual {
			t.Errorf("the peer is at %v; expected it at %v as before", at, virtual)
		}
	})
}

func TestASealedSessionFollowsAHostThatLosesTheAddress(t *testing.T) {
	for seed := range uint64(8) {
		k := newTalk(t, seed, rough, true, virtual, virtual)
		k.say(20, 3*time.Millisecond)
		k.b.hosts = nil
		k.say(300, 3*time.Millisecond)
		k.whole(t)
		if k.ea.Addr().Addr() != own || k.eb.live.local != own || k.a.m.Stats().Roams != 1 {
			t.Errorf("seed %d: the peer is at %v, answers from %v, and has moved %d times", seed, k.ea.Addr(), k.eb.live.local, k.a.m.Stats().Roams)
		}
	}
}

func TestASealedSessionFollowsTheRoutesOfAHostWhoseAddressLeadsNowhere(t *testing.T) {
	for seed := range uint64(8) {
		k := newTalk(t, seed, rough, true, virtual, virtual)
		k.say(20, 3*time.Millisecond)
		k.w.filter = func(from, _ *node, _ []byte) bool { return from.leaves.Addr() != virtual && from.to.Addr() != virtual }
		k.say(30, 100*time.Millisecond)
		k.whole(t)
		if k.ea.Addr().Addr() != own || k.eb.live.local != own {
			t.Errorf("seed %d: the peer is at %v and answers from %v", seed, k.ea.Addr(), k.eb.live.local)
		}
	}
}

func TestAnotherPortOfATranslatorLosesNoFrameOfASealedSession(t *testing.T) {
	for seed := range uint64(8) {
		k := newTalk(t, seed, weather{reorder: 0.3, delay: 200 * time.Microsecond, jitter: 2 * time.Millisecond}, true, own)
		for port := range uint16(4) {
			k.a.addr = netip.AddrPortFrom(k.a.addr.Addr(), 7001+port)
			k.say(100, 300*time.Microsecond)
			k.w.run(100 * time.Millisecond)
		}
		k.whole(t)
		if st := k.b.m.Stats(); k.eb.Addr() != k.a.addr || st.Roams < 4 || st.Foreign > 0 {
			t.Errorf("seed %d: the peer is at %v, it moved %d times, %d of its frames were dropped", seed, k.eb.Addr(), st.Roams, st.Foreign)
		}
	}
}

func TestAPlainSessionMovesForNobodyAndTellsWhereItsFramesComeFrom(t *testing.T) {
	for seed := range uint64(8) {
		k := newTalk(t, seed, rough, false, own)
		k.say(20, 3*time.Millisecond)
		before := k.a.addr
		k.a.addr = netip.AddrPortFrom(k.a.addr.Addr(), 7001)
		k.say(10, 100*time.Millisecond)
		if k.eb.Addr() != before || k.eb.Elsewhere() != k.a.addr || k.b.m.Stats().Roams > 0 {
			t.Errorf("seed %d: the peer is at %v, its frames come from %v; expected %v and %v", seed, k.eb.Addr(), k.eb.Elsewhere(), before, k.a.addr)
		}
		k.w.runUntil(10*time.Second, "the end", func() bool { return len(k.b.downs) > 0 })
		var why *ElsewhereError
		if err := k.b.downs[0]; !errors.As(err, &why) || !errors.Is(err, ErrUnreachable) || why.Addr != before || why.From != k.a.addr {
			t.Errorf("seed %d: the session ended because of %v", seed, err)
		}
	}
}

// The translator admits only frames from the address that was called; the routes of b's host
// would choose another one.
func TestAPeerIsAskedAtItsNewAddressFromTheAddressThatItCalls(t *testing.T) {
	for seed := range uint64(8) {
		k := newTalk(t, seed, rough, true, virtual, virtual)
		k.w.filter = func(from, to *node, _ []byte) bool { return to != k.a || from.leaves.Addr() == virtual }
		k.say(20, 3*time.Millisecond)
		k.a.addr = netip.AddrPortFrom(k.a.addr.Addr(), 7001)
		k.say(300, 3*time.Millisecond)
		k.whole(t)
		if k.eb.Addr() != k.a.addr {
			t.Errorf("seed %d: the peer is at %v; expected %v", seed, k.eb.Addr(), k.a.addr)
		}
	}
}

func TestALateFrameFromTheOldAddressIsTakenAndMovesNothing(t *testing.T) {
	k := newTalk(t, 1, weather{}, true, own, virtual)
	old := k.a.addr
	var late []byte
	k.w.filter = func(from, _ *node, frame []byte) bool {
		if from == k.a && len(frame) > 200 && late == nil {
			late = frame
			return false
		}
		return true
	}
	k.a.frag(k.ea, wire.Command, fmt.Sprintf("late %200d", 0))
	k.w.run(100 * time.Microsecond)
	k.a.addr = netip.AddrPortFrom(old.Addr(), 7001)
	for i := 0; k.eb.Addr() == old && i < 1000; i++ {
		k.a.frag(k.ea, wire.Command, "on its way")
		k.w.run(10 * time.Microsecond)
	}
	replays, foreign := k.b.m.Stats().Replays, k.b.m.Stats().Foreign
	k.b.at = virtual
	k.b.m.Receive(k.w.now, old, late)
	s, st := k.eb.live, k.b.m.Stats()
	if st.Replays != replays || st.Foreign != foreign {
		t.Error("the late frame was dropped")
	}
	if s.addr != k.a.addr || s.roams != nil || s.local != own {
		t.Errorf("the peer is at %v, calls %v, and is looked for elsewhere: %v", s.addr, s.local, s.roams != nil)
	}
	k.b.m.Receive(k.w.now, s.addr, late)
	if st.Replays != replays+1 {
		t.Error("the late frame was taken twice")
	}
}

func TestAPeerThatIsOpenedAtAnotherAddressIsCalledAsTheRoutesSay(t *testing.T) {
	k := newTalk(t, 1, weather{}, false, own)
	k.eb.local = virtual
	k.eb.m.ends(k.w.now, k.eb, ErrUnreachable)
	if e, err := k.b.m.Open(1, address(7)); err != nil || e != k.eb || e.callsFrom().IsValid() {
		t.Errorf("a peer at another address is called from %v, %v", e.callsFrom(), err)
	}
}

// An attacker has seen all frames, and repeats them from its own address, and in a's name, to
// each address of b.
func TestFramesThatAreSentAgainFromElsewhereMoveNothing(t *testing.T) {
	eachKind(t, func(t *testing.T, sealed bool, seed uint64) {
		var seen [][]byte
		k := newTalk(t, seed, weather{}, sealed, own, virtual)
		k.w.filter = func(from, _ *node, frame []byte) bool {
			if from == k.a {
				seen = append(seen, frame)
			}
			return true
		}
		k.say(30, time.Millisecond)
		k.w.filter = nil
		received := k.b.m.Stats().ChunkReceives + k.b.m.Stats().FragReceives
		for _, from := range []netip.AddrPort{address(66), k.a.addr} {
			for _, at := range []netip.Addr{own, virtual} {
				for _, frame := range seen {
					k.b.at = at
					k.b.m.Receive(k.w.now, from, frame)
					forged := append([]byte(nil), frame...)
					forged[8] ^= 0x40 // its packet counter is new
					k.b.m.Receive(k.w.now, from, forged)
				}
			}
		}
		if st := k.b.m.Stats(); st.ChunkReceives+st.FragReceives != received {
			t.Errorf("%d of the attacker's frames were taken", st.ChunkReceives+st.FragReceives-received)
		}
		s := k.eb.live
		if s.addr != k.a.addr || s.local != own || s.roams != nil || k.eb.Elsewhere().IsValid() {
			t.Errorf("the peer is at %v and calls %v; a probe of %v; frames from %v", s.addr, s.local, s.roams, k.eb.Elsewhere())
		}
		k.say(30, time.Millisecond)
		k.whole(t)
	})
}

// A Hello proves nothing: its answer leaves from the address at which it arrived, and frames of
// an open session from the address before.
func TestAHelloInThePeersNameTurnsNoSessionAway(t *testing.T) {
	eachKind(t, func(t *testing.T, sealed bool, seed uint64) {
		k := newTalk(t, seed, weather{}, sealed, own, virtual)
		var hello []byte
		again := k.a.m
		k.w.filter = func(from, _ *node, frame []byte) bool {
			if wire.Kind(frame[0]&0xf) == wire.KindHello {
				hello = frame
				return false
			}
			return from == k.b // a must not be told that it is unknown
		}
		k.a.restart()
		e := k.a.open(k.b)
		e.Connect(k.w.now)
		k.a.wake()
		k.w.run(time.Millisecond)
		if hello == nil {
			t.Fatal("there is no Hello")
		}
		k.a.m.Forget(k.w.now, e)
		k.a.downs = nil // of the life that sent the Hello
		k.a.m, k.w.filter = again, nil
		k.b.at = virtual
		k.b.m.Receive(k.w.now, k.a.addr, hello)
		k.b.wake()
		from := netip.Addr{}
		k.w.filter = func(n, _ *node, frame []byte) bool {
			if n == k.b && wire.Kind(frame[0]&0xf) == wire.KindHelloAck {
				from = n.leaves.Addr()
			}
			return true
		}
		k.say(20, time.Millisecond)
		k.whole(t)
		if from != virtual || k.eb.live.local != own {
			t.Errorf("the answer left from %v, frames of the session leave from %v; expected %v and %v", from, k.eb.live.local, virtual, own)
		}
	})
}

func TestAnAnswerFromAnotherAddressIsToldOf(t *testing.T) {
	for _, sealed := range []bool{false, true} {
		w := newWorld(t, 1, weather{})
		var change [2]func(*Config)
		if sealed {
			change = [2]func(*Config){sealAs(1, nil), sealAs(2, nil)}
		}
		a, b := w.add(1, change[0]), w.add(2, change[1])
		b.hosts, b.routes = []netip.Addr{virtual}, own
		e, err := a.m.Open(2, netip.AddrPortFrom(virtual, 7000))
		if err != nil {
			t.Fatal(err)
		}
		e.Connect(w.now)
		a.wake()
		w.runUntil(10*time.Second, "the end of the attempt", func() bool { return len(a.downs) > 0 })
		var why *ElsewhereError
		if !errors.As(a.downs[0], &why) || why.From != b.addr || why.Addr.Addr() != virtual {
			t.Errorf("sealed %v: the attempt ended because of %v", sealed, a.downs[0])
		}
	}
}
