package nic

import (
	"bytes"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/link/fault"
	"github.com/weftnet/weft/internal/link/mem"
	"github.com/weftnet/weft/internal/names"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/internal/wire"
)

// rider is a tester with a straight way.
type rider struct {
	*tester
	way *Straight
}

func (f *fabric) rider(nic int, name string) *rider {
	p := f.process(nic, name)
	return &rider{p, p.e.Straight(p.slot, p.gen, func() clock.Time { return f.now })}
}

// ride sends by the straight way, and reports whether that was possible.
func (p *rider) ride(to *tester, tag uint64, hold bool, data []byte) bool {
	b := p.way.Send(&vni.StraightSend{To: to.name, Tag: tag, Len: len(data), Hold: hold})
	if b == nil {
		return false
	}
	copy(b, data)
	if hold {
		p.way.Hold()
	} else {
		p.way.Sent()
	}
	return true
}

func (p *rider) want(from *tester, tag uint64, buf []byte) *vni.StraightReceive {
	p.f.t.Helper()
	w := &vni.StraightReceive{Tag: tag, Buf: buf}
	if from != nil {
		w.From = from.name
	}
	if _, ok := p.way.Receive(w); !ok {
		p.f.t.Fatal("the straight way refuses a receive")
	}
	return w
}

func (p *rider) got(w *vni.StraightReceive, want []byte) {
	p.f.t.Helper()
	p.f.until(10*time.Second, "a straight receive", w.Done)
	if c := w.Result; c.Status != vni.StatusOK || c.Full != uint64(len(want)) || !bytes.Equal(w.Buf[:c.Len], want) {
		p.f.t.Fatalf("ended with %v, %d of %d bytes; expected %d", c.Status, c.Len, c.Full, len(want))
	}
}

// met opens the pair and lets each process know the other, as the first message by a command does.
func (f *fabric) met(a, b *rider) {
	f.t.Helper()
	f.known(a.name.String(), b.name.String())
	for _, p := range [][2]*rider{{a, b}, {b, a}} {
		buf := make([]byte, 4)
		r := p[1].recv("", 0, vni.AnyTag, buf)
		s := p[0].send(p[1].name.String(), 0, 0, buf)
		p[1].wantReceived(r, buf, buf)
		p[0].wantSent(s)
	}
	f.until(time.Second, "the command queues are at rest", func() bool { return !a.way.p.vni.Pending() && !b.way.p.vni.Pending() })
}

// riders returns two processes that have met, on two NICs.
func (f *fabric) riders() (a, b *rider) {
	f.t.Helper()
	a, b = f.rider(0, "a/0"), f.rider(1, "b/0")
	f.met(a, b)
	return a, b
}

func straightPlaces(t *testing.T, test func(t *testing.T, f *fabric, a, b *rider)) {
	for _, pl := range places[1:] { // between processes of one NIC the queue is as short
		t.Run(pl.name, func(t *testing.T) {
			f := newFabric(t, pl.nics, pl.faults)
			a, b := f.riders()
			test(t, f, a, b)
			f.noLeaks()
		})
	}
}

// mustRide waits until the straight way takes the message.
func (p *rider) mustRide(to *tester, tag uint64, hold bool, data []byte) {
	p.f.t.Helper()
	p.f.until(10*time.Second, "the straight way", func() bool { return p.ride(to, tag, hold, data) })
}

func TestShortMessagesTakeTheStraightWay(t *testing.T) { // USNIC-28, USNIC-38
	straightPlaces(t, func(t *testing.T, f *fabric, a, b *rider) {
		commands := a.e.Count(vni.NICCommands) + b.e.Count(vni.NICCommands)
		for i, n := range []int{0, 1, 64, limits.TinyMessage, limits.TinyMessage + 1, 1392} {
			for _, early := range []bool{false, true} {
				data, buf := pattern(n, byte(i)), make([]byte, n)
				if early {
					a.mustRide(b.tester, 7, false, data)
					for range 50 {
						f.step()
					}
				}
				w := b.want(a.tester, 7, buf)
				if !early {
					a.mustRide(b.tester, 7, false, data)
				}
				b.got(w, data)
				if c := w.Result; c.From != a.name || c.Slot != a.slot || c.Gen != a.gen || c.Tag != 7 || c.NIC != 1 {
					t.Errorf("it says %+v", c)
				}
			}
		}
		if n := a.e.Count(vni.NICCommands) + b.e.Count(vni.NICCommands); n != commands {
			t.Errorf("%d commands were read", n-commands)
		}
		if s, r := a.e.Count(vni.NICStraightSends), b.e.Count(vni.NICStraightReceives); s < 12 || r != 12 {
			t.Errorf("counted %d sends and %d receives", s, r)
		}
	})
}

func TestLongerMessagesTakeTheStraightWayInTheLinksOwnFrames(t *testing.T) {
	for _, hold := range []bool{false, true} {
		f := newWideFabric(t, 32<<10, 2, fault.Config{})
		a, b := f.riders()
		for i, n := range []int{limits.CopiedMessage, limits.CopiedMessage + 1, limits.StagedMessage} {
			data, buf := pattern(n, byte(i)), make([]byte, n)
			w := b.want(nil, 1, buf)
			if !a.ride(b.tester, 1, hold, data) {
				t.Fatalf("%d bytes are refused", n)
			}
			b.got(w, data)
		}
		if a.ride(b.tester, 1, hold, make([]byte, limits.StagedMessage+1)) {
			t.Error("sent a message that needs permission")
		}
		f.noLeaks()
	}
}

func TestAShortMessageThatCannotLeaveIsNotKeptInItsPlace(t *testing.T) {
	for _, n := range []int{0, 1, limits.TinyMessage, limits.TinyMessage + 1} {
		f := newFabric(t, 2, fault.Config{Seed: 1})
		a, b := f.riders()
		data, left := pattern(n, 1), 0
		for left < limits.Window && a.ride(b.tester, 1, false, data) {
			left++
		}
		if kept := a.e.Ways()[WayKept]; left == limits.Window || kept > 0 {
			t.Errorf("%d bytes: %d have left, and %d were kept", n, left, kept)
		}
		late := a.send("b/0", 1, 0, data)
		for range left + 1 {
			b.got(b.want(nil, 1, make([]byte, n)), data)
		}
		a.wantSent(late)
		f.noLeaks()
	}
}

func TestACallByTheStraightWayMeetsItsReply(t *testing.T) {
	straightPlaces(t, func(t *testing.T, f *fabric, a, b *rider) {
		send := func(p *rider, m *vni.StraightSend, data []byte) {
			m.Len = len(data)
			f.until(10*time.Second, "the straight way", func() bool {
				room := p.way.Send(m)
				if room == nil {
					return false
				}
				copy(room, data)
				p.way.Sent()
				return true
			})
		}
		for i, n := range []int{1, 100, 1392} {
			calls, replies := a.e.Count(vni.NICCalls), b.e.Count(vni.NICReplies)
			token := callToken | uint32(i+1)<<16 | 0xf000
			request, buf := pattern(n, byte(i)), make([]byte, n)
			answer := &vni.StraightReceive{From: b.name, Tag: uint64(token), Takes: vni.TakesReply, Buf: make([]byte, n)}
			w := b.want(a.tester, 7, buf)
			send(a, &vni.StraightSend{To: b.name, Tag: 7, Token: token, Answer: answer}, request)
			b.got(w, request)
			if w.Result.Token != token {
				t.Errorf("the call has token %#x, not %#x", w.Result.Token, token)
			}
			send(b, &vni.StraightSend{NIC: w.Result.NIC, Slot: w.Result.Slot, Gen: w.Result.Gen, Tag: uint64(token), Reply: true}, request)
			a.got(answer, request)
			if c, r := a.e.Count(vni.NICCalls)-calls, b.e.Count(vni.NICReplies)-replies; c != 1 || r != 1 {
				t.Errorf("%d calls and %d replies were counted", c, r)
			}
		}
	})
}

func TestACallEndsWhenItsMessageIsRefused(t *testing.T) {
	const token = callToken | 1<<16 | 0xf000
	for _, n := range []int{1, 5000} {
		f := newFabric(t, 3, fault.Config{Seed: 1})
		a, b := f.riders()
		answer := &vni.StraightReceive{From: b.name, Tag: token, Takes: vni.TakesReply, Buf: make([]byte, 10)}
		call := func() {
			room := a.way.Send(&vni.StraightSend{To: b.name, Tag: 7, Token: token, Answer: answer, Len: n})
			if room == nil {
				t.Fatal("it is refused")
			}
			a.way.Sent()
		}
		refuse := func(by uint64, token uint32) {
			rec := make([]byte, wire.RefuseLen)
			wire.PutRefuse(rec, 0, 0, a.slot, token, wire.ReasonProcessGone)
			(*handler)(a.e).Deliver(f.now, a.e.peerOf(by).ep, rec)
		}
		call()
		refuse(2, token+1)
		refuse(3, token)
		if answer.Done() {
			t.Error("a call ended that was not refused, or not by the NIC that it was for")
		}
		if refuse(2, token); !answer.Done() || answer.Result.Status != vni.StatusProcessGone {
			t.Errorf("a refused call ended (%v), with %v", answer.Done(), answer.Result.Status)
		}
		if n > limits.CopiedMessage {
			b.e.Guard(b.slot, b.gen, func(*Arrival) bool { return true })
			call()
			f.until(time.Second, "a call that a filter drops", answer.Done)
			if got := answer.Result.Status; got != vni.StatusFiltered {
				t.Errorf("a call that a filter has dropped ended with %v", got)
			}
			b.e.Guard(b.slot, b.gen, nil)
		}
		f.settle()
		b.exit() // the call is on its way before its NIC can know
		call()
		f.until(limits.GoneGrace/2, "a call to a process that has gone", answer.Done)
		if got := answer.Result.Status; got != vni.StatusProcessGone {
			t.Errorf("a call to a process that has gone ended with %v", got)
		}
	}
}

func TestAMessageOfSeveralFramesTakesTheStraightWayOverALinkThatMayLoseIt(t *testing.T) {
	for _, loss := range []float64{0, 0.3} {
		f := newFabric(t, 2, fault.Config{Seed: 1, Loss: loss})
		a, b := f.riders()
		for i, n := range []int{limits.CopiedMessage + 1, 5000, limits.StagedMessage} {
			data, buf := pattern(n, byte(i)), make([]byte, n)
			w := b.want(nil, 1, buf)
			if a.ride(b.tester, 1, true, data) {
				t.Errorf("%d bytes that may wait are copied", n)
			}
			if !a.ride(b.tester, 1, false, data) {
				t.Fatalf("%d bytes are refused", n)
			}
			clear(data) // its memory is the caller's again
			b.got(w, pattern(n, byte(i)))
		}
		if kept := a.e.Ways()[WayKept]; kept != 3 {
			t.Errorf("%d messages were kept", kept)
		}
		a.e.transit.kept += limits.KeptBytes - 4999
		if a.ride(b.tester, 1, false, make([]byte, 5000)) {
			t.Error("the NIC keeps more than it may")
		}
		a.e.transit.kept -= limits.KeptBytes - 4999
		if a.ride(b.tester, 1, false, make([]byte, limits.StagedMessage+1)) {
			t.Error("sent a message that needs permission")
		}
		f.noLeaks()
	}
}

// Each would be a separate batch for the kernel if it left alone.
func TestMessagesOfSeveralFramesThatAreSentTogetherLeaveTogether(t *testing.T) {
	for _, loss := range []float64{0, 0.3} {
		for _, n := range []int{1400, 5000, 12_000} {
			f := newFabric(t, 2, fault.Config{Seed: 1, Loss: loss})
			a, b := f.riders()
			var messages [][]byte
			var wanted []*vni.StraightReceive
			for i := range 4 {
				// Short ones go in between, in segments.
				messages = append(messages, pattern(n, byte(i)), pattern(100, byte(i)))
				wanted = append(wanted, b.want(nil, 1, make([]byte, n)), b.want(nil, 1, make([]byte, 100)))
			}
			posted := a.e.Count(vni.RelSends)
			m := &vni.StraightSend{To: b.name, Tag: 1}
			for i := range messages {
				sent, held, enough := a.way.SendSome(m, messages[i:i+1])
				if sent != 1 || !held || enough {
					t.Fatalf("message %d of %d bytes: %d went, held: %v, enough: %v", i, len(messages[i]), sent, held, enough)
				}
				clear(messages[i]) // its memory is the caller's again
			}
			if left := a.e.Count(vni.RelSends) - posted; left > 0 {
				t.Errorf("of messages of %d bytes that are held %d frames have left", n, left)
			}
			if kept := a.e.Ways()[WayRunKept]; kept != 4 {
				t.Errorf("%d messages of %d bytes were kept", kept, n)
			}
			a.way.Sent()
			if left := a.e.Count(vni.RelSends) - posted; left == 0 {
				t.Errorf("messages of %d bytes did not leave", n)
			}
			for i, w := range wanted {
				if i%2 == 0 {
					b.got(w, pattern(n, byte(i/2)))
				} else {
					b.got(w, pattern(100, byte(i/2)))
				}
			}
			f.noLeaks()
		}
	}
}

func TestAMessageOfSeveralFramesCountsForSeveralThatAreHeld(t *testing.T) {
	f := newFabric(t, 2, fault.Config{Seed: 1})
	a, b := f.riders()
	m := &vni.StraightSend{To: b.name, Tag: 1}
	const n = 1500 // counts as 6
	for held := 1; held < limits.HeldMessages-6; held++ {
		if sent, _, enough := a.way.SendSome(m, [][]byte{{1}}); sent != 1 || enough {
			t.Fatalf("%d went behind %d that are held; enough: %v", sent, held-1, enough)
		}
	}
	for i, want := range []bool{false, true} {
		if sent, _, enough := a.way.SendSome(m, [][]byte{make([]byte, n)}); sent != 1 || enough != want {
			t.Errorf("message %d of several frames: %d went; enough: %v", i, sent, enough)
		}
	}
	a.way.Sent()
	for range limits.HeldMessages - 7 {
		b.got(b.want(nil, 1, make([]byte, 1)), []byte{1})
	}
	for range 2 {
		b.got(b.want(nil, 1, make([]byte, n)), make([]byte, n))
	}
	f.noLeaks()
}

func TestTheStraightWayKeepsTheOrderOfCallsAndCommands(t *testing.T) { // decision 5
	straightPlaces(t, func(t *testing.T, f *fabric, a, b *rider) {
		const n = 300
		var sends []int
		refused := 0
		for i := range n {
			data := []byte{byte(i), byte(i >> 8)}
			if i%7 < 3 || !a.ride(b.tester, 1, i%2 == 0, data) {
				if i%7 >= 3 {
					refused++
				}
				sends = append(sends, a.send("b/0", 1, 0, data))
			}
			if i%5 == 0 {
				f.step()
			}
			for len(sends) > 20 {
				a.wantSent(sends[0])
				sends = sends[1:]
			}
		}
		if refused == 0 {
			t.Error("nothing was refused though commands were waiting")
		}
		for i := range n {
			buf := make([]byte, 2)
			if i%3 == 0 && !b.way.p.vni.Pending() {
				w := b.want(a.tester, 1, buf)
				f.until(10*time.Second, "a message", w.Done)
			} else {
				b.finish(true, b.recv("a/0", 1, 0, buf))
			}
			if got := int(buf[0]) | int(buf[1])<<8; got != i {
				t.Fatalf("message %d came in place of %d", got, i)
			}
		}
		for _, s := range sends {
			a.wantSent(s)
		}
	})
}

func TestAStraightReceiveStandsBehindThosePostedBefore(t *testing.T) {
	straightPlaces(t, func(t *testing.T, f *fabric, a, b *rider) {
		first, second, third := make([]byte, 1), make([]byte, 1), make([]byte, 1)
		r1 := b.recv("a/0", 1, 0, first)
		f.until(time.Second, "the command is read", func() bool { return !b.way.p.vni.Pending() })
		w2 := b.want(nil, 1, second)
		r3 := b.recv("a/0", 1, 0, third)
		if _, ok := b.way.Receive(&vni.StraightReceive{Tag: 1, Buf: third}); ok {
			t.Error("a receive passed a command that is not read")
		}
		for i := range 3 {
			a.mustRide(b.tester, 1, false, []byte{byte(i)})
		}
		b.wantReceived(r1, first, []byte{0})
		b.got(w2, []byte{1})
		b.wantReceived(r3, third, []byte{2})
	})
}

func TestTheStraightWayRefusesWhatHasToWait(t *testing.T) {
	f := newFabric(t, 2, fault.Config{})
	a, b := f.rider(0, "a/0"), f.rider(1, "b/0")
	c := f.process(0, "c/0")
	if a.ride(&tester{name: vni.Name{App: [len(vni.Name{}.App)]byte{'x'}}}, 1, false, nil) {
		t.Error("sent to a name that no process has")
	}
	f.met(a, b)
	if a.ride(c, 1, false, []byte{1}) {
		t.Error("sent to a process of the same NIC")
	}
	if a.ride(b.tester, 1, false, make([]byte, limits.CopiedMessage+1)) {
		t.Error("sent a message that is not copied")
	}
	if a.way.Send(&vni.StraightSend{To: b.name, Gen: b.gen + 1, Len: 1}) != nil {
		t.Error("sent to another generation")
	}
	n := 0
	for a.ride(b.tester, 1, true, make([]byte, 500)) { // until credit is spent
		if n++; n > limits.CreditBytes/500 {
			t.Fatal("sent beyond the credit")
		}
	}
	s := a.send("b/0", 1, 0, []byte{1})
	if a.ride(b.tester, 1, false, []byte{2}) {
		t.Error("passed a command")
	}
	for range n + 1 {
		b.finish(true, b.recv("a/0", 1, 0, make([]byte, 500)))
	}
	a.wantSent(s)
	f.noLeaks()
}

func TestAStraightReceiveIsCancelledAndTruncated(t *testing.T) { // decision 9
	straightPlaces(t, func(t *testing.T, f *fabric, a, b *rider) {
		w := b.want(nil, 3, make([]byte, 4))
		b.way.Cancel(f.now, w)
		f.until(time.Second, "the cancelled receive", w.Done)
		if w.Result.Status != vni.StatusCancelled {
			t.Errorf("ended with %v", w.Result.Status)
		}
		b.way.Cancel(f.now, w) // too late
		w = b.want(nil, 3, make([]byte, 4))
		a.mustRide(b.tester, 3, false, []byte("truncated"))
		f.until(10*time.Second, "the message", w.Done)
		if c := w.Result; c.Status != vni.StatusTruncated || c.Len != 4 || c.Full != 9 || string(w.Buf) != "trun" {
			t.Errorf("ended with %+v, %q", c, w.Buf)
		}
	})
}

func TestCloseWithdrawsStraightReceivesAndRefusesMore(t *testing.T) {
	f := newFabric(t, 2, fault.Config{})
	a, b := f.riders()
	w := b.want(nil, 3, make([]byte, 4))
	if b.way.Idle() {
		t.Error("idle though it is not closed")
	}
	b.way.Close(f.now)
	if !w.Done() || w.Result.Status != vni.StatusCancelled || !b.way.Idle() {
		t.Errorf("done %v, %v, idle %v", w.Done(), w.Result.Status, b.way.Idle())
	}
	if _, ok := b.way.Receive(w); ok || b.ride(a.tester, 1, false, nil) {
		t.Error("a closed way takes more")
	}
	f.noLeaks()
}

func TestStraightReceivesEndWithTheirSenderAndWithTheirProcess(t *testing.T) {
	f := newFabric(t, 2, fault.Config{})
	a, b := f.riders()
	w := b.want(a.tester, 3, make([]byte, 4))
	a.exit()
	f.until(5*time.Second, "the end of the receive", w.Done)
	if w.Result.Status != vni.StatusProcessGone {
		t.Errorf("ended with %v", w.Result.Status)
	}
	w = b.want(nil, 3, make([]byte, 4))
	b.exit()
	for range 100 {
		f.step()
	}
	if w.Done() {
		t.Error("a process that has gone was told of the end of its receive")
	}
	f.noLeaks()
}

func TestARegionThatAStraightReceiveNamesIsBusy(t *testing.T) {
	f := newFabric(t, 2, fault.Config{})
	_, b := f.riders()
	mem := make([]byte, 4096)
	id, _, err := b.e.AddRegion(b.slot, mem)
	if err != nil {
		t.Fatal(err)
	}
	w := b.want(nil, 3, mem[100:200])
	if err := b.e.RemoveRegion(f.now, b.slot, b.gen, id); err == nil {
		t.Error("the region was removed")
	}
	b.way.Cancel(f.now, w)
	if err := b.e.RemoveRegion(f.now, b.slot, b.gen, id); err != nil {
		t.Error(err)
	}
}

func TestHeldMessagesLeaveWithTheNextPoll(t *testing.T) {
	f := newFabric(t, 2, fault.Config{})
	a, b := f.riders()
	sent := a.e.Count(vni.RelSends)
	for range 10 {
		if !a.ride(b.tester, 1, true, make([]byte, 64)) {
			t.Fatal("refused")
		}
	}
	if n := a.e.Count(vni.RelSends); n != sent || !a.e.Listening() {
		t.Errorf("%d segments left though all were held; listening: %v", n-sent, a.e.Listening())
	}
	for range 10 {
		b.finish(true, b.recv("a/0", 1, 0, make([]byte, 64)))
	}
	if n := a.e.Count(vni.RelSends) - sent; n != 1 {
		t.Errorf("10 held messages took %d segments", n)
	}
	f.noLeaks()
}

func TestTheStraightWayAllocatesNothing(t *testing.T) { // decision 16
	for _, pl := range []fault.Config{{}, {Seed: 1}} {
		f := newFabric(t, 2, pl)
		a, b := f.riders()
		w := &vni.StraightReceive{From: a.name, Tag: 1, Buf: make([]byte, 64)}
		msg := make([]byte, 64)
		turn := func() {
			if _, ok := b.way.Receive(w); !ok {
				t.Fatal("refused")
			}
			for !a.ride(b.tester, 1, false, msg) {
				f.step()
			}
			for !w.Done() {
				f.step()
			}
		}
		for range 5000 {
			turn()
		}
		if n := testing.AllocsPerRun(1000, turn); n != 0 {
			t.Errorf("%v allocations a message", n)
		}
	}
}

func TestAPollThatServesAStraightReceiveEndsThereNowAndThenNot(t *testing.T) { // USNIC-38
	// A link that is not reliable: each message owes an acknowledgement.
	f := newFabric(t, 2, fault.Config{Seed: 1})
	a, b := f.riders()
	early, row, longest := 0, 0, 0
	for range 5 * mostEarly {
		w := b.want(a.tester, 1, make([]byte, 8))
		f.until(time.Second, "the straight way", func() bool { return a.way.Behind() || a.ride(b.tester, 1, false, make([]byte, 8)) })
		for !w.Done() {
			f.now = f.now.Add(time.Microsecond)
			_, next := b.e.Poll(f.now)
			if w.Done() && next == f.now && b.e.early.inRow > 0 {
				early++
				row++
			} else {
				row = 0
			}
			longest = max(longest, row)
		}
	}
	if early < 3*mostEarly || longest > mostEarly {
		t.Errorf("%d of %d polls ended early, %d in a row; expected most, and at most %d in a row", early, 5*mostEarly, longest, mostEarly)
	}
	f.noLeaks()
}

// Two processes send and receive in turns, each with one call at a time. The answer ends the send
// that it answers, and then the receive finds the answer.
func TestAnAnswerTakesTheAcknowledgementOfAMessageOfSeveralFramesAlong(t *testing.T) {
	const turns = 20
	f := newWideFabric(t, 1472, 2, fault.Config{Seed: 1})
	a, b := f.riders()
	data, buf := make([]byte, 4000), make([]byte, 4000)
	acks := func() uint64 { return a.e.rel.Stats().AckSends + b.e.rel.Stats().AckSends }
	before := uint64(0)
	sent := b.send("a/0", 2, 0, nil)
	for i := range 3 + turns {
		if i == 3 { // the start of the session, and its credit, is over
			before = acks()
		}
		for _, p := range [][2]*rider{{a, b}, {b, a}} {
			next := p[0].send(p[1].name.String(), 1, 0, data)
			p[1].wantSent(sent)
			w := p[1].want(p[0].tester, 1, buf)
			f.until(time.Second, "the message", w.Done)
			sent = next
		}
	}
	if n := acks() - before; n > turns/2 {
		t.Errorf("%d messages and their answers took %d acknowledgements of their own", turns, n)
	}
	f.noLeaks()
}

// forgets waits until e, whose peers have 200 ms to answer, no longer watches any peer's silence.
func (f *fabric) forgets(e *Engine) {
	f.until(5*time.Second, "nothing is under way", e.Quiet)
	at := f.now.Add(100 * time.Millisecond)
	f.until(5*time.Second, "time passes", func() bool { return f.now > at })
}

// An engine that was not polled for long does not know how late it is. The peer's silence counts
// from the message, not from the Poll before it.
func TestAMessageAfterALongPauseMakesNobodyUnreachable(t *testing.T) {
	for _, hold := range []bool{false, true} {
		f := newFabric(t, 0, fault.Config{})
		for i := range uint64(2) {
			f.addNIC(i+1, 1, fault.Config{Seed: 1}, func(c *Config) { c.UnreachableAfter = 200 * time.Millisecond })
		}
		if err := f.engines[0].AddNode(2, mem.Address(2)); err != nil {
			t.Fatal(err)
		}
		a, b := f.riders()
		ep := f.engines[0].peerOf(2).ep
		f.forgets(a.e)
		f.now = f.now.Add(300 * time.Millisecond)
		if !a.ride(b.tester, 1, hold, []byte{1}) {
			t.Fatal("refused")
		}
		a.e.Poll(f.now.Add(time.Microsecond))
		if !ep.Up() {
			t.Errorf("held %v: given up at once", hold)
		}
		b.finish(true, b.recv("a/0", 1, 0, make([]byte, 1)))
	}
}

// loseName gives its name to a process of another NIC.
func (p *rider) loseName(nic uint64) {
	forNames{(*services)(p.e)}.Lost(p.slot, &names.Entry{Address: vni.Address{NIC: nic}})
	p.e.names.End(p.e.addressOf(p.way.p))
}

// A process that has lost its name learns of it from each of its operations, and may reuse the
// memory from then on.
func TestNothingIsWrittenToOrReadFromTheMemoryOfAProcessThatHasLostItsName(t *testing.T) {
	const long = 1 << 20
	for _, straight := range []bool{false, true} {
		f := newFabric(t, 2, fault.Config{})
		a, b := f.riders()
		buf := make([]byte, long)
		posted := func() (done func() bool) {
			if straight {
				return b.want(a.tester, 1, buf).Done
			}
			r := b.recv("a/0", 1, 0, buf)
			return func() bool { return b.done(true, r) }
		}
		done := posted()
		data := pattern(long, 1)
		s := a.send("b/0", 1, 0, data)
		f.until(time.Second, "half of the message", func() bool { return buf[long/2] != 0 })
		b.loseName(1)
		kept := bytes.Clone(buf)
		if c := a.finish(false, s); c.Status != vni.StatusProcessGone {
			t.Errorf("straight %v: its send ended with %v", straight, c.Status)
		}
		for range 100 {
			f.step()
		}
		if !bytes.Equal(buf, kept) || done() {
			t.Errorf("straight %v: the NIC went on writing: %v; the receive is done: %v", straight, !bytes.Equal(buf, kept), done())
		}
		f.noLeaks()

		f = newFabric(t, 2, fault.Config{})
		a, b = f.rider(0, "a/0"), f.rider(1, "b/0")
		f.met(a, b)
		clear(buf)
		done = posted()
		a.send("b/0", 1, 0, data)
		f.until(time.Second, "half of the message", func() bool { return buf[long/2] != 0 })
		a.loseName(2)
		clear(data)
		f.until(5*time.Second, "the end of the receive", done)
		if buf[long-1] == 0 && b.way.p.account.Received > 1 {
			t.Errorf("straight %v: a message was made up of two", straight)
		}
		f.noLeaks()
	}
}

func TestAStraightReceiveFromNobodyEndsAtOnce(t *testing.T) {
	f := newFabric(t, 2, fault.Config{})
	_, b := f.riders()
	b.e.Poll(f.now)
	w := &vni.StraightReceive{NIC: 99, Slot: 1, Gen: 1}
	if next, ok := b.way.Receive(w); !ok || next > f.now {
		t.Errorf("taken: %v; the NIC wants to be polled in %v, expected at once", ok, next.Sub(f.now))
	}
	if b.e.Poll(f.now); !w.Done() || w.Result.Status != vni.StatusProcessGone {
		t.Errorf("done %v, status %v", w.Done(), w.Result.Status)
	}
	f.noLeaks()
}

// A held message must leave with the next poll, whatever frames that poll brings.
func TestAPollThatHeldMessagesWaitForDoesNotEndEarly(t *testing.T) {
	f := newFabric(t, 2, fault.Config{Seed: 1})
	a, b := f.riders()
	for range 5 {
		w := b.want(a.tester, 1, make([]byte, 8))
		a.mustRide(b.tester, 1, false, make([]byte, 8))
		if !b.ride(a.tester, 1, true, make([]byte, 8)) {
			t.Fatal("refused")
		}
		sent := b.e.Count(vni.RelSends)
		for !w.Done() {
			f.now = f.now.Add(time.Microsecond)
			b.e.Poll(f.now)
		}
		if b.e.Count(vni.RelSends) == sent {
			t.Error("it is still there")
		}
		a.finish(true, a.recv("b/0", 1, 0, make([]byte, 8)))
	}
	f.noLeaks()
}

// A message to a name that is not known yet waits. When the name has arrived, this message leaves
// first.
func TestTheStraightWayPassesNoMessageThatWaitsForTheName(t *testing.T) { // decision 5
	f := newFabric(t, 2, fault.Config{})
	a, b := f.riders()
	pr := a.e.peerOf(2)
	a.e.names.Down(&pr.names, false)
	a.e.names.Up(&pr.names)
	first := a.send("b/0", 1, 0, []byte{0})
	f.until(time.Second, "it waits for the name", func() bool { return a.e.waiting.n > 0 })
	a.e.tableRecord(pr, nameRecord(tableClaim, b.slot, b.gen, b.name, 1))
	a.mustRide(b.tester, 1, false, []byte{1})
	for i := range 2 {
		buf := make([]byte, 1)
		if b.finish(true, b.recv("a/0", 1, 0, buf)); int(buf[0]) != i {
			t.Errorf("message %d came in place of %d", buf[0], i)
		}
	}
	a.wantSent(first)
	f.noLeaks()
}

// An entry of the receive table is reused, whichever list it was on when its receive ended.
func TestAProcessGoesWithStraightReceivesInEveryState(t *testing.T) {
	const long = 1 << 20
	for _, how := range []string{"matched", "cancelled", "sender gone", "cancelled, then delivered"} {
		f := newFabric(t, 2, fault.Config{})
		a, b := f.riders()
		buf, data := make([]byte, long), pattern(long, 1)
		w := b.want(a.tester, 1, buf)
		s := a.send("b/0", 1, 0, data)
		f.until(time.Second, "half of the message", func() bool { return buf[long/2] != 0 })
		posted := b.want(a.tester, 1, make([]byte, 8))
		switch how {
		case "cancelled":
			b.way.Cancel(f.now, w)
			b.way.Cancel(f.now, w)
			if n := b.e.expiry.recalled.n; n != 1 {
				t.Errorf("%d receives are recalled", n)
			}
		case "sender gone":
			a.exit()
			f.until(time.Second, "the news", func() bool { return b.e.expiry.doomed.n > 0 || w.Done() })
		case "cancelled, then delivered":
			b.way.Cancel(f.now, w)
			b.way.Cancel(f.now, posted)
			b.got(w, data)
			a.wantSent(s)
			for i := range byte(3) {
				w := b.want(a.tester, 1, make([]byte, 8))
				a.mustRide(b.tester, 1, false, []byte{i})
				b.got(w, []byte{i})
			}
		}
		b.exit()
		for range 100 {
			f.step()
		}
		if n := b.e.expiry.doomed.n + b.e.expiry.recalled.n; n > 0 || posted.Done() && posted.Result.Status != vni.StatusCancelled && posted.Result.Status != vni.StatusProcessGone {
			t.Errorf("%s: %d receives are still listed; the posted one is done: %v", how, n, posted.Done())
		}
		f.noLeaks()
	}
}

func TestTimeDoesNotGoBackForWhoeverPollsAfterAStraightSend(t *testing.T) {
	f := newFabric(t, 2, fault.Config{Seed: 1})
	a, b := f.riders()
	a.mustRide(b.tester, 1, false, []byte{1})
	sent := a.e.now
	if a.e.Poll(sent.Add(-time.Millisecond)); a.e.now < sent {
		t.Errorf("it is %v before the message left", sent.Sub(a.e.now))
	}
	b.finish(true, b.recv("a/0", 1, 0, make([]byte, 1)))
	f.noLeaks()
}

// A message in the peer's memory waits for nothing of the peer: the NIC does not watch the peer's
// silence.
func TestAMessageByAReliableLinkDoesNotBeginASilence(t *testing.T) {
	f := newFabric(t, 0, fault.Config{})
	for i := range uint64(2) {
		f.addNIC(i+1, 1, fault.Config{}, func(c *Config) { c.UnreachableAfter = 200 * time.Millisecond })
	}
	if err := f.engines[0].AddNode(2, mem.Address(2)); err != nil {
		t.Fatal(err)
	}
	a, b := f.riders()
	ep := f.engines[0].peerOf(2).ep
	f.forgets(a.e)
	if !a.ride(b.tester, 1, false, []byte{1}) {
		t.Fatal("refused")
	}
	f.now = f.now.Add(300 * time.Millisecond) // no poll was due
	w := a.want(b.tester, 2, make([]byte, 1))
	if a.e.Poll(f.now); !ep.Up() {
		t.Error("the peer is given up though it was not asked for anything yet")
	}
	b.finish(true, b.recv("a/0", 1, 0, make([]byte, 1)))
	b.mustRide(a.tester, 2, false, []byte{2})
	a.got(w, []byte{2})
	f.noLeaks()
}

// A send that ends after the frames of a poll, as one within the NIC does, must not let a later
// poll end early if its frames end nothing.
func TestAPollThatEndsNothingOfACallersDoesNotEndEarly(t *testing.T) {
	f := newFabric(t, 2, fault.Config{Seed: 1})
	a, b := f.riders()
	for range 5 {
		f.until(time.Second, "the straight way", func() bool { return !b.way.Behind() })
		got := a.recv(a.name.String(), 1, 0, make([]byte, limits.StagedMessage+1))
		sent := a.send(a.name.String(), 1, 0, make([]byte, limits.StagedMessage+1))
		a.e.Poll(f.now)
		if !b.ride(a.tester, 2, false, make([]byte, 8)) {
			t.Fatal("refused")
		}
		b.e.Poll(f.now)
		before := a.e.ways[WayEarly]
		work, _ := a.e.Poll(f.now)
		if n := a.e.ways[WayEarly] - before; n > 0 || work == 0 {
			t.Errorf("a poll whose frame no call waits for did %d things and ended early %d times", work, n)
		}
		a.finish(true, got)
		a.finish(true, a.recv("b/0", 2, 0, make([]byte, 8)))
		a.wantSent(sent)
	}
	f.noLeaks()
}

// A message of many frames is a stream, which each poll acknowledges.
func TestAPollOfManyFramesDoesNotEndEarly(t *testing.T) {
	f := newFabric(t, 2, fault.Config{Seed: 1})
	a, _ := f.riders()
	for frames := range 3 * mostFramesEarly {
		a.e.early = earlyReturns{served: true}
		if early := a.e.returnEarly(frames, 0); early != (frames > 0 && frames <= mostFramesEarly) {
			t.Errorf("a poll that %d frames have come in ends early: %v", frames, early)
		}
	}
}
