package nic

import (
	"testing"
	"time"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/link/fault"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/internal/wire"
)

// call makes a call by commands, as a process does: the receive of the reply first. It returns the
// two contexts.
func (p *tester) call(to *tester, tag uint64, request, reply []byte) (sent, answer int, token uint32) {
	p.f.t.Helper()
	i, ok := p.v.TakeSend()
	if !ok {
		p.f.t.Fatal("no send context is free")
	}
	p.uses[i]++
	token = callToken | p.uses[i]<<16 | uint32(i)
	answer = p.recv(to.name.String(), uint64(token), vni.IsReply, reply)
	p.v.SetSend(i, &vni.SendContext{Receiver: to.name, Tag: tag, Flags: vni.WantNotify | vni.IsCall, Token: token, Len: uint64(len(request)), PoolIndex: vni.NoPool})
	p.v.SetDirect(false, i, [][]byte{request})
	p.post(vni.Command{Code: vni.CodeSend, Context: uint16(i)})
	return i, answer, token
}

// giveUp cancels the receive of a reply, and waits until it has ended.
func (p *tester) giveUp(answer int) {
	p.f.t.Helper()
	p.post(vni.Command{Code: vni.CodeCancel, Context: uint16(answer), Size: vni.CancelReceive})
	if c := p.finish(true, answer); c.Status != vni.StatusCancelled {
		p.f.t.Fatalf("a call that was given up ended with %v", c.Status)
	}
}

// reply answers a call by a command, and returns the status of the answer.
func (p *tester) reply(to *tester, token uint32, data []byte) vni.Status {
	p.f.t.Helper()
	c := &vni.SendContext{NIC: to.e.ID(), Slot: to.slot, Gen: to.gen, Tag: uint64(token), Flags: vni.IsReply | vni.WantNotify}
	return p.finish(false, p.start(vni.CodeSend, c, data)).Status
}

// callStraight makes a call by the straight way.
func (p *rider) callStraight(to *tester, n, token uint32, reply []byte) *vni.StraightReceive {
	p.f.t.Helper()
	w := &vni.StraightReceive{From: to.name, Tag: uint64(token), Takes: vni.TakesReply, Buf: reply}
	p.f.until(10*time.Second, "the straight way", func() bool {
		room := p.way.Send(&vni.StraightSend{To: to.name, Tag: 7, Token: token, Answer: w, Len: int(n)})
		if room == nil {
			return false
		}
		copy(room, pattern(int(n), 1))
		p.way.Sent()
		return true
	})
	return w
}

// replyStraight answers a call by the straight way. It reports whether that way took the reply.
func (p *rider) replyStraight(to *tester, token uint32, data []byte) bool {
	room := p.way.Send(&vni.StraightSend{NIC: to.e.ID(), Slot: to.slot, Gen: to.gen, Tag: uint64(token), Len: len(data), Reply: true})
	if room == nil {
		return false
	}
	copy(room, data)
	p.way.Sent()
	return true
}

func TestAReplyIsRefusedIfItsCallerHasGivenUp(t *testing.T) {
	eachPlace(t, func(t *testing.T, f *fabric, a, b *tester) {
		for _, n := range []int{0, 10, 5000, 50_000} {
			request, buf := pattern(n, 1), make([]byte, n)
			sent, answer, token := a.call(b, 7, request, make([]byte, 10))
			b.wantReceived(b.recv("a/0", 7, 0, buf), buf, request)
			a.wantSent(sent)
			a.giveUp(answer)
			f.run(time.Second)
			before := b.e.Count(vni.NICRepliesCancelled)
			for _, size := range []int{0, 10, 5000} {
				if got := b.reply(a, token, make([]byte, size)); got != vni.StatusCancelled {
					t.Errorf("a reply of %d bytes to a call of %d that was given up ended with %v", size, n, got)
				}
			}
			if got := b.e.Count(vni.NICRepliesCancelled) - before; a.e != b.e && got != 3 {
				t.Errorf("the NIC has refused %d replies by itself; expected 3", got)
			}
		}
	})
}

func TestACallByTheStraightWayIsGivenUpLikeAnyOther(t *testing.T) {
	straightPlaces(t, func(t *testing.T, f *fabric, a, b *rider) {
		for i, n := range []uint32{1, 1000, 1392} {
			token := callToken | uint32(i+1)<<16 | 0xf000
			buf := make([]byte, n)
			w := b.want(a.tester, 7, buf)
			call := a.callStraight(b.tester, n, token, make([]byte, 10))
			b.got(w, pattern(int(n), 1))
			told, cancelled := a.e.Count(vni.NICCallsGivenUp), b.e.Count(vni.NICRepliesCancelled)
			a.way.Cancel(f.now, call)
			f.run(time.Second)
			if b.replyStraight(a.tester, token, []byte("late")) {
				t.Error("the straight way takes a reply that no caller waits for")
			}
			if got := b.reply(a.tester, token, []byte("late")); got != vni.StatusCancelled {
				t.Errorf("the reply ended with %v", got)
			}
			if told, cancelled = a.e.Count(vni.NICCallsGivenUp)-told, b.e.Count(vni.NICRepliesCancelled)-cancelled; told != 1 || cancelled != 1 {
				t.Errorf("%d calls and %d replies were counted; expected one of each", told, cancelled)
			}
		}
	})
}

// A call that ends with its reply causes no Withdraw, even if a receive is cancelled afterwards.
func TestACallThatWasAnsweredIsNotGivenUp(t *testing.T) {
	f := newFabric(t, 2, fault.Config{})
	a, b := f.process(0, "a/0"), f.process(1, "b/0")
	f.known("a/0", "b/0")
	buf, reply := make([]byte, 1), make([]byte, 4)
	for range 3 {
		sent, answer, token := a.call(b, 7, []byte("?"), reply)
		b.wantReceived(b.recv("a/0", 7, 0, buf), buf, []byte("?"))
		a.wantSent(sent)
		if got := b.reply(a, token, []byte("yes!")); got != vni.StatusOK {
			t.Fatalf("the reply ended with %v", got)
		}
		f.settle()
		a.post(vni.Command{Code: vni.CodeCancel, Context: uint16(answer), Size: vni.CancelReceive})
		a.wantReceived(answer, reply, []byte("yes!"))
	}
	late := a.recv("", 9, 0, buf) // no call at all
	a.post(vni.Command{Code: vni.CodeCancel, Context: uint16(late), Size: vni.CancelReceive})
	a.finish(true, late)
	f.settle()
	if n := b.e.process(b.slot).givenUp; n > 0 {
		t.Errorf("%d calls are noted as given up", n)
	}
}

// call returns the envelope of a's message number n, which is a call.
func (c *crafted) call(n, token uint32) wire.Envelope {
	e := c.env(n, 0, 7)
	e.Token = callToken | token
	return e
}

// gives turns the envelope of a call into that of the record by which a gives the call up.
func gives(e wire.Envelope, cost uint64) wire.Envelope {
	e.Tag = cost
	return e
}

func (c *crafted) noted() int { return c.b.e.process(c.b.slot).givenUp }

func TestACallThatIsGivenUpBeforeItArrivesReachesNoProcess(t *testing.T) {
	c := newCrafted(t)
	spent := *c.credit()
	c.withdraw(gives(c.call(2, 1), stagedCost(5)), 0)
	c.frag(c.call(2, 1), []byte("late?"))
	c.frag(c.env(3, 0, 7), []byte("next"))
	buf := make([]byte, 5)
	c.b.wantReceived(c.b.recv("a/0", 7, 0, buf), buf, []byte("next"))
	if n := c.noted(); n > 0 {
		t.Errorf("%d calls are noted that no process can answer", n)
	}
	now := c.credit()
	if used := now.spent - spent.spent; used != stagedCost(5)+stagedCost(4) {
		t.Errorf("both messages have used %d bytes of credit; expected %d", used, stagedCost(5)+stagedCost(4))
	}
}

func TestATokenThatIsUsedAgainIsOfANewCall(t *testing.T) {
	c := newCrafted(t)
	c.frag(c.call(2, 1), []byte("a"))
	c.withdraw(gives(c.call(2, 1), 0), 0)
	if n := c.noted(); n != 1 {
		t.Fatalf("%d calls are noted as given up; expected one", n)
	}
	c.frag(c.call(3, 1), []byte("b"))
	if n := c.noted(); n != 0 {
		t.Errorf("%d calls are noted as given up when their tokens are in use again", n)
	}
	c.withdraw(gives(c.call(3, 1), 0), 0)
	if got := c.b.reply(c.a, callToken|1, nil); got != vni.StatusCancelled {
		t.Errorf("a reply to the second call, which was given up too, ended with %v", got)
	}
}

// A NIC speaks only for its own processes, and a process only for itself: records of others do not
// affect a call.
func TestNoStrangerGivesACallUp(t *testing.T) {
	f := newFabric(t, 3, fault.Config{})
	a, b, x := f.process(0, "a/0"), f.process(1, "b/0"), f.process(2, "x/0")
	f.known("a/0", "b/0", "x/0")
	buf, reply := make([]byte, 1), make([]byte, 2)
	sent, answer, token := a.call(b, 7, []byte("?"), reply)
	b.wantReceived(b.recv("a/0", 7, 0, buf), buf, []byte("?"))
	a.wantSent(sent)
	forged := wire.Envelope{DstSlot: b.slot, DstGen: b.gen, SrcSlot: a.slot, SrcGen: a.gen, Number: 0, Token: token}
	record := make([]byte, wire.WithdrawLen)
	for _, e := range []wire.Envelope{forged, {DstSlot: b.slot, DstGen: b.gen, SrcSlot: x.slot, SrcGen: x.gen, Token: token}} {
		wire.PutWithdraw(record, 0, &e)
		(*handler)(b.e).Deliver(f.now, b.e.peerOf(x.e.ID()).ep, record)
	}
	other := forged
	other.SrcGen++
	wire.PutWithdraw(record, 0, &other) // another life of the caller's slot
	(*handler)(b.e).Deliver(f.now, b.e.peerOf(a.e.ID()).ep, record)
	if got := b.reply(a, token, []byte("ok")); got != vni.StatusOK {
		t.Fatalf("the reply ended with %v", got)
	}
	a.wantReceived(answer, reply, []byte("ok"))
}

func TestANICRemembersABoundedNumberOfCallsThatWereGivenUp(t *testing.T) {
	c := newCrafted(t)
	c.frag(c.env(2, 0, 7), []byte("x"))
	const calls = 3*limits.CallsGivenUp + 5
	for i := range uint32(calls) {
		c.withdraw(gives(c.call(2, i), 0), 0)
	}
	if n := c.noted(); n != limits.CallsGivenUp || n != c.credit().givenUp.count() {
		t.Errorf("%d calls are noted, %d of them of the peer; expected %d", n, c.credit().givenUp.count(), limits.CallsGivenUp)
	}
	for token, want := range map[uint32]bool{0: false, calls - limits.CallsGivenUp - 1: false, calls - limits.CallsGivenUp: true, calls - 1: true} {
		before := c.b.e.Count(vni.NICRepliesCancelled)
		c.b.reply(c.a, callToken|token, nil) // the caller's NIC may refuse a reply that is sent
		if got := c.b.e.Count(vni.NICRepliesCancelled) > before; got != want {
			t.Errorf("the reply to call %d of %d was refused: %v; expected %v", token, calls, got, want)
		}
	}
	if c.down(); c.noted() != 0 {
		t.Errorf("%d calls are noted when the session has ended", c.noted())
	}
}

// The session in which a call has left may be over when its caller gives up: in the next session
// its number belongs to another message.
func TestACallOfAnEarlierSessionIsNotWithdrawnInTheNext(t *testing.T) {
	f := newFabric(t, 2, fault.Config{})
	a, b := f.process(0, "a/0"), f.process(1, "b/0")
	f.known("a/0", "b/0")
	buf := make([]byte, 1)
	sent, answer, _ := a.call(b, 7, []byte("?"), nil)
	b.wantReceived(b.recv("a/0", 7, 0, buf), buf, []byte("?"))
	a.wantSent(sent)
	r := &a.e.process(a.slot).recvs[answer]
	d := r.call.dest
	if d == nil || r.call.number != 1 {
		t.Fatalf("the receive of the reply knows of %+v; expected the call, message 1", r.call)
	}
	a.e.forgetDest(a.e.process(a.slot), d)
	a.giveUp(answer)
	if n := a.e.Count(vni.NICCallsGivenUp); n > 0 {
		t.Errorf("%d calls of a session that is over were withdrawn", n)
	}
}

// A NIC may call many processes here, but the notes about its calls are bounded.
func TestTheCallsThatOneNICGaveUpAreBoundedOverAllProcesses(t *testing.T) {
	e, pr := &Engine{}, &peer{}
	var procs []*process
	for i := range 2 * limits.CallsGivenUpPerPeer / limits.CallsGivenUp {
		p := &process{}
		c := &credit{pr: pr}
		p.credits = append(p.credits, c)
		procs = append(procs, p)
		for token := range uint32(limits.CallsGivenUp) {
			e.noteGivenUp(&source{p: p, credit: c}, callToken|token)
		}
		if want := min((i+1)*limits.CallsGivenUp, limits.CallsGivenUpPerPeer); pr.givenUp != want {
			t.Fatalf("%d calls of %d processes are noted; expected %d", pr.givenUp, i+1, want)
		}
	}
	full := procs[0]
	// Replaces the oldest.
	e.noteGivenUp(&source{p: full, credit: full.credits[0]}, callToken|limits.CallsGivenUp)
	if _, known := full.credits[0].givenUp.places[givenUpCall{token: callToken | limits.CallsGivenUp}]; !known || pr.givenUp != limits.CallsGivenUpPerPeer {
		t.Errorf("the newest call of a full process is noted: %v, of %d calls", known, pr.givenUp)
	}
	for _, p := range procs {
		p.forgetAllGivenUp(p.credits[0])
		if p.givenUp != 0 || len(p.gaveUp) != 0 {
			t.Errorf("%d calls are left, of %d NICs", p.givenUp, len(p.gaveUp))
		}
	}
	if pr.givenUp != 0 {
		t.Errorf("%d calls of the NIC are left", pr.givenUp)
	}
}
