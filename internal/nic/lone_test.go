package nic

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/link/fault"
	"github.com/weftnet/weft/internal/vni"
)

// meet does what a program's Recv does first.
func (p *rider) meet(from vni.Name, tag uint64, anyTag bool, buf []byte) (m vni.Met, ok bool) {
	if !p.way.Expect(&from, tag, anyTag) {
		return m, false
	}
	m = p.way.Meet(p.f.now, buf)
	return m, m.From != nil
}

// post does what a program's Send does first.
func (p *rider) post(to vni.Name, tag uint64, data []byte) bool {
	_, ok := p.way.Post(&to, tag, data)
	return ok
}

// postAndMeet posts a message and meets it, with nothing in between.
func (p *rider) postAndMeet(to *rider, data []byte) {
	t := p.f.t
	t.Helper()
	if !p.post(to.name, 9, data) {
		t.Fatalf("%d bytes are refused", len(data))
	}
	buf := make([]byte, len(data))
	m, ok := to.meet(p.name, 9, false, buf)
	if !ok || !bytes.Equal(buf, data) || *m.From != (vni.Sender{Name: p.name, NIC: 1, Slot: p.slot, Gen: p.gen}) || m.Tag != 9 || m.Len != len(data) {
		t.Fatalf("met %v: %+v, % x; expected % x", ok, m, buf, data)
	}
}

func TestALoneMessageIsPostedInOneStepAndMetOnTheLink(t *testing.T) { // USNIC-28, USNIC-38
	f := newWideFabric(t, 32<<10, 2, fault.Config{})
	a, b := f.riders()
	polls := b.e.Count(vni.NICPolls)
	for i, n := range []int{0, 1, 64, 65, limits.TinyMessage, limits.StagedMessage} {
		a.postAndMeet(b, pattern(n, byte(i)))
	}
	if n := b.e.Count(vni.NICMet); n != 6 || b.e.Count(vni.NICPolls) != polls {
		t.Errorf("%d of 6 were counted, in %d polls", n, b.e.Count(vni.NICPolls)-polls)
	}
	if a.post(b.name, 9, make([]byte, limits.StagedMessage+1)) {
		t.Error("posted what needs permission")
	}
	for range 3 * limits.CreditBytes / 700 { // credit comes back
		f.until(time.Second, "the straight way", func() bool { return a.post(b.name, 9, make([]byte, 700)) })
		if _, ok := b.meet(vni.AnyProcess, 0, true, make([]byte, 700)); !ok {
			t.Fatal("a message is not met")
		}
		if b.way.Due() <= f.now {
			f.step()
		}
	}
	f.noLeaks()
}

// USNIC-28, USNIC-38, USNIC-39.
func TestALoneMessageOverALinkThatMayLoseItIsKeptAndMet(t *testing.T) {
	f := newFabricOf(t, 2, false)
	a, b := f.riders()
	polls := b.e.Count(vni.NICPolls)
	for i, n := range []int{0, 1, 64, 65, 400} {
		a.postAndMeet(b, pattern(n, byte(i)))
		if b.way.Due() > f.now {
			t.Fatal("a message was met, and no poll is due to acknowledge it")
		}
	}
	if n := b.e.Count(vni.NICMet); n != 5 || b.e.Count(vni.NICPolls) != polls || a.e.rel.InFlight() != 5 {
		t.Errorf("%d of 5 were counted, in %d polls; %d are kept", n, b.e.Count(vni.NICPolls)-polls, a.e.rel.InFlight())
	}
	if a.post(b.name, 9, make([]byte, limits.TinyMessage+1)) {
		t.Error("posted what is no short message")
	}
	before, rounds := a.e.Count(vni.NICMet)+b.e.Count(vni.NICMet), 3*limits.CreditBytes/400
	// Question and answer: each answer carries the acknowledgement of its question, and credit
	// comes back.
	for range rounds {
		f.exchange(a, b)
		f.exchange(b, a)
		f.step()
	}
	if n := int(a.e.Count(vni.NICMet) + b.e.Count(vni.NICMet) - before); n < rounds*19/10 {
		t.Errorf("%d of %d were met", n, 2*rounds)
	}
	f.until(time.Second, "all is acknowledged", func() bool { return a.e.rel.InFlight()+b.e.rel.InFlight() == 0 })
	if n := a.e.rel.Stats().Resends + b.e.rel.Stats().Resends; n > 0 {
		t.Errorf("%d were sent again, though nothing was lost", n)
	}
	f.noLeaks()
}

// exchange posts a message and meets it, or receives it if another frame has arrived before it.
func (f *fabric) exchange(from, to *rider) {
	f.t.Helper()
	data, buf := pattern(64, 7), make([]byte, 64)
	f.until(time.Second, "credit", func() bool { return from.post(to.name, 1, data) })
	if _, ok := to.meet(from.name, 1, false, buf); !ok {
		to.got(to.want(from.tester, 1, buf), data)
	} else if !bytes.Equal(buf, data) {
		f.t.Fatalf("met % x", buf)
	}
}

// The answer to a met message leaves first. Every other use of the engine finds the message
// accounted for.
func TestWhatIsMetIsAccountedForByWhateverComesNext(t *testing.T) {
	for what, use := range map[string]func(b *rider, from vni.Name){
		"a poll":             func(b *rider, _ vni.Name) { b.e.Poll(b.f.now) },
		"a look at the link": func(b *rider, from vni.Name) { b.way.Expect(&from, 1, false) },
		"a send":             func(b *rider, from vni.Name) { b.way.Send(&vni.StraightSend{To: from, Len: 8}); b.way.Sent() },
		"a receive":          func(b *rider, from vni.Name) { b.way.Cancel(b.f.now, b.want(&tester{name: from}, 2, nil)) },
		"a count":            func(b *rider, _ vni.Name) { b.e.Count(vni.NICMet) },
		"an account":         func(b *rider, _ vni.Name) { b.e.Processes() },
		"an account of rel":  func(b *rider, _ vni.Name) { b.e.Transport() },
		"a look at credit":   func(b *rider, _ vni.Name) { b.e.CreditGiven() },
		"an audit":           func(b *rider, _ vni.Name) { b.e.Limits() },
		"a new node":         func(b *rider, _ vni.Name) { b.e.AddNode(1, b.f.engines[0].cfg.Link.Addr()) },
		"a farewell":         func(b *rider, _ vni.Name) { b.e.Quiet() },
	} {
		f := newFabric(t, 2, fault.Config{})
		a, b := f.riders()
		before, received := b.e.Count(vni.NICMet), b.e.Transport().Receives
		for i := range 2 {
			if !a.post(b.name, 1, pattern(64, byte(i))) {
				t.Fatal("a message is refused")
			}
		}
		buf := make([]byte, 64)
		if _, ok := b.meet(a.name, 1, false, buf); !ok || !bytes.Equal(buf, pattern(64, 0)) {
			t.Fatal("the first message was not met")
		}
		if !b.post(a.name, 1, buf) || b.e.met.src == nil {
			t.Error("the answer has to wait until the message is accounted for")
		}
		if use(b, a.name); b.e.met.src != nil {
			t.Errorf("%s goes before what was met", what)
		}
		b.got(b.want(a.tester, 1, buf), pattern(64, 1))
		a.got(a.want(b.tester, 1, buf), pattern(64, 0))
		if n := b.e.Count(vni.NICMet) - before; n != 1 {
			t.Errorf("%s: %d messages were counted as met; expected 1", what, n)
		}
		if n := b.e.Transport().Receives - received; n < 2 {
			t.Errorf("%s: %d frames were counted; expected 2 and those that were polled for", what, n)
		}
		f.noLeaks()
	}
}

func TestOnlyTheMessageThatIsExpectedIsMet(t *testing.T) {
	f := newFabric(t, 3, fault.Config{})
	a, b := f.riders()
	c := f.rider(2, "c/0")
	f.met(c, b)
	buf := make([]byte, 8)
	refused := func(what string, from vni.Name, tag uint64, buf []byte) {
		t.Helper()
		if m, ok := b.meet(from, tag, false, buf); ok {
			t.Errorf("%s was met: %+v", what, m)
		}
	}
	refused("nothing", c.name, 1, buf)
	a.mustRide(b.tester, 1, false, pattern(8, 1))
	refused("a message of another sender", c.name, 1, buf)
	b.got(b.want(a.tester, 1, buf), pattern(8, 1)) // the next message is expected from this sender

	a.mustRide(b.tester, 1, false, pattern(8, 2))
	refused("a message with another tag", a.name, 2, buf)
	refused("a message for which there is no room", a.name, 1, buf[:7])
	w := b.want(a.tester, 2, make([]byte, 8))
	refused("a message that comes behind a posted receive", a.name, 1, buf)
	b.way.Cancel(f.now, w)
	for range 10 {
		f.step()
	}
	a.mustRide(b.tester, 1, false, pattern(8, 3))
	refused("a message that comes behind one that waits", a.name, 1, buf)
	b.got(b.want(a.tester, 1, buf), pattern(8, 2))
	b.got(b.want(a.tester, 1, buf), pattern(8, 3))

	a.mustRide(b.tester, 1, false, pattern(1000, 4))
	refused("a message in a segment with a header of its own", a.name, 1, make([]byte, 1000))
	b.got(b.want(a.tester, 1, make([]byte, 1000)), pattern(1000, 4))

	b.way.Close(f.now)
	refused("a message to a process that has closed", a.name, 1, buf)
	f.noLeaks()
}

// Messages of several senders are met and received by posted receives. Each message arrives once,
// and of two messages of one sender with one tag the earlier goes to the receive that began
// earlier (decision 5, QNIX-19).
func TestMeetingsKeepTheOrderOfReceives(t *testing.T) {
	for _, promises := range []bool{true, false} {
		met, all := 0, 0
		for seed := range uint64(40) {
			w := newMeetings(t, seed, promises)
			w.run()
			met, all = met+w.met, all+w.got
		}
		if met < all/20 {
			t.Errorf("promises %v: %d of %d messages were met", promises, met, all)
		}
	}
}

// meetings holds a receiver, its senders, and the state of their messages.
type meetings struct {
	t       *testing.T
	f       *fabric
	rng     *rand.Rand
	to      *rider
	senders []*rider
	sent    []int          // messages, by sender
	begun   int            // receives
	waiting []beganReceive // posted receives
	last    map[[2]uint64]([2]int)
	got     int
	met     int
}

type beganReceive struct {
	*vni.StraightReceive
	number int
}

func newMeetings(t *testing.T, seed uint64, promises bool) *meetings {
	f := newFabricOf(t, 3, promises)
	w := &meetings{t: t, f: f, rng: rand.New(rand.NewPCG(seed, 3)), to: f.rider(1, "to/0"), sent: make([]int, 3), last: map[[2]uint64][2]int{}}
	for i, nic := range []int{0, 0, 2} {
		w.senders = append(w.senders, f.rider(nic, vni.Name{App: [24]byte{'s'}, Index: uint32(i)}.String()))
	}
	for _, s := range w.senders {
		f.met(s, w.to)
	}
	return w
}

func (w *meetings) run() {
	for range 3000 {
		switch w.rng.IntN(24) {
		case 0:
			w.post()
		case 1:
			w.f.step()
		case 2:
			w.send()
		case 3, 4, 5:
			w.drain()
		default:
			w.send()
			w.meet()
		}
		w.look()
	}
	w.drain()
}

// drain receives all messages in flight, by receives that take any message.
func (w *meetings) drain() {
	for w.got < w.sent[0]+w.sent[1]+w.sent[2] {
		w.begin(&vni.StraightReceive{AnyTag: true, Buf: make([]byte, 800)})
		n := w.got
		w.f.until(time.Second, "the end of a receive", func() bool { w.look(); return w.got > n })
	}
}

// send sends a message that contains its own number.
func (w *meetings) send() {
	i := w.rng.IntN(len(w.senders))
	s, tag := w.senders[i], w.rng.Uint64N(2)
	data := make([]byte, 4+w.rng.IntN(700))
	binary.LittleEndian.PutUint32(data, uint32(w.sent[i]))
	if w.rng.IntN(8) == 0 && s.ride(w.to.tester, tag, w.rng.IntN(2) == 0, data) || s.post(w.to.name, tag, data) {
		w.sent[i]++
	}
}

// filter draws the sender and tag of a receive.
func (w *meetings) filter() (from vni.Name, tag uint64, anyTag bool) {
	if w.rng.IntN(4) == 0 {
		from = w.senders[w.rng.IntN(len(w.senders))].name
	}
	return from, w.rng.Uint64N(2), w.rng.IntN(4) > 0
}

func (w *meetings) meet() {
	from, tag, anyTag := w.filter()
	buf := make([]byte, 800)
	m, ok := w.to.meet(from, tag, anyTag, buf)
	if !ok {
		return
	}
	w.met++
	w.begun++
	if from != vni.AnyProcess && from != m.From.Name || !anyTag && tag != m.Tag {
		w.t.Fatalf("a Meet that wanted tag %d, any %v, of %v has met %+v", tag, anyTag, from, m)
	}
	w.judge(m.From.Name, m.Tag, buf, w.begun)
}

func (w *meetings) post() {
	if len(w.waiting) < 3 {
		from, tag, anyTag := w.filter()
		w.begin(&vni.StraightReceive{From: from, Tag: tag, AnyTag: anyTag, Buf: make([]byte, 800)})
	}
}

func (w *meetings) begin(r *vni.StraightReceive) {
	w.begun++
	if _, ok := w.to.way.Receive(r); !ok {
		w.t.Fatal("the straight way refuses a receive")
	}
	w.waiting = append(w.waiting, beganReceive{r, w.begun})
}

// look collects the messages of posted receives.
func (w *meetings) look() {
	still := w.waiting[:0]
	for _, r := range w.waiting {
		if !r.Done() {
			still = append(still, r)
			continue
		}
		w.judge(r.Result.From, r.Result.Tag, r.Buf, r.number)
	}
	w.waiting = still
}

// judge compares a message with the last one of its sender with its tag.
func (w *meetings) judge(from vni.Name, tag uint64, buf []byte, number int) {
	w.got++
	message := int(binary.LittleEndian.Uint32(buf)) + 1
	k := [2]uint64{uint64(from.Index), tag}
	if last := w.last[k]; message > last[0] != (number > last[1]) || message == last[0] {
		w.t.Fatalf("message %d of %v with tag %d went to receive %d, and %d to %d", message, from, tag, number, last[0], last[1])
	}
	if w.last[k][0] < message {
		w.last[k] = [2]int{message, number}
	}
}
