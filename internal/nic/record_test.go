package nic

import (
	"bytes"
	"encoding/binary"
	"slices"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/link/fault"
	"github.com/weftnet/weft/internal/link/mem"
	"github.com/weftnet/weft/internal/rel"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/internal/wire"
)

// The tests of this file give one engine records of its peer in any order, as a network does that
// loses and repeats frames (decision 5).
type crafted struct {
	t    *testing.T
	f    *fabric
	a, b *tester // a sends, as these tests say; b belongs to the engine
	pr   *peer   // in b's engine: a's NIC
}

func newCrafted(t *testing.T) *crafted {
	f := newFabric(t, 2, fault.Config{})
	c := &crafted{t: t, f: f, a: f.process(0, "a/0"), b: f.process(1, "b/0")}
	f.known("a/0", "b/0")
	c.pr = c.b.e.peerOf(1)
	buf := make([]byte, 1)
	r := c.b.recv("a/0", 0, 0, buf) // credit comes with it
	c.a.wantSent(c.a.send("b/0", 0, 0, []byte("x")))
	c.b.wantReceived(r, buf, []byte("x"))
	f.settle()
	return c
}

// env is the envelope of a's message number n; 1 has been used up by newCrafted.
func (c *crafted) env(n uint32, flags uint8, tag uint64) wire.Envelope {
	return wire.Envelope{Flags: flags, DstSlot: c.b.slot, DstGen: c.b.gen, SrcSlot: c.a.slot, SrcGen: c.a.gen, Number: n, Token: n<<16 | 1, Tag: tag}
}

func (c *crafted) deliver(b []byte) { (*handler)(c.b.e).Deliver(c.f.now, c.pr.ep, wire.Record(b)) }

func (c *crafted) frag(e wire.Envelope, payload []byte) {
	b := make([]byte, wire.FragLen+len(payload))
	wire.PutFrag(b, &e, len(payload))
	copy(b[wire.FragLen:], payload)
	c.deliver(b)
}

// run delivers a run of messages, the first with this number. No message wants an answer.
func (c *crafted) run(first uint32, tag uint64, messages ...[]byte) {
	e := c.env(first, 0, tag)
	e.Token = 0
	b := make([]byte, wire.RunSize(len(messages), len(bytes.Join(messages, nil))))
	wire.PutRun(b, &e, messages)
	c.deliver(b)
}

func (c *crafted) eager(e wire.Envelope, id wire.FragmentID, offset, length uint64, payload []byte) {
	b := make([]byte, wire.EagerLen+len(payload))
	wire.PutEager(b, id, offset, length, &e, len(payload))
	copy(b[wire.EagerLen:], payload)
	c.deliver(b)
}

func (c *crafted) chunk(flags uint8, id wire.FragmentID, offset uint64, payload []byte) {
	b := make([]byte, wire.ChunkLen+len(payload))
	wire.PutChunk(b, flags, id, offset, len(payload))
	copy(b[wire.ChunkLen:], payload)
	c.deliver(b)
}

func (c *crafted) request(e wire.Envelope, id wire.FragmentID, length uint64) {
	b := make([]byte, wire.RequestLen)
	q := wire.Request{ID: id, Length: length, Ready: length, Envelope: e}
	q.Put(b)
	c.deliver(b)
}

func (c *crafted) withdraw(e wire.Envelope, id wire.FragmentID) {
	b := make([]byte, wire.WithdrawLen)
	wire.PutWithdraw(b, id, &e)
	c.deliver(b)
}

// Table records of names, as internal/names/record.go defines them.
const (
	tableClaim = 1
	tableEnd   = 2
	tableSync  = 3
	tableLost  = 4
	tableNode  = 5

	tableAsk, tableAnswer, askGranted, askForbidden = 9, 10, 1, 2
)

// nameRecord returns a claim, or an end, of a process of the sender.
func nameRecord(op byte, slot uint16, gen uint32, name vni.Name, number uint32) []byte {
	le := binary.LittleEndian
	b := le.AppendUint32(le.AppendUint16([]byte{op, 0}, slot), gen)
	b = append(le.AppendUint32(le.AppendUint64(b, 0), name.Index), name.App[:]...)
	return le.AppendUint32(b, number)
}

// inTable returns a Table record with a payload.
func inTable(payload []byte) wire.Record {
	b := make([]byte, wire.RecordLen)
	wire.PutTable(b, len(payload))
	return append(b, payload...)
}

func (c *crafted) table(payload []byte) { c.deliver(inTable(payload)) }

func (c *crafted) down() { (*handler)(c.b.e).Down(c.f.now, c.pr.ep, rel.ErrUnreachable) }

// credit returns what a's NIC has of b's staging.
func (c *crafted) credit() *credit { return c.b.e.process(c.b.slot).creditOf(c.pr) }

func TestAWithdrawThatOvertakesItsMessage(t *testing.T) { // decisions 8 and 9
	for _, test := range []struct {
		name string
		come func(c *crafted, e wire.Envelope)
		used uint64
	}{
		{"a long one", func(c *crafted, e wire.Envelope) { c.request(e, 4096+5, 100_000) }, 0},
		{"a short one that asks", func(c *crafted, e wire.Envelope) { c.request(e, 4096+5, 100) }, 0},
		{"one on credit", func(c *crafted, e wire.Envelope) { c.eager(e, 4096+5, 1000, 5000, make([]byte, 1000)) }, stagedCost(5000)},
		{"one on credit, of which nothing comes", func(*crafted, wire.Envelope) {}, stagedCost(5000)},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := newCrafted(t)
			before := *c.credit()
			e := c.env(2, 0, 7)
			w := e
			w.Tag = test.used
			c.withdraw(w, 4096+5)
			test.come(c, e)
			c.frag(c.env(3, 0, 8), []byte("next"))
			buf := make([]byte, 10)
			c.b.wantReceived(c.b.recv("", 0, vni.AnyTag, buf), buf, []byte("next"))
			if now := c.credit(); now.handed-now.spent != before.handed-before.spent || now.out != before.out {
				t.Errorf("of %d bytes unspent and %d out, %d and %d are left", before.handed-before.spent, before.out, now.handed-now.spent, now.out)
			}
			c.f.noLeaks()
		})
	}
}

func TestAMessageThatIsWithdrawnHalfwayShowsNothingOfOthers(t *testing.T) { // decision 10
	c := newCrafted(t)
	secret := bytes.Repeat([]byte("secret"), 1000)
	c.frag(c.env(2, 0, 1), secret[:1024]) // through staging, whose memory is reused
	c.eager(c.env(3, 0, 1), 2049, 0, 5000, secret[:5000])
	for _, n := range []int{1024, 5000} {
		buf := make([]byte, n)
		c.b.wantReceived(c.b.recv("", 1, 0, buf), buf, secret[:n])
	}
	for i, expected := range []bool{true, false} {
		buf := make([]byte, 8000)
		var r int
		if expected {
			r = c.b.recv("", 2, 0, buf)
			c.f.settle()
		}
		e := c.env(uint32(4+i), 0, 2)
		c.eager(e, wire.FragmentID(2050+i), 4000, 5000, []byte("piece"))
		if !expected {
			r = c.b.recv("", 2, 0, buf)
			c.f.settle()
		}
		c.withdraw(e, wire.FragmentID(2050+i))
		c.b.post(vni.Command{Code: vni.CodeCancel, Context: uint16(r), Size: vni.CancelReceive})
		if got := c.b.finish(true, r); got.Status != vni.StatusCancelled {
			t.Fatalf("the receive ended with %v", got.Status)
		}
		if bytes.Contains(buf, []byte("secret")) {
			t.Errorf("expected %v: the buffer shows what was received before", expected)
		}
	}
	c.f.noLeaks()
}

func TestPiecesThatNobodyPermittedAreDropped(t *testing.T) { // QNIX-42
	c := newCrafted(t)
	c.request(c.env(2, 0, 1), 2049, 100_000)
	c.chunk(0, 2049, 0, make([]byte, 1000))
	if inb := c.pr.in.get(2049); inb.got != 0 || c.b.e.grants.outstanding != 0 {
		t.Fatalf("%d bytes were taken, %d are permitted", inb.got, c.b.e.grants.outstanding)
	}
	r := c.b.recv("", 1, 0, make([]byte, 100_000))
	c.b.e.Poll(c.f.now)
	if c.b.e.grants.outstanding != 100_000 {
		t.Fatalf("%d bytes are permitted", c.b.e.grants.outstanding)
	}
	for range 300 { // the same piece repeatedly
		c.chunk(0, 2049, 0, make([]byte, 1000))
	}
	if !c.b.done(true, r) || c.b.e.grants.outstanding != 0 {
		t.Errorf("done %v, %d bytes still permitted", c.b.done(true, r), c.b.e.grants.outstanding)
	}
}

func TestAnAcceptOfWhatHasNotLeftIsNoAccept(t *testing.T) {
	c := newCrafted(t)
	s := c.b.send("a/0", 1, vni.WantAccept, make([]byte, 50_000))
	g := c.b.start(vni.CodeGet, &vni.SendContext{Flags: vni.WantNotify, Remote: vni.Remote{NIC: 1, Slot: c.a.slot, Gen: c.a.gen, Region: 1}}, make([]byte, 10))
	c.b.e.Poll(c.f.now)
	for _, ctx := range []int{s, g} {
		b := make([]byte, wire.AcceptLen)
		wire.PutAccept(b, c.b.slot, c.b.uses[ctx]<<16|uint32(ctx))
		c.deliver(b)
		if c.b.done(false, ctx) {
			t.Errorf("context %d is done", ctx)
		}
	}
	buf := make([]byte, 50_000)
	r := c.a.recv("b/0", 1, 0, buf)
	c.b.wantSent(s)
	c.a.wantReceived(r, buf, make([]byte, 50_000))
	if got := c.b.finish(false, g); got.Status != vni.StatusBadRegion {
		t.Errorf("the GET ended with %v", got.Status)
	}
}

func TestAnEndThatOvertakesItsClaimStaysAnEnd(t *testing.T) { // QNIX-53, QNIX-A10
	for _, returned := range []bool{false, true} { // known from before its NIC was lost, or not
		c := newCrafted(t)
		slot, name := c.a.slot, c.a.name
		if returned {
			c.down()
		} else {
			slot, name.Index = 9, 9
		}
		c.table(nameRecord(tableEnd, slot, c.a.gen, name, 0))
		c.table(nameRecord(tableClaim, slot, c.a.gen, name, 0))
		if at, ok := c.b.e.Lookup(name); ok {
			t.Errorf("returned %v: the dead process is found at %v", returned, at)
		}
	}
}

func TestNamesOfASilentNICAreForgottenInTime(t *testing.T) { // limits.FailureTimeout
	c := newCrafted(t)
	c.f.engines = c.f.engines[1:] // a's NIC is gone
	c.pr.ep.Watch(1)
	c.f.until(limits.FailureTimeout, "forgotten", func() bool { all, _ := c.b.e.names.Len(); return all == 1 })
}

func TestAVerdictCountsOnlyIfTheWinnerClaimsTheName(t *testing.T) { // decision 15
	c := newCrafted(t)
	c.b = c.f.process(1, c.f.homed(0))
	verdict := binary.LittleEndian.AppendUint32([]byte{tableLost, 0, byte(c.b.slot), 0}, c.b.gen)
	c.table(append(verdict, 1, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 5, 0, 0, 0))
	c.f.step()
	if s := c.b.v.Gone(); s != vni.StatusOK {
		t.Fatalf("the process is told %v", s)
	}
	// The verdict had overtaken the claim.
	c.table(nameRecord(tableClaim, 5, 5, c.b.name, 0))
	c.f.step()
	if s := c.b.v.Gone(); s != vni.StatusNameLost {
		t.Errorf("the process is told %v", s)
	}
	if ev, _, ok := c.b.v.NextEvent(); !ok || ev.Kind != vni.EventNameLost || ev.NIC != 1 || ev.Slot != 5 {
		t.Errorf("the event is %v, %v", ev, ok)
	}
	want := []Nameless{{c.b.slot, vni.Address{NIC: 1, Slot: 5, Gen: 5}}}
	if got := c.b.e.TakeNameless(); !slices.Equal(got, want) {
		t.Errorf("the engine tells its driver of %v; expected %v", got, want)
	}
	if got := c.b.e.TakeNameless(); len(got) != 0 {
		t.Errorf("the engine tells its driver again of %v", got)
	}
}

func TestAPeerCannotMakeUsRememberWithoutEnd(t *testing.T) { // decision 16
	c := newCrafted(t)
	for i := range uint32(2 * limits.SourcesPerPeer) {
		e := c.env(1, 0, 0)
		e.SrcSlot, e.SrcGen = uint16(i), i
		c.frag(e, nil)
	}
	for i := range uint32(2 * limits.VoidsPerPeer) {
		c.withdraw(c.env(10+i, 0, 0), 2049)
	}
	for i := range uint32(2 * limits.NamesPerNIC) {
		c.table(nameRecord(tableEnd, 9, i, c.a.name, 0))
		b := make([]byte, wire.CreditLen)
		wire.Credit{Slot: uint16(i), Gen: i, Bytes: 100}.Put(b)
		c.deliver(b)
	}
	p := c.b.e.process(c.b.slot)
	if n := len(p.sources); n > limits.SourcesPerPeer {
		t.Errorf("%d sources", n)
	}
	if n := c.credit().voids; n > limits.VoidsPerPeer {
		t.Errorf("%d withdrawn numbers", n)
	}
	if n, _ := c.b.e.names.Len(); n > limits.NamesPerNIC+1 {
		t.Errorf("%d names", n)
	}
	// Its process at slot 0 may have given credit: no table announces that process.
	if n := len(c.pr.remotes); n > 1 {
		t.Errorf("%d correspondents that no process writes to", n)
	}
}

func TestAPeerThatKeepsItsNamesToItselfHoldsNobodyUp(t *testing.T) {
	f := &fabric{t: t, now: clock.Time(time.Hour), sw: mem.NewSwitch(mem.Config{MTU: 1472})}
	f.addNIC(1, 1, fault.Config{})
	f.addNIC(2, 1, fault.Config{})
	if err := f.engines[0].AddNode(2, mem.Address(2)); err != nil {
		t.Fatal(err)
	}
	a := f.process(0, "a/0")
	f.until(time.Second, "the pair is open", func() bool { pr := f.engines[0].peerOf(2); return pr != nil && pr.names.Synced() })
	// As in a new session in which no table arrives.
	f.engines[0].names.Up(&f.engines[0].peerOf(2).names)
	start := f.now
	if c := a.finish(false, a.send("nobody/0", 1, 0, nil)); c.Status != vni.StatusNameUnknown {
		t.Errorf("ended with %v", c.Status)
	}
	if d := f.now.Sub(start); d > limits.UnreachableAfter+time.Second {
		t.Errorf("after %v", d)
	}
}

func TestAPairThatComesBackGoesOnAfterTheOldNamesAreForgotten(t *testing.T) {
	c := newCrafted(t)
	c.f.engines = c.f.engines[1:] // for longer than unreachable_after, shorter than FailureTimeout
	c.pr.ep.Watch(1)
	c.f.until(4*time.Second, "given up", func() bool { return !c.pr.ep.Up() })
	c.pr.ep.Watch(-1)
	c.f.engines = append([]*Engine{c.a.e}, c.f.engines...)
	c.a.e.peerOf(2).ep.Watch(1)
	c.f.known("a/0")
	buf := make([]byte, 3)
	for range 3 {
		for range 3 {
			c.a.wantSent(c.a.send("b/0", 1, vni.WantAccept, []byte("one")))
			c.b.wantReceived(c.b.recv("a/0", 1, 0, buf), buf, []byte("one"))
		}
		c.f.run(limits.FailureTimeout)
	}
	c.a.e.peerOf(2).ep.Watch(-1)
	c.f.noLeaks()
}

// A message that is given up while it waits for its turn is no longer known by its fragment.
// Otherwise a late piece would go into the message that then has its place in memory.
func TestALatePieceOfAMessageThatWasGivenUpGoesNowhere(t *testing.T) { // decision 9
	c := newCrafted(t)
	third := c.env(3, 0, 7)
	c.eager(third, 4096+5, 0, 5000, make([]byte, 1000)) // the second has not arrived yet
	w := third
	w.Tag = stagedCost(5000)
	c.withdraw(w, 4096+5)
	if n := c.pr.in.n; n != 0 {
		t.Errorf("%d fragments are known", n)
	}
	c.frag(c.env(2, 0, 7), []byte("second"))
	c.frag(c.env(4, 0, 7), []byte("fourth"))
	c.eager(third, 4096+5, 1000, 5000, make([]byte, 1000))
	for _, want := range []string{"second", "fourth"} {
		buf := make([]byte, len(want))
		c.b.wantReceived(c.b.recv("a/0", 7, 0, buf), buf, []byte(want))
	}
}

// A message in its turn, whose bytes a filter awaits, is withdrawn: those behind it have waited
// for it alone.
func TestAMessageThatIsGivenUpWhileItIsJudgedHoldsUpNone(t *testing.T) { // PANIC-7
	c := newCrafted(t)
	c.b.e.process(c.b.slot).guardBy(func(uint64, []byte) bool { return false })
	second := c.env(2, 0, 7)
	c.eager(second, 4096+5, 0, 5000, make([]byte, 1000))
	c.frag(c.env(3, 0, 7), []byte("third"))
	w := second
	w.Tag = stagedCost(5000)
	c.withdraw(w, 4096+5)
	buf := make([]byte, 5)
	c.b.wantReceived(c.b.recv("a/0", 7, 0, buf), buf, []byte("third"))
}

// The news of a sender's end arrives while its message does, and the message is given up much
// later. The receive then ends, as no other message will come.
func TestAReceiveEndsThoughItsMessageIsGivenUpLongAfterItsSender(t *testing.T) { // decision 7
	for _, ring := range []bool{false, true} {
		c := newCrafted(t)
		long := c.env(2, 0, 7)
		var ctx int
		if ring {
			ctx = c.b.gather(c.a, 7, 100_000, 1<<20).ctx
		} else {
			ctx = c.b.recv("a/0", 7, 0, make([]byte, 100_000))
			c.f.settle()
		}
		c.f.engines = c.f.engines[1:] // a's NIC does not know of it
		c.request(long, 4096+5, 100_000)
		c.b.e.processGone(vni.Address{NIC: 1, Slot: c.a.slot, Gen: c.a.gen}, c.a.name, true)
		c.f.run(3 * limits.GoneGrace)
		if c.b.done(true, ctx) {
			t.Fatal("it has ended while its message is on its way")
		}
		c.withdraw(long, 4096+5)
		if got := c.b.finish(true, ctx); got.Status != vni.StatusProcessGone {
			t.Errorf("ended with %v", got.Status)
		}
	}
}

// A message that the same sender has delivered before it ended waits for just that receive.
// Decision 7.
func TestAReceiveWhoseMessageIsGivenUpTakesTheNextThoughItsSenderHasGone(t *testing.T) {
	c := newCrafted(t)
	buf := make([]byte, 100_000)
	ctx := c.b.recv("a/0", 7, 0, buf)
	c.f.settle()
	c.f.engines = c.f.engines[1:] // a's NIC does not know of it
	long := c.env(2, 0, 7)
	c.request(long, 4096+5, 100_000)
	c.frag(c.env(3, 0, 7), []byte("third"))
	c.b.e.processGone(vni.Address{NIC: 1, Slot: c.a.slot, Gen: c.a.gen}, c.a.name, true)
	c.f.run(3 * limits.GoneGrace)
	c.withdraw(long, 4096+5)
	c.b.wantReceived(ctx, buf, []byte("third"))
}
