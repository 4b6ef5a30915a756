package rel

import (
	"bytes"
	"errors"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/wire"
)

// joined returns two nodes with a session.
func joined(t *testing.T, change func(*Config)) (w *world, a, b *node, e *Endpoint) {
	t.Helper()
	w = newWorld(t, 5, weather{})
	a, b = w.add(1, change), w.add(2, change)
	e = a.open(b)
	b.open(a)
	e.Connect(w.now)
	a.wake()
	w.runUntil(time.Second, "hello", func() bool { return e.Up() && b.ups == 1 })
	w.run(time.Second)
	return w, a, b, e
}

// helloFrame returns a Hello as NIC id at its own address would send it.
func helloFrame(id uint64, incarnation, counter uint64, change func(*wire.Hello)) []byte {
	h := wire.Hello{MinVersion: 1, MaxVersion: 1, Index: uint32(id) | 1<<20, NIC: id, Incarnation: incarnation, Cookie: id, MTUCommand: 1472,
		MTUData: 1472, WinCommand: 4096, WinData: 4096, ReceiveCapacity: 1 << 20}
	if change != nil {
		change(&h)
	}
	b := make([]byte, 200)
	wire.Outer{Kind: wire.KindHello, Flags: wire.FlagTagged, Counter: counter}.Put(b)
	h.Put(b[wire.OuterLen:])
	return b[:wire.Seal(b, wire.OuterLen+wire.HelloLen, 0)]
}

func TestAFloodOfHellosIsBounded(t *testing.T) {
	w, a, b, _ := joined(t, nil)
	for i := range uint64(5000) {
		from := netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 1, byte(i >> 8), byte(i)}), 7)
		b.m.Receive(w.now, from, helloFrame(1000+i, 1, 1, nil))
	}
	if n := len(b.m.pending); n != limits.PendingSessions {
		t.Errorf("%d half-open sessions, want %d", n, limits.PendingSessions)
	}
	if n := len(b.m.strangers); n != limits.PendingSessions {
		t.Errorf("%d strangers, want %d", n, limits.PendingSessions)
	}
	if n := len(b.m.endpoints); n != 1 {
		t.Errorf("%d peers, want 1", n)
	}
	b.wake()
	w.run(3 * time.Second)
	if len(b.m.pending)+len(b.m.strangers) != 0 {
		t.Errorf("%d half-open sessions are left", len(b.m.pending))
	}
	if len(a.downs)+len(b.downs) != 0 {
		t.Errorf("the live session ended: %v %v", a.downs, b.downs)
	}
	w.check()
}

func TestAForgedHelloChangesNothing(t *testing.T) {
	w, a, b, e := joined(t, nil)
	// The forger knows everything except the answers: they go to the real node 1, which has not
	// asked.
	for i := range uint64(100) {
		b.m.Receive(w.now, a.addr, helloFrame(1, 99, 1000+i, func(h *wire.Hello) { h.Index += uint32(i) }))
		b.wake()
		w.run(10 * time.Millisecond)
	}
	if !a.frag(e, wire.Command, "still here") {
		t.Fatal("no session")
	}
	w.run(5 * time.Second)
	if b.got["still here"] != 1 || len(b.downs) != 0 {
		t.Errorf("got %v, downs %v", b.got, b.downs)
	}
	if b.m.Endpoint(1).Incarnation() != 1 {
		t.Error("a Hello that was not confirmed raised the incarnation")
	}
	w.check()
}

// A host that knows a NIC's id can send a Hello in its name, with any incarnation and packet
// counter.
func TestForgedHellosKeepNoNICOut(t *testing.T) {
	elsewhere := netip.MustParseAddrPort("10.9.9.9:7")
	for _, from := range []netip.AddrPort{elsewhere, address(2)} { // the second must be spoofed
		for _, attempts := range [][]int{{0}, {1}, {0, 1}} {
			w := newWorld(t, 5, weather{})
			a, b := w.add(1, nil), w.add(2, nil)
			ends := []*Endpoint{a.open(b), b.open(a)}
			for i := range uint64(3) {
				a.m.Receive(w.now, from, helloFrame(2, 1<<62, 1<<62+i, nil))
				a.wake()
				w.run(time.Second)
			}
			for _, i := range attempts {
				ends[i].Connect(w.now)
				w.nodes[i].wake()
			}
			for i := uint64(9); !ends[0].Up() || !ends[1].Up(); i++ {
				if from == elsewhere { // one in each step of the handshake
					a.m.Receive(w.now, from, helloFrame(2, 1<<62, 1<<62+i, func(h *wire.Hello) { h.Index += uint32(i) }))
				}
				if !w.step(w.now.Add(time.Millisecond)) {
					break
				}
			}
			w.run(time.Second)
			if !ends[0].Up() || !ends[1].Up() || ends[0].Addr() != b.addr || len(a.downs)+len(b.downs) > 0 {
				t.Errorf("from %v, %d: up %v and %v; down %v, %v; %d Hellos are stale", from, attempts, ends[0].Up(), ends[1].Up(), a.downs, b.downs, a.m.stats.StaleHellos)
			}
			w.run(3 * time.Second)
			if n := len(a.m.pending); n > 0 {
				t.Errorf("from %v, %d: %d half-open sessions are left", from, attempts, n)
			}
			w.check()
		}
	}
}

// A peer that was answered is up, whatever arrives in its name before its first frame: a Hello
// that is forged, or late.
func TestAHelloTakesNothingFromAHalfOpenSession(t *testing.T) {
	for name, late := range map[string][]byte{
		"of a later life":    helloFrame(1, 99, 1, nil),
		"of an earlier life": helloFrame(1, 1, 1000, nil),
		"of the same life":   helloFrame(1, 5, 1, nil),
	} {
		w := newWorld(t, 5, weather{})
		a, b := w.add(1, func(c *Config) { c.Incarnation = 5 }), w.add(2, nil)
		e, back := a.open(b), b.open(a)
		e.Connect(w.now)
		a.wake()
		w.runUntil(time.Millisecond, "the answer", e.Up)
		b.m.Receive(w.now, a.addr, late)
		w.run(time.Second)
		if !back.Up() || back.Incarnation() != 5 || len(a.downs)+len(b.downs) > 0 || a.m.stats.HelloSends != 1 {
			t.Errorf("%s: up %v, in life %d, down %v, %v, with %d Hellos", name, back.Up(), back.Incarnation(), a.downs, b.downs, a.m.stats.HelloSends)
		}
		w.check()
	}
}

// A session that was set aside for a newer one is over when the newer one has opened.
func TestASessionIsNotConfirmedWhenANewerOneHasOpened(t *testing.T) {
	w := newWorld(t, 5, weather{})
	a, b := w.add(1, nil), w.add(2, nil)
	var late []byte // the first frame that confirms
	w.filter = func(from, _ *node, frame []byte) bool {
		o, _, _ := wire.ParseOuter(frame)
		if from == a && o.Kind != wire.KindHello && late == nil {
			late = frame
		}
		return from == b || o.Kind == wire.KindHello
	}
	b.open(a)
	a.open(b).Connect(w.now)
	a.wake()
	w.run(100 * time.Millisecond)
	if a.ups != 1 || b.ups != 0 || late == nil {
		t.Fatalf("up %d and %d", a.ups, b.ups)
	}
	w.filter = nil
	a.restart()
	a.open(b).Connect(w.now)
	w.run(100 * time.Millisecond)
	b.m.Receive(w.now, a.addr, late)
	b.wake()
	w.run(100 * time.Millisecond)
	if a.ups != 2 || b.ups != 1 || len(b.downs) > 0 || len(b.m.pending) > 0 {
		t.Errorf("up %d and %d, down %v, %d half open", a.ups, b.ups, b.downs, len(b.m.pending))
	}
	w.check()
}

// A NIC that has moved opens the session from its new address, while its peer still sends Hellos
// to the old one.
func TestANICIsFoundWhereItSaysHello(t *testing.T) {
	w := newWorld(t, 5, weather{})
	a, b := w.add(1, nil), w.add(2, nil)
	e, err := a.m.Open(2, address(9))
	if err != nil {
		t.Fatal(err)
	}
	e.Connect(w.now)
	a.wake()
	w.run(100 * time.Millisecond)
	back := b.open(a)
	back.Connect(w.now)
	b.wake()
	w.run(time.Millisecond)
	if !e.Up() || !back.Up() || e.Addr() != b.addr {
		t.Errorf("up %v and %v, at %v; want %v", e.Up(), back.Up(), e.Addr(), b.addr)
	}
	w.run(5 * time.Second)
	if len(a.downs)+len(b.downs) > 0 || len(a.m.pending) > 0 || e.next != nil {
		t.Errorf("down %v, %v; %d half open", a.downs, b.downs, len(a.m.pending))
	}
	w.check()
}

// … also if its address is changed while its first Hello has no answer.
func TestAnAttemptGoesOnWhereTheNICIsNow(t *testing.T) {
	w := newWorld(t, 5, weather{})
	a, b := w.add(1, nil), w.add(2, nil)
	e, err := a.m.Open(2, address(9))
	if err != nil {
		t.Fatal(err)
	}
	e.Connect(w.now)
	a.wake()
	w.run(100 * time.Millisecond)
	a.open(b)
	w.runUntil(2*limits.HelloEvery, "a session", e.Up)
	if len(a.downs) > 0 {
		t.Errorf("told %v", a.downs)
	}
}

func TestOnlyAdmittedNICsGetAnAnswer(t *testing.T) {
	w := newWorld(t, 1, weather{})
	a, b := w.add(1, nil), w.add(2, nil)
	b.refuse = func(nic uint64, from netip.AddrPort) error { return errStranger }
	a.open(b).Connect(w.now)
	a.wake()
	w.run(3 * time.Second)
	if len(a.downs) != 1 || !errors.Is(a.downs[0], ErrUnreachable) {
		t.Errorf("told %v, want %v", a.downs, ErrUnreachable)
	}
	if st := b.m.Stats(); st.Refused != 8 || st.HelloSends != 0 {
		t.Errorf("%d refused, %d answered, want 8 and 0", st.Refused, st.HelloSends)
	}
}

func TestANICOfAnotherVersionIsToldOurs(t *testing.T) {
	w := newWorld(t, 1, weather{})
	a := w.add(1, nil)
	w.add(2, nil)
	e, _ := a.m.Open(2, address(2))
	e.Connect(w.now)
	var hello wire.Hello
	w.filter = func(from, to *node, frame []byte) bool {
		_, body, _ := wire.ParseOuter(frame)
		hello, _ = wire.ParseHello(body)
		return false
	}
	a.wake()
	w.run(time.Millisecond)

	// Node 2 has a later version: its answer to our Hello says so.
	b := make([]byte, 200)
	answer := wire.Hello{MinVersion: 2, MaxVersion: 3, Index: 7, NIC: 2, MTUCommand: 1472, MTUData: 1472, WinCommand: 1, WinData: 1,
		EchoIncarnation: 1, EchoCounter: 1}
	wire.Outer{Kind: wire.KindHelloAck, Flags: wire.FlagTagged, Index: hello.Index, Counter: 1}.Put(b)
	answer.Put(b[wire.OuterLen:])
	a.m.Receive(w.now, address(2), b[:wire.Seal(b, wire.OuterLen+wire.HelloLen, hello.Cookie)])
	if len(a.downs) != 1 || !errors.Is(a.downs[0], ErrVersion) {
		t.Errorf("told %v, want %v", a.downs, ErrVersion)
	}

	// And so does its Hello, which is answered with our range.
	var told wire.Hello
	w.filter = func(from, to *node, frame []byte) bool {
		_, body, _ := wire.ParseOuter(frame)
		told, _ = wire.ParseHello(body)
		return false
	}
	a.m.Receive(w.now, address(2), helloFrame(2, 1, 1, func(h *wire.Hello) { h.MinVersion, h.MaxVersion = 2, 3 }))
	a.wake()
	w.run(time.Millisecond)
	if told.MaxVersion != wire.Version || a.m.Stats().VersionMismatches != 1 {
		t.Errorf("told version %d, counted %d", told.MaxVersion, a.m.Stats().VersionMismatches)
	}
}

func TestANICThatTakesOnlyTinyFramesIsRefused(t *testing.T) {
	w, _, b, _ := joined(t, nil)
	b.m.Receive(w.now, address(3), helloFrame(3, 1, 1, func(h *wire.Hello) { h.MTUCommand = limits.LeastFrame - 1 }))
	if st := b.m.Stats(); st.Refused != 1 || len(b.m.strangers) != 0 {
		t.Errorf("%d refused, %d strangers, want 1 and none", st.Refused, len(b.m.strangers))
	}
}

// loser is an owner that is told of lost records.
type loser struct {
	*node
	lost []string
}

func (l *loser) Lost(e *Endpoint, r wire.Record) { l.lost = append(l.lost, string(r.Payload())) }

func TestRecordsNotAcknowledgedAreToldBeforeDown(t *testing.T) {
	w, a, b, e := joined(t, nil)
	l := &loser{node: a}
	a.m.handler = l
	a.frag(e, wire.Command, "arrives")
	w.run(time.Second)
	b.dead = true
	a.frag(e, wire.Command, "posted")
	a.frag(e, wire.Command, "posted with it")
	w.run(time.Millisecond)
	a.onDown = func(*Endpoint, error) { l.lost = append(l.lost, "down") }
	a.frag(e, wire.Data, "queued")
	a.m.Forget(w.now, e)
	slices.Sort(l.lost[:len(l.lost)-1])
	if want := []string{"posted", "posted with it", "queued", "down"}; !slices.Equal(l.lost, want) {
		t.Errorf("told of %q, want %q", l.lost, want)
	}
}

func TestAPeerOpenedWithoutItsIDIsNamedByItsAnswer(t *testing.T) {
	w := newWorld(t, 1, weather{})
	a, b := w.add(1, nil), w.add(2, nil)
	e, err := a.m.Open(0, b.addr)
	if err != nil {
		t.Fatal(err)
	}
	e.Connect(w.now)
	a.wake()
	w.run(time.Second)
	if e.NIC() != 2 || a.m.Endpoint(2) != e || !e.Up() {
		t.Errorf("endpoint is of NIC %d, up %v", e.NIC(), e.Up())
	}
	if again, _ := a.m.Open(2, b.addr); again != e {
		t.Error("opened with its id, the peer got a second endpoint")
	}
}

func TestOpenSaysWhyNot(t *testing.T) {
	_, a, _, _ := joined(t, func(c *Config) { c.MaxPeers = 2 })
	if _, err := a.m.Open(2, address(9)); !errors.Is(err, ErrAddress) {
		t.Errorf("a NIC that is up, at another address: %v, want %v", err, ErrAddress)
	}
	if _, err := a.m.Open(3, address(3)); err != nil {
		t.Error(err)
	}
	if _, err := a.m.Open(4, address(4)); !errors.Is(err, ErrPeers) {
		t.Errorf("a third peer of two: %v, want %v", err, ErrPeers)
	}
	if _, err := a.m.Open(3, address(5)); err != nil || a.m.Endpoint(3).Addr() != address(5) {
		t.Errorf("a NIC that is not up did not move: %v", err)
	}
}

func TestARestartAtAnotherAddressIsFollowed(t *testing.T) {
	w, a, b, _ := joined(t, nil)
	a.addr = address(77)
	a.restart()
	a.open(b).Connect(w.now)
	w.run(time.Second)
	if e := b.m.Endpoint(1); !e.Up() || e.Addr() != address(77) || e.Incarnation() != 2 {
		t.Errorf("up %v at %v, incarnation %d", e.Up(), e.Addr(), e.Incarnation())
	}
}

// A host's clock has gone back, and the data that the NIC keeps from one life to the next is
// lost.
func TestANICWhoseIncarnationHasGoneBackIsTold(t *testing.T) {
	w, a, b, _ := joined(t, nil)
	a.dead = true
	b.m.Endpoint(1).Connect(w.now)
	b.frag(b.m.Endpoint(1), wire.Command, "something pending")
	b.wake()
	w.run(5 * time.Second)
	if b.m.Endpoint(1).Up() || b.outdated != 0 {
		t.Fatalf("up %v, told %d times", b.m.Endpoint(1).Up(), b.outdated)
	}
	a.cfg.Incarnation = 0 // less than it was
	a.m, a.dead, a.next = New(a.cfg, a), false, w.now
	a.open(b).Connect(w.now)
	w.run(5 * time.Second)
	if b.outdated == 0 {
		t.Error("it says hello, and the owner is not told")
	}
	sent := w.sent
	b.m.Endpoint(1).Connect(w.now)
	b.wake()
	w.run(time.Second)
	if n := w.sent - sent; n > 10 { // four hellos and their answers
		t.Errorf("%d frames in a second", n)
	}
	if b.m.Endpoint(1).Up() || b.m.Endpoint(1).Incarnation() != 1 {
		t.Errorf("up %v, incarnation %d", b.m.Endpoint(1).Up(), b.m.Endpoint(1).Incarnation())
	}
	w.check()
}

// A peer that acknowledges nothing and keeps asking makes the control backlog grow. Control
// never refuses, and the peer is cut off.
func TestControlIsNeverRefusedAndItsBacklogBounded(t *testing.T) {
	w, a, b, e := joined(t, nil)
	b.dead = true
	for range 2 * limits.ControlBacklog {
		if e.Control(w.now, 1000) == nil {
			t.Fatal("Control said no")
		}
	}
	if n := e.channels[wire.Command].queue.n; n != limits.ControlBacklog {
		t.Errorf("%d segments wait, want %d", n, limits.ControlBacklog)
	}
	a.wake()
	w.run(time.Millisecond)
	if len(a.downs) != 1 || !errors.Is(a.downs[0], ErrOverrun) {
		t.Errorf("told %v, want %v", a.downs, ErrOverrun)
	}
	if e.Control(w.now, 10) != nil {
		t.Error("Control without a session gave room")
	}
	w.quiet()
}

// A notice may be left out, so no number of notices cuts off a peer that is silent for a while.
func TestNoticesTakeHalfOfTheBacklog(t *testing.T) {
	w, a, b, e := joined(t, nil)
	b.asleep = w.now.Add(50 * time.Millisecond)
	given := 0
	for range 2 * limits.ControlBacklog {
		if e.Notice(w.now, 1000) != nil {
			given++
		}
	}
	if n := e.channels[wire.Command].queue.n; n != limits.ControlBacklog/2 || given < n {
		t.Errorf("%d segments wait, with %d notices; expected %d segments", n, given, limits.ControlBacklog/2)
	}
	if e.Control(w.now, 1000) == nil {
		t.Error("Control has no room where notices have none")
	}
	a.wake()
	w.run(time.Second)
	if len(a.downs) > 0 {
		t.Errorf("the session has ended: %v", a.downs)
	}
	if e.Notice(w.now, 1000) == nil {
		t.Error("a notice has no room when the backlog is sent")
	}
}

func TestAFullWindowRefusesAndControlWaitsForIt(t *testing.T) {
	w, a, b, e := joined(t, func(c *Config) { c.ReceiveCapacity = 1 << 30 })
	b.asleep = w.now.Add(50 * time.Millisecond)
	n := 0
	for a.frag(e, wire.Command, payload(n, 1300)) {
		n++
	}
	if n != limits.Window {
		t.Errorf("%d segments before the window was full, want %d (USNIC-41)", n, limits.Window)
	}
	if c := e.Control(w.now, wire.FragLen+7); c == nil {
		t.Error("Control said no")
	} else {
		wire.PutFrag(c, &wire.Envelope{}, 7)
		copy(c[wire.FragLen:], "control")
	}
	w.runUntil(time.Second, "delivery", func() bool { return len(b.got) == n+1 })
	w.run(time.Second)
	if a.writable < 2 {
		t.Error("the sender was not told that there is room again")
	}
	w.quiet()
}

func TestOneSegmentGoesHoweverSmallTheCapacity(t *testing.T) {
	w, a, b, e := joined(t, func(c *Config) { c.ReceiveCapacity = 1 })
	if !a.frag(e, wire.Command, "one") {
		t.Error("nothing may be sent")
	}
	w.run(time.Second)
	if b.got["one"] != 1 {
		t.Errorf("got %v", b.got)
	}
}

func TestEachChannelLeavesTheOtherItsShare(t *testing.T) {
	w, a, b, e := joined(t, nil)
	b.asleep = w.now.Add(10 * time.Millisecond)
	f := chunks(1, 1<<20)
	for e.Post(w.now, f, 1) > 0 {
	}
	if !a.frag(e, wire.Command, "small") {
		t.Error("a long message shut the command channel out (USNIC-52)")
	}
	f.Limit = f.Next
	w.run(time.Second)
	if b.got["small"] != 1 {
		t.Errorf("got %d records", len(b.got))
	}
}

func TestForgottenPeersAreGone(t *testing.T) {
	w, a, _, e := joined(t, nil)
	f := chunks(1, 100_000)
	for e.Post(w.now, f, 1) > 0 {
	}
	received := a.m.Stats().Receives
	a.m.Forget(w.now, e)
	if len(a.released) != 1 || !errors.Is(f.Err, ErrForgotten) || len(a.downs) != 1 || !errors.Is(a.downs[0], ErrForgotten) {
		t.Errorf("released %d with %v, down %v", len(a.released), f.Err, a.downs)
	}
	if a.m.Endpoint(2) != nil || len(a.m.Endpoints()) != 0 {
		t.Error("the endpoint is still there")
	}
	a.wake()
	w.run(time.Second)
	if got := a.m.Stats().Receives; got < received {
		t.Errorf("counted %d frames, %d before", got, received)
	}
	if err := a.m.Stats().Check(); err != nil {
		t.Error(err)
	}
}

func TestGoodbyeEndsBothSides(t *testing.T) {
	w, a, b, e := joined(t, nil)
	f := chunks(1, 100_000)
	for e.Post(w.now, f, 1) > 0 {
	}
	a.m.Close(w.now, a)
	if !errors.Is(f.Err, ErrGoodbye) {
		t.Errorf("fragment released with %v", f.Err)
	}
	a.wake()
	w.run(3 * time.Second)
	if len(b.downs) != 1 || !errors.Is(b.downs[0], ErrGoodbye) {
		t.Errorf("node 2 was told %v", b.downs)
	}
	e.Connect(w.now)
	a.wake()
	w.run(time.Second)
	if e.Up() {
		t.Error("a closed module opened a session")
	}
}

// A frame of a peer that has said goodbye may arrive late. It does not cause an attempt at a
// session.
func TestALateFrameOfAPeerThatHasSaidGoodbyeIsNotAnswered(t *testing.T) {
	w, a, b, _ := joined(t, nil)
	var late []byte
	w.filter = func(from, _ *node, frame []byte) bool {
		if from == b && late == nil {
			late = frame
			return false
		}
		return true
	}
	b.frag(b.m.Endpoint(1), wire.Command, "late")
	b.poll()
	b.m.Close(w.now, b)
	w.run(time.Second)
	hellos := a.m.Stats().HelloSends
	a.m.Receive(w.now, b.addr, late)
	a.wake()
	w.run(5 * time.Second)
	if n := a.m.Stats().HelloSends - hellos; late == nil || n != 0 || len(a.downs) != 1 {
		t.Errorf("%d Hellos went to it, told %v", n, a.downs)
	}
}

// An attempt of rel itself, to call a peer back, ends silently. Once the owner wants the session
// too, it is told.
func TestAnAttemptThatTheOwnerJoinsEndsWithAWord(t *testing.T) {
	w := newWorld(t, 5, weather{})
	a, b := w.add(1, nil), w.add(2, nil)
	b.dead = true
	e := a.open(b)
	a.m.callBack(w.now, b.addr, 32)
	a.wake()
	w.run(time.Second)
	e.Connect(w.now)
	w.run(5 * time.Second)
	if len(a.downs) != 1 || !errors.Is(a.downs[0], ErrUnreachable) {
		t.Errorf("told %v", a.downs)
	}
}

func TestFaultHooksFailWhatTheySay(t *testing.T) {
	drop, ack, resend := 0, 0, 0
	every := func(n *int, k int) func() bool { return func() bool { *n++; return *n%k == 0 } }
	w := newWorld(t, 1, weather{})
	faults := func(c *Config) {
		c.Faults = Faults{DropReceived: every(&drop, 7), FailAck: every(&ack, 3), FailResend: every(&resend, 2)}
	}
	a, b := w.add(1, faults), w.add(2, faults)
	tr := newTraffic(a, b, 300, []int{50_000})
	tr.pump()
	w.runUntil(10*time.Second, "the transfer", tr.finished)
	w.run(time.Second)
	tr.exactly(t)
	st := a.m.Stats()
	if st.FaultDrops == 0 || ack < 3 || resend < 2 || st.Resends == 0 {
		t.Errorf("hooks: %d drops, %d ACKs, %d resends; %d resent", st.FaultDrops, ack, resend, st.Resends)
	}
	w.quiet()
}

func TestStatsThatContradictThemselvesAreFound(t *testing.T) {
	for name, s := range map[string]Stats{
		"a frame without an outcome":     {Receives: 1},
		"a segment of no kind":           {TotalSends: 2, FragSends: 1},
		"a retransmission without cause": {Resends: 1},
		"more acknowledged than sent":    {SegmentsAcked: 1},
	} {
		if s.Check() == nil {
			t.Errorf("%s was not found", name)
		}
	}
}

func TestWatchBelowZeroStopsTheProgram(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	_, _, _, e := joined(t, nil)
	e.Watch(-1)
}

func TestARecordTooLongStopsTheProgram(t *testing.T) {
	w, _, _, e := joined(t, nil)
	for name, call := range map[string]func(){
		"Reserve": func() { e.Reserve(w.now, wire.Command, e.MaxRecord(wire.Command)+1) },
		"Control": func() { e.Control(w.now, e.MaxRecord(wire.Command)+1) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			call()
		}()
	}
}

func TestPiecesFillTheirFrames(t *testing.T) {
	w, a, b, e := joined(t, nil)
	longest := 0
	w.filter = func(from, to *node, frame []byte) bool { longest = max(longest, len(frame)); return true }
	f := chunks(1, 100_000)
	if n := e.Post(w.now, f, 1); n != 1 || f.Next != uint64(e.PieceLen(wire.TypeChunk)) {
		t.Errorf("%d segments were posted, with %d bytes, want one with %d", n, f.Next, e.PieceLen(wire.TypeChunk))
	}
	big := bytes.Repeat([]byte("x"), e.MaxRecord(wire.Command)-wire.FragLen)
	a.frag(e, wire.Command, string(big))
	f.Limit = f.Next
	w.run(time.Millisecond)
	if longest != 1472 {
		t.Errorf("the longest frame has %d bytes, want 1472", longest)
	}
	if b.got[string(big)] != 1 {
		t.Error("the longest record did not arrive")
	}
}

// The next instant that Progress returns is exact: with nothing pending there is none.
func TestAnIdleModuleNeedsNoPoll(t *testing.T) {
	w, a, b, e := joined(t, nil)
	a.frag(e, wire.Command, "x")
	w.run(time.Second)
	for _, n := range []*node{a, b} {
		if _, next := n.m.Progress(w.now, n); next != clock.Never {
			t.Errorf("node %d wants a poll in %v", n.cfg.NIC, next.Sub(w.now))
		}
	}
	before := w.polls
	w.run(time.Hour)
	if w.polls != before {
		t.Errorf("%d polls in an idle hour", w.polls-before)
	}
}

// takes makes n take the next frame out of its inbox like a receiver that waits for it
// (USNIC-38), and returns the frame's payload.
func (n *node) takes(e *Endpoint) (payload string, ok bool) {
	r := wire.Record(e.Peek(n.inbox[0].frame))
	if r == nil {
		return "", false
	}
	e.Take(n.w.now)
	n.inbox, n.held = n.inbox[1:], 0
	return string(r.Payload()), true
}

// Any next entry into the module notes a message that was taken out of the link (USNIC-39).
func TestAMessageThatWasTakenIsNotedByTheNextEntry(t *testing.T) {
	for name, enter := range map[string]func(b *node, back *Endpoint, last []byte){
		"Progress": func(b *node, _ *Endpoint, _ []byte) { b.m.Progress(b.w.now, b) },
		"Receive":  func(b *node, back *Endpoint, last []byte) { b.m.Receive(b.w.now, back.Addr(), last) },
		"End":      func(b *node, back *Endpoint, _ []byte) { b.end(back, false) },
		"Stats":    func(b *node, _ *Endpoint, _ []byte) { b.m.Stats() },
		"Peek":     func(b *node, back *Endpoint, _ []byte) { back.Peek(nil) },
		"Begin":    func(b *node, back *Endpoint, _ []byte) { b.single(back, "answer") },
		"Close":    func(b *node, _ *Endpoint, _ []byte) { b.m.Close(b.w.now, b) },
		"Forget":   func(b *node, back *Endpoint, _ []byte) { b.m.Forget(b.w.now, back) },
	} {
		w, a, b, e := joined(t, nil)
		back := b.m.Endpoint(1)
		before := back.m.stats.FragReceives
		b.asleep = w.now.Add(time.Second)
		a.frag(e, wire.Command, "question")
		w.runUntil(time.Second, "the question", func() bool { return len(b.inbox) > 0 })
		frame := b.inbox[0].frame
		if got, ok := b.takes(back); !ok || got != "question" {
			t.Fatalf("%s: took %q, %v", name, got, ok)
		}
		if back.m.stats.FragReceives != before {
			t.Errorf("%s: the message is noted before that", name)
		}
		st := &b.m.stats
		if enter(b, back, frame); st.FragReceives != before+1 || st.FastReceives != 1 {
			t.Errorf("%s: %d messages are noted, %d of them taken; want one", name, st.FragReceives-before, st.FastReceives)
		}
		if name == "Receive" && st.Replays != 1 {
			t.Errorf("its frame was received again, and %d replays are counted", st.Replays)
		}
	}
}

// flushing counts the flushes of a node's frames, and how many segments to a peer had been noted
// by the last.
type flushing struct {
	*node
	to      *Endpoint
	flushed int
	noted   uint64
}

func (f *flushing) Flush(clock.Time) { f.flushed, f.noted = f.flushed+1, f.to.m.stats.FragSends }

// A single answer takes the acknowledgement of its question along, and leaves before it is noted
// itself.
func TestAnAnswerTakesTheAcknowledgementAlongAndDoesNotWaitToBeNoted(t *testing.T) {
	w, a, b, e := joined(t, nil)
	back := b.m.Endpoint(a.cfg.NIC)
	a.deliver = func(*Endpoint, wire.Record) { a.frag(e, wire.Command, "question") }
	b.frag(back, wire.Command, "ready")
	w.runUntil(time.Second, "the word that b is ready", func() bool { return b.m.InFlight() == 1 })
	b.asleep = w.now.Add(time.Second)
	w.runUntil(time.Second, "the question", func() bool { return len(b.inbox) > 0 })
	a.deliver = nil
	var answer []byte
	w.filter = func(from, _ *node, frame []byte) bool { answer = frame; return from == b }
	question := b.inbox[0]
	b.inbox = b.inbox[:0]
	if r := back.Peek(question.frame); r == nil || string(wire.Record(r).Payload()) != "question" {
		t.Fatal("the question was not shown")
	}
	back.Take(w.now)
	out, noted := &flushing{node: b, to: back}, back.m.stats.FragSends
	room, _ := back.Begin(wire.Command, wire.FragLen+len("answer"), AsSingle, &Account{}, out)
	wire.PutFrag(room, &wire.Envelope{}, len("answer"))
	copy(room[wire.FragLen:], "answer")
	if back.End(w.now, func() clock.Time { return w.now }, false, out); out.flushed != 1 || out.noted != noted || back.m.stats.FragSends != noted+1 {
		t.Errorf("flushed %d times, with %d segments noted by then and %d behind it; want once, with %d and %d", out.flushed, out.noted, back.m.stats.FragSends, noted, noted+1)
	}
	asked, _, err := wire.ParseInner(question.frame[wire.OuterLen : len(question.frame)-wire.TagLen])
	if err != nil {
		t.Fatal(err)
	}
	told, _, err := wire.ParseInner(answer[wire.OuterLen : len(answer)-wire.TagLen])
	if err != nil || told.Flags&wire.AckCommand == 0 || told.Ack[wire.Command] != asked.Seq {
		t.Errorf("the answer acknowledges %d, %v; want the question, %d", told.Ack[wire.Command], err, asked.Seq)
	}
	b.m.Progress(w.now, b)
	if st := b.m.Stats(); b.m.InFlight() != 1 || st.FastReceives != 1 || st.AckSends != 0 {
		t.Errorf("in flight after that: %d, want the answer; %d by the fast path; %d ACKs by themselves", b.m.InFlight(), st.FastReceives, st.AckSends)
	}
	b.asleep = 0
	w.filter = nil
	w.run(time.Millisecond)
	w.quiet()
	if a.got["answer"] != 1 {
		t.Error("the answer has not come")
	}
}

// Half-open sessions that know each other's earlier indices must settle as well, on a network
// without any randomness: both sides are bound, one restarts, and their Hellos cross.
func TestCrossingHellosOfARestartSettle(t *testing.T) {
	for restarts := range 2 {
		for skew := -30 * time.Microsecond; skew <= 30*time.Microsecond; skew += 5 * time.Microsecond {
			w := newWorld(t, 1, weather{})
			a, b := w.add(1, nil), w.add(2, nil)
			w.filter = func(from, to *node, frame []byte) bool {
				o, _, _ := wire.ParseOuter(frame)
				return o.Kind == wire.KindHello
			}
			var again clock.Time // when the second Hello leaves
			for _, n := range []*node{a, b} {
				o := w.nodes[2-n.cfg.NIC]
				n.open(o).Connect(w.now)
				n.wake()
			}
			for a.m.hellos.counter < 2 {
				w.step(w.now.Add(time.Second))
				again = w.now
			}

			// The same once more, now with a known time to restart.
			w = newWorld(t, 1, weather{})
			a, b = w.add(1, nil), w.add(2, nil)
			quiet := true
			hellos := 0
			w.filter = func(from, to *node, frame []byte) bool {
				o, _, _ := wire.ParseOuter(frame)
				if o.Kind == wire.KindHello {
					hellos++
				}
				return !quiet || o.Kind == wire.KindHello
			}
			for _, n := range []*node{a, b} {
				n.open(w.nodes[2-n.cfg.NIC]).Connect(w.now)
				n.wake()
			}
			w.run(again.Add(skew).Sub(w.now))
			quiet = false
			n := w.nodes[restarts]
			n.restart()
			n.open(w.nodes[1-restarts]).Connect(w.now)
			hellos = 0
			w.run(300 * time.Millisecond)
			ea, eb := a.m.Endpoint(2), b.m.Endpoint(1)
			if !ea.Up() || !eb.Up() || ea.live.peer.Index != eb.live.index || eb.live.peer.Index != ea.live.index {
				t.Errorf("node %d restarts, skew %v: up %v and %v, or not the same session", restarts+1, skew, ea.Up(), eb.Up())
			}
			if hellos > 12 {
				t.Errorf("node %d restarts, skew %v: %d Hellos", restarts+1, skew, hellos)
			}
		}
	}
}
