package nic

import (
	"errors"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/driver"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/link/fault"
	"github.com/weftnet/weft/internal/link/mem"
	"github.com/weftnet/weft/internal/names"
	"github.com/weftnet/weft/internal/rel"
	"github.com/weftnet/weft/internal/secret"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/internal/wire"
)

func emptyFabric(t *testing.T) *fabric {
	return &fabric{t: t, now: clock.Time(time.Hour), sw: mem.NewSwitch(mem.Config{MTU: 1472})}
}

func (f *fabric) run(d time.Duration) {
	for end := f.now.Add(d); f.now < end; {
		f.step()
	}
}

func TestASecondNICWithAKnownIDIsRefusedWhileTheFirstLives(t *testing.T) { // decision 1
	f := emptyFabric(t)
	one, two, thief := f.addNIC(1, 1, fault.Config{}), f.addNIC(2, 1, fault.Config{}), f.addNIC(2, 9, fault.Config{})
	if err := two.AddNode(1, mem.Address(1)); err != nil {
		t.Fatal(err)
	}
	f.until(time.Second, "the pair is open", func() bool { return one.peerOf(2) != nil && one.peerOf(2).names.Synced() })
	if err := thief.AddNode(1, mem.Address(1)); err != nil {
		t.Fatal(err)
	}
	f.run(8 * time.Second)
	if pr := one.peerOf(2); !pr.ep.Up() || pr.ep.Addr() != mem.Address(2) || pr.ep.Incarnation() != 1 {
		t.Fatalf("the peer is up: %v, at %v, incarnation %d", pr.ep.Up(), pr.ep.Addr(), pr.ep.Incarnation())
	}
	if thief.peerOf(1).ep.Up() {
		t.Error("the second NIC was let in")
	}
	f.engines = []*Engine{one, thief} // the first falls silent: it may have moved
	f.until(8*time.Second, "the NIC at its new address", func() bool { pr := one.peerOf(2); return pr.ep.Up() && pr.ep.Addr() == mem.Address(3) })
	f.run(4 * time.Second)
	if pr := one.peerOf(2); !pr.ep.Up() {
		t.Error("the peer is down")
	}
	f.noLeaks() // nothing is probed any more
}

func TestANICIsLookedForWhereItWasNamedThoughItWasElsewhere(t *testing.T) {
	f := emptyFabric(t)
	one := f.addNIC(1, 1, fault.Config{})
	home := f.sw.Port()
	atHome := func(c *Config) { c.Link = home }
	f.addNIC(2, 1, fault.Config{}, atHome)
	if err := one.AddNode(0, mem.Address(2)); err != nil {
		t.Fatal(err)
	}
	isUp := func(incarnation uint64, at int) func() bool {
		return func() bool {
			pr := one.peerOf(2)
			return pr != nil && pr.ep.Up() && pr.ep.Incarnation() == incarnation && pr.ep.Addr() == mem.Address(at)
		}
	}
	f.until(time.Second, "the NIC where it was named", isUp(1, 2))
	f.kill(1)
	away := f.addNIC(2, 2, fault.Config{})
	if err := away.AddNode(1, mem.Address(1)); err != nil {
		t.Fatal(err)
	}
	f.until(20*time.Second, "the NIC elsewhere", isUp(2, 4))
	f.kill(1)
	f.wait(2 * limits.FailureTimeout)
	f.addNIC(2, 3, fault.Config{}, atHome) // it knows no other NIC
	f.until(2*limits.RetryAtMost+2*limits.UnreachableAfter, "the NIC where it was named, again", isUp(3, 2))
}

func TestANICThatIsNamedElsewhereIsNotLookedForWhereItWas(t *testing.T) {
	f := emptyFabric(t)
	one := f.addNIC(1, 1, fault.Config{})
	f.addNIC(2, 1, fault.Config{})
	if err := one.AddNode(2, mem.Address(2)); err != nil {
		t.Fatal(err)
	}
	isUp := func() bool { pr := one.peerOf(2); return pr != nil && pr.ep.Up() }
	f.until(time.Second, "the NIC where it was named", isUp)
	f.kill(1)
	f.until(2*limits.FailureTimeout, "its end", func() bool { return !isUp() })
	f.wait(limits.FailureTimeout)
	f.addNIC(2, 2, fault.Config{}) // it knows no other NIC
	if err := one.AddNode(2, mem.Address(3)); err != nil {
		t.Fatal(err)
	}
	f.until(limits.RetryAtMost+limits.UnreachableAfter, "the NIC where it is named now", isUp)
}

func TestANICThatIsNamedByItsAddressIsWhicheverIsThere(t *testing.T) {
	for _, c := range []struct {
		how  string
		ends func(f *fabric)
	}{
		{"killed", func(f *fabric) { f.kill(1) }},
		{"closed", func(f *fabric) { f.engines[1].Close(f.now); f.wait(time.Second); f.kill(1) }},
	} {
		f := emptyFabric(t)
		one := f.addNIC(1, 1, fault.Config{})
		home := f.sw.Port()
		atHome := func(c *Config) { c.Link = home }
		f.addNIC(2, 1, fault.Config{}, atHome)
		if err := one.AddNode(0, mem.Address(2)); err != nil {
			t.Fatal(err)
		}
		isUp := func(id uint64) func() bool {
			return func() bool { pr := one.peerOf(id); return pr != nil && pr.ep.Up() }
		}
		f.until(time.Second, "the NIC that is there first", isUp(2))
		for id := uint64(3); id < 5; id++ { // the NIC that takes its place has the same name
			c.ends(f)
			f.addNIC(id, 1, fault.Config{}, atHome) // it knows no other NIC
			f.until(limits.FailureTimeout+limits.RetryAtMost+limits.UnreachableAfter, "the NIC that is there after one was "+c.how, isUp(id))
		}
		f.wait(2 * limits.FailureTimeout)
		if n := one.Nodes(); len(n) != 1 || n[0].ID != 4 || !n[0].Up {
			t.Errorf("after each was %s: %+v", c.how, n)
		}
	}
}

func TestANICThatIsNamedByItsIDIsNoOther(t *testing.T) {
	f := emptyFabric(t)
	one := f.addNIC(1, 1, fault.Config{})
	home := f.sw.Port()
	atHome := func(c *Config) { c.Link = home }
	f.addNIC(2, 1, fault.Config{}, atHome)
	if err := one.AddNode(2, mem.Address(2)); err != nil {
		t.Fatal(err)
	}
	f.until(time.Second, "the NIC that was named", func() bool { pr := one.peerOf(2); return pr != nil && pr.ep.Up() })
	f.kill(1)
	f.addNIC(3, 1, fault.Config{}, atHome)
	f.wait(2 * limits.FailureTimeout)
	if n := one.Nodes(); len(n) != 1 || n[0].ID != 2 || n[0].Up {
		t.Errorf("%+v", n)
	}
}

func TestAStaticNICTalksOnlyToThoseItWasToldOf(t *testing.T) {
	f := emptyFabric(t)
	e, err := New(Config{ID: 1, Incarnation: 1, Secrets: secret.Seeded(1), Link: f.sw.Port(), Static: true})
	if err != nil {
		t.Fatal(err)
	}
	f.engines = append(f.engines, e)
	known, stranger := f.addNIC(2, 1, fault.Config{}), f.addNIC(3, 1, fault.Config{})
	if err := e.AddNode(2, mem.Address(2)); err != nil {
		t.Fatal(err)
	}
	if err := known.AddNode(3, mem.Address(3)); err != nil { // it would spread the address
		t.Fatal(err)
	}
	if err := stranger.AddNode(1, mem.Address(1)); err != nil {
		t.Fatal(err)
	}
	f.run(5 * time.Second)
	if n := e.Nodes(); len(n) != 1 || n[0].ID != 2 || !n[0].Up {
		t.Errorf("it knows %+v", n)
	}
	if stranger.peerOf(1).ep.Up() {
		t.Error("a NIC that was not named was let in")
	}
}

func TestTheControlProcessIsReachedByItsAddress(t *testing.T) { // decision 1: slot 0
	f := newFabric(t, 2, fault.Config{})
	a := f.process(0, "a/0")
	g := vni.DefaultGeometry(true)
	rw, ro := g.Sizes()
	seg, err := vni.NewSegment(words(rw), words(ro), g)
	if err != nil {
		t.Fatal(err)
	}
	seg.EnableDirect()
	ctl := &tester{f: f, e: f.engines[1], name: names.Control, v: seg.Process(), seg: seg, gen: ControlGeneration}
	to := vni.SendContext{NIC: 2, Gen: ControlGeneration, Tag: 5, Flags: vni.WantNotify}
	if c := a.finish(false, a.start(vni.CodeSend, &to, []byte("nobody there"))); c.Status != vni.StatusProcessGone {
		t.Errorf("to a NIC without control process: %v", c.Status)
	}
	ctl.e.Driver().Tie(0, driver.Entry{VNI: seg})
	if r := command(ctl.e, driver.Command{Code: driver.NewProcess, PID: 1}); r.Err != nil || r.Gen != ControlGeneration {
		t.Fatalf("the control process is generation %d, %v", r.Gen, r.Err)
	}
	buf := make([]byte, 20)
	r := ctl.recv("a/0", 5, 0, buf)
	a.wantSent(a.start(vni.CodeSend, &to, []byte("question")))
	c := ctl.wantReceived(r, buf, []byte("question"))
	back := make([]byte, 20)
	r = a.recv("", 6, 0, back)
	ctl.wantSent(ctl.start(vni.CodeSend, &vni.SendContext{NIC: c.NIC, Slot: c.Slot, Gen: c.Gen, Tag: 6, Flags: vni.WantNotify}, []byte("answer")))
	if c := a.wantReceived(r, back, []byte("answer")); c.From != names.Control || c.NIC != 2 || c.Slot != 0 {
		t.Errorf("the answer is from %v, NIC %d, slot %d", c.From, c.NIC, c.Slot)
	}
	if _, ok := f.engines[0].Lookup(names.Control); ok {
		t.Error("the name of slot 0 is spread")
	}
	f.noLeaks()
}

func TestRequestsAreBoundedAndTheRestWaitsInOrder(t *testing.T) { // decision 8
	f := newFabric(t, 2, fault.Config{})
	b := f.process(1, "b/0")
	var ps []*tester
	var sends [][]int
	const each = 40
	for i := range 5 {
		p := f.process(0, "a/"+string(rune('0'+i)))
		ps, sends = append(ps, p), append(sends, nil)
	}
	f.known("b/0", "a/4")
	for k := range each {
		for i, p := range ps {
			sends[i] = append(sends[i], p.send("b/0", uint64(k), 0, pattern(limits.EagerMessage+1, byte(k))))
		}
	}
	f.settle()
	rm := f.engines[0].peerOf(2).remotes[remoteKey{b.slot, b.gen}]
	if rm.requests != limits.RequestsPerSource || rm.waiting.n == 0 || b.e.process(b.slot).stray.n != limits.RequestsPerSource {
		t.Fatalf("%d requests are open, %d sends wait, %d requests have come", rm.requests, rm.waiting.n, b.e.process(b.slot).stray.n)
	}
	// One of those that wait.
	ps[4].post(vni.Command{Code: vni.CodeCancel, Context: uint16(sends[4][each-1]), Size: vni.CancelSend})
	if c := ps[4].finish(false, sends[4][each-1]); c.Status != vni.StatusCancelled {
		t.Errorf("the cancelled send ended with %v", c.Status)
	}
	next := map[vni.Name]uint64{}
	buf := make([]byte, limits.EagerMessage+1)
	for range each*len(ps) - 1 {
		c := b.finish(true, b.recv("", 0, vni.AnyTag, buf))
		if c.Tag != next[c.From] {
			t.Fatalf("message %d of %v came when %d was due", c.Tag, c.From, next[c.From])
		}
		next[c.From]++
	}
	f.noLeaks()
}

// Waiters are woken one by one. The last must not be forgotten when no request is open any more.
func TestWhoWaitsForARequestIsWokenThoughCreditComes(t *testing.T) {
	c := newCrafted(t)
	e := c.a.e
	rm := e.peerOf(2).remotes[remoteKey{c.b.slot, c.b.gen}]
	rm.requests, rm.used = limits.RequestsPerSource, rm.granted
	var ps []*tester
	var sends []int
	for i := range 6 {
		p := c.f.process(0, "w/"+string(rune('0'+i)))
		ps, sends = append(ps, p), append(sends, p.send("b/0", 1, 0, []byte("x")))
	}
	c.f.settle()
	if rm.waiting.n != 6 {
		t.Fatalf("%d sends wait", rm.waiting.n)
	}
	rm.requests = 0 // one event for all of them
	rm.granted += 1000
	c.credit().handed += 1000
	c.credit().out += 1000
	e.admit(rm)
	for i, p := range ps {
		p.wantSent(sends[i])
	}
}

// Credit may be recalled after a waiting send has been admitted and before its turn. The send has
// still waited longest.
func TestASendWhoseCreditIsTakenBackBeforeItsTurnStaysTheFirst(t *testing.T) { // decision 8
	c := newCrafted(t)
	e := c.a.e
	rm := e.peerOf(2).remotes[remoteKey{c.b.slot, c.b.gen}]
	rm.requests, rm.used = limits.RequestsPerSource, rm.granted
	old, young := c.f.process(0, "old/0"), c.f.process(0, "young/0")
	sends := []int{old.send("b/0", 1, 0, []byte("x"))}
	c.f.settle()
	sends = append(sends, young.send("b/0", 1, 0, []byte("x")))
	c.f.settle()
	first := rm.waiting.front()
	if rm.waiting.n != 2 || first.p != e.process(old.slot) {
		t.Fatalf("%d sends wait, the first of %v", rm.waiting.n, first.p)
	}
	rm.granted += 1000
	e.admit(rm)
	rm.used = rm.granted
	c.f.settle()
	if rm.waiting.n != 2 || rm.waiting.front() != first {
		t.Errorf("%d sends wait, the first of %v", rm.waiting.n, rm.waiting.front().p)
	}
	rm.requests = 0
	e.admit(rm)
	old.wantSent(sends[0])
	young.wantSent(sends[1])
}

// Decision 8: the number of messages that a peer can have parked is bounded, including messages
// that it gave up before they arrived.
func TestNumbersOfMessagesThatWereGivenUpAreParkedWithinABound(t *testing.T) {
	f := newFabric(t, 2, fault.Config{})
	a, b := f.process(0, "a/0"), f.process(1, "b/0")
	f.known("a/0", "b/0")
	a.wantSent(a.send("b/0", 1, 0, nil))
	pr := b.e.peerOf(1)
	for i := range uint32(2 * limits.VoidsPerPeer) {
		q := wire.Request{ID: 5, Length: 100_000, Envelope: wire.Envelope{DstSlot: b.slot, DstGen: b.gen, SrcSlot: a.slot, SrcGen: a.gen, Number: 10 + i}}
		var rec [wire.RequestLen]byte
		q.Put(rec[:])
		b.e.request(pr, rec[:]) // all but the first have the fragment id of another message
	}
	if n := b.e.inbounds.InUse(); n > limits.VoidsPerPeer+2 {
		t.Errorf("%d messages are kept", n)
	}
}

func TestSendsWaitForAFragmentID(t *testing.T) { // USNIC-23: limits.ActiveFragments at a time
	f := newFabric(t, 2, fault.Config{})
	a, b := f.process(0, "a/0"), f.process(1, "b/0")
	f.known("a/0", "b/0")
	pr := a.e.peerOf(2)
	var taken []wire.FragmentID
	for id, ok := pr.ep.NewFragment(); ok; id, ok = pr.ep.NewFragment() {
		taken = append(taken, id)
	}
	data, buf := pattern(50_000, 1), make([]byte, 50_000)
	r := b.recv("", 1, 0, buf)
	s := a.send("b/0", 1, 0, data)
	f.settle()
	if pr.blocked.n != 1 || len(taken) != limits.ActiveFragments {
		t.Fatalf("%d sends are blocked, %d ids were taken", pr.blocked.n, len(taken))
	}
	pr.ep.FreeFragment(taken[100])
	a.e.unblockOne(pr)
	a.wantSent(s)
	b.wantReceived(r, buf, data)
}

func TestAFragmentReleasedAfterItsEndIsNobodys(t *testing.T) {
	c := newCrafted(t)
	h := (*handler)(c.b.e)
	h.Released(c.f.now, &rel.Fragment{})
	h.Released(c.f.now, &rel.Fragment{Owner: &c.b.e.process(c.b.slot).sends[0]})
	if c.b.done(false, 0) {
		t.Error("a send that was never made is done")
	}
}

func TestAReceiveFromAProcessThatHasGoneTakesItsLastMessage(t *testing.T) {
	f := newFabric(t, 2, fault.Config{})
	a, b := f.process(0, "a/0"), f.process(1, "b/0")
	f.known("a/0", "b/0")
	a.wantSent(a.send("b/0", 1, vni.WantAccept, []byte("last words")))
	a.exit()
	f.run(time.Second)
	exactly := func(tag uint64, buf []byte) int {
		i, _ := b.v.TakeReceive()
		b.v.SetReceive(i, &vni.ReceiveContext{NIC: 1, Slot: a.slot, Gen: a.gen, Tag: tag, Flags: vni.WantNotify, Len: uint64(len(buf)), PoolIndex: vni.NoPool})
		b.v.SetDirect(true, i, [][]byte{buf})
		b.post(vni.Command{Code: vni.CodeReceive, Context: uint16(i)})
		return i
	}
	buf := make([]byte, 20)
	b.wantReceived(exactly(1, buf), buf, []byte("last words"))
	if c := b.finish(true, exactly(1, buf)); c.Status != vni.StatusProcessGone {
		t.Errorf("one more ended with %v", c.Status)
	}
	f.noLeaks()
}

func TestAReceiveFromAProcessThatHasGoneTakesWhatIsComingIn(t *testing.T) {
	for _, comes := range []bool{true, false} {
		c := newCrafted(t)
		env, id, data := c.env(2, wire.FlagWhole, 5), wire.FragmentID(4096+5), pattern(2000, 1)
		c.eager(env, id, 1000, 2000, data[1000:])
		c.frag(c.env(3, 0, 6), []byte("last words"))
		buf, short := make([]byte, 2000), make([]byte, 20)
		first, second, vain := c.b.recv("a/0", 5, 0, buf), c.b.recv("a/0", 6, 0, short), c.b.recv("a/0", 7, 0, nil)
		c.f.run(time.Millisecond)
		c.a.exit()
		c.f.run(time.Second)
		if got := c.b.finish(true, vain); got.Status != vni.StatusProcessGone {
			t.Errorf("a receive that nothing comes for ended with %v", got.Status)
		}
		if c.b.done(true, first) || c.b.done(true, second) {
			t.Fatal("a receive has ended though its message is coming in")
		}
		if comes {
			c.eager(env, id, 0, 2000, data[:1000])
			c.b.wantReceived(first, buf, data)
			c.b.wantReceived(second, short, []byte("last words"))
			c.f.noLeaks()
			continue
		}
		c.down()
		for _, r := range []int{first, second} {
			if got := c.b.finish(true, r); got.Status == vni.StatusOK {
				t.Error("a receive has met a message whose session has ended")
			}
		}
	}
}

func TestRefusedNICsAreRememberedAndBounded(t *testing.T) {
	var n peerNews
	at := clock.Time(0)
	for i := range limits.Refusals {
		at++
		n.refuse(at, uint64(i), mem.Address(i+1), names.ErrUnknown)
	}
	// The oldest says hello again, and becomes the newest.
	n.refuse(at+1, 0, mem.Address(1), names.ErrUnknown)
	if len(n.refused) != limits.Refusals || n.changes != limits.Refusals || n.refused[0].Times != 2 {
		t.Fatalf("%d are remembered, %d are news, the first came %d times", len(n.refused), n.changes, n.refused[0].Times)
	}
	n.refuse(at+2, 999, mem.Address(999), names.ErrOwnID)
	if r := n.refused[1]; len(n.refused) != limits.Refusals || r.NIC != 999 || r.Why != names.ErrOwnID || n.refused[0].NIC != 0 {
		t.Errorf("in place of the one that was silent the longest there is %+v, of %d", r, len(n.refused))
	}
}

// A send that lacks a fragment id continues when another send frees its id: neither the window nor
// credit would wake it.
func TestASendThatLacksAFragmentIDGoesOnWithTheNextThatIsFree(t *testing.T) { // USNIC-23
	for name, kept := range map[string]bool{"that of a send": false, "that of a copy": true} {
		t.Run(name, func(t *testing.T) {
			f := newFabricOf(t, 2, false)
			a, b := f.riders()
			ep := a.e.peerOf(2).ep
			var taken []wire.FragmentID
			for id, ok := ep.NewFragment(); ok; id, ok = ep.NewFragment() {
				taken = append(taken, id)
			}
			ep.FreeFragment(taken[0])
			// Leaves in several frames, from its own memory or from a copy.
			first := pattern(4000, 1)
			if !kept {
				first = pattern(100_000, 1)
			}
			if gone := kept && a.ride(b.tester, 1, false, first); gone != kept {
				t.Fatal("it has not left by a copy")
			}
			if !kept {
				a.send("b/0", 1, 0, first)
			}
			second := pattern(100_000, 2)
			s := a.send("b/0", 2, 0, second)
			f.until(time.Second, "a send lacks an id", func() bool { return a.e.peerOf(2).blocked.n == 1 })
			buf := make([]byte, 100_000)
			b.wantReceived(b.recv("a/0", 1, 0, buf), buf, first)
			b.wantReceived(b.recv("a/0", 2, 0, buf), buf, second)
			a.wantSent(s)
			for _, id := range taken[1:] {
				ep.FreeFragment(id)
			}
		})
	}
}

// A process may learn of another's end by the refusal of a send, and then by the tables. It gets
// one event.
func TestTheEndOfAProcessIsToldOnce(t *testing.T) {
	f := newFabric(t, 2, fault.Config{})
	a, b := f.process(0, "a/0"), f.process(1, "b/0")
	f.known("a/0", "b/0")
	buf := make([]byte, 1)
	r := b.recv("a/0", 1, 0, buf)
	a.wantSent(a.send("b/0", 1, 0, []byte("x")))
	b.wantReceived(r, buf, []byte("x"))
	p := a.e.process(a.slot)
	k := vni.Address{NIC: 2, Slot: b.slot, Gen: b.gen}
	a.e.tellGone(p, k, p.dests[k], nil)
	b.exit()
	f.run(time.Second)
	told := 0
	for e, _, ok := a.v.NextEvent(); ok; e, _, ok = a.v.NextEvent() {
		if e.Kind == vni.EventProcessGone {
			told++
		}
	}
	if told != 1 {
		t.Errorf("told %d times", told)
	}
}

// A process of another NIC has given credit to a process that has since ended. When it ends too,
// nothing of it is remembered.
func TestNothingIsRememberedOfAProcessThatHasEnded(t *testing.T) {
	f := newFabric(t, 2, fault.Config{})
	a, b := f.process(0, "a/0"), f.process(1, "b/0")
	f.known("a/0", "b/0")
	buf := make([]byte, 1)
	r := b.recv("a/0", 1, 0, buf)
	a.wantSent(a.send("b/0", 1, 0, []byte("x")))
	b.wantReceived(r, buf, []byte("x"))
	f.run(time.Millisecond)
	a.exit()
	f.run(time.Millisecond)
	b.exit()
	f.run(time.Millisecond)
	if n := len(f.engines[0].peerOf(2).remotes); n != 0 {
		t.Errorf("%d processes of the other NIC are remembered", n)
	}
}

// A sleeping process is woken when it is detached: otherwise it would sleep for ever.
func TestAProcessThatIsThrownOutIsWoken(t *testing.T) {
	f := newFabric(t, 1, fault.Config{})
	a := f.process(0, "a/0")
	a.v.SetSleeping(true)
	wakes := a.wakes
	a.e.detach(a.e.process(a.slot), errStorm)
	f.step()
	if a.wakes == wakes || a.v.Gone() != vni.StatusDetached {
		t.Errorf("woken %d times, and told %v", a.wakes-wakes, a.v.Gone())
	}
}

var errStorm = errors.New("it has done what none may")
