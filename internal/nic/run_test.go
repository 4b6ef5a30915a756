package nic

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weftnet/weft/internal/link/fault"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/internal/wire"
)

// taker is an engine that is given runs, or separate frags instead.
type taker struct {
	*crafted
	to       *rider
	frags    bool
	src      *source
	next     uint32   // number of the next message
	skipped  [][]byte // messages that are late; the first of them has
	late     uint32   // this number
	ring     *inbox   // the ring that is posted, or was last
	receives []*vni.StraightReceive
}

func newTaker(t *testing.T, frags bool) *taker {
	f := newFabric(t, 2, fault.Config{})
	a, b := f.riders()
	k := &taker{crafted: &crafted{t: t, f: f, a: a.tester, b: b.tester, pr: b.e.peerOf(1)}, to: b, frags: frags}
	k.src = b.e.source(b.way.p, sourceKey{k.pr, a.slot, a.gen})
	k.next = k.src.expected
	return k
}

func (k *taker) take(first uint32, tag uint64, messages [][]byte) {
	if !k.frags {
		k.run(first, tag, messages...)
		return
	}
	for i, m := range messages {
		e := k.env(first+uint32(i), 0, tag)
		e.Token = 0
		k.frag(e, m)
	}
}

func drawMessages(rng *rand.Rand) (messages [][]byte) {
	for i := range 2 + rng.IntN(9) {
		messages = append(messages, pattern(rng.IntN(70), byte(i)))
	}
	return messages
}

// act does one of many things, the same for the same random numbers.
func (k *taker) act(rng *rand.Rand) {
	messages, tag := drawMessages(rng), rng.Uint64N(2)
	switch rng.IntN(16) {
	default:
		k.take(k.next, tag, messages)
		k.next += uint32(len(messages))
	case 0: // these messages come early
		if k.skipped == nil {
			k.skipped, k.late = messages, k.next
			k.next += uint32(len(messages))
		}
	case 1, 2:
		if k.skipped != nil {
			k.take(k.late, tag, k.skipped)
			k.skipped = nil
		}
	case 3: // some messages again, perhaps with some new ones
		k.take(k.next-uint32(rng.IntN(12)), tag, messages)
	case 4, 5, 6:
		if tag, most := [2]uint64{anything, 1}[rng.IntN(2)], rng.IntN(100); k.ring == nil {
			k.ring = k.to.gather(nil, tag, most, 1<<16)
		}
	case 7:
		k.receives = append(k.receives, k.to.want(k.a, tag, make([]byte, rng.IntN(70))))
	case 8, 9:
		if k.ring != nil {
			k.to.e.process(k.to.slot).publish()
			k.ring.read()
		}
	case 11:
		if k.ring != nil {
			k.ring.close()
			k.ring = nil
		}
	case 10:
		if rng.IntN(4) == 0 {
			k.credit().spent = k.credit().handed - rng.Uint64N(1000)
		}
	}
}

// state returns everything that can be observed of the receiver.
func (k *taker) state() string {
	s := fmt.Sprintf("expected %d, early %d, waiting %d, credit %d of %d spent and %d out, %d staged, %+v, counts %v\n",
		k.src.expected, k.src.early.n, k.to.way.p.stray.n, k.credit().spent, k.credit().handed, k.credit().out, k.to.way.p.staged, k.to.way.p.account, k.to.e.counts)
	for i, w := range k.receives {
		s += fmt.Sprintf("receive %d: %v %+v %x\n", i, w.Done(), w.Result, w.Buf)
	}
	if k.ring != nil {
		s += fmt.Sprintf("ring: %d unread, %+v\n", k.ring.entry().ring.unread, k.ring.got)
	}
	return s
}

func TestARunIsToItsReceiverWhatAsManyFragsAre(t *testing.T) { // decision 5, USNIC-28
	for seed := range uint64(100) {
		runs, frags := newTaker(t, false), newTaker(t, true)
		first, second := rand.New(rand.NewPCG(seed, 0)), rand.New(rand.NewPCG(seed, 0))
		for step := range 60 {
			runs.act(first)
			frags.act(second)
			if d := cmp.Diff(frags.state(), runs.state()); d != "" {
				t.Fatalf("seed %d, step %d: by frags (-), by runs (+):\n%s", seed, step, d)
			}
		}
	}
}

func TestARunForNobodyIsRefusedOnce(t *testing.T) {
	k := newTaker(t, false)
	refused := k.to.e.Count(vni.NICRefusedStaleGeneration)
	k.b.gen++ // as its sender knows it
	k.run(k.next, 1, nil, nil, nil)
	if n := k.to.e.Count(vni.NICRefusedStaleGeneration) - refused; n != 1 || k.src.expected != k.next {
		t.Errorf("%d records are refused, and %d is expected", n, k.src.expected)
	}
}

func TestManyMessagesOfOneSizeTakeNoMoreRoomThanARun(t *testing.T) { // USNIC-28
	straightPlaces(t, func(t *testing.T, f *fabric, a, b *rider) {
		w := b.gather(a.tester, 1, 1<<20, 0)
		messages := make([][]byte, 200)
		for i := range messages {
			messages[i] = pattern(8, byte(i))
		}
		most := (1232 - wire.Overhead - wire.RunLen) / 10 // in a frame that every path carries
		for sent := 0; sent < len(messages); {
			var n int
			f.until(10*time.Second, "room", func() bool {
				m := &vni.StraightSend{To: b.name, Tag: 1}
				n, _, _ = a.way.SendSome(m, messages[sent:])
				return n > 0
			})
			if sent += n; n < min(most, len(messages)) && sent < len(messages) {
				t.Errorf("%d went at one go, expected %d", n, most)
			}
		}
		a.way.Sent()
		w.want(messages...)
		w.close()
	})
}

func TestMessagesOfARunThatAreLostAreCounted(t *testing.T) { // decision 6
	f := newFabric(t, 2, fault.Config{Seed: 1})
	a, b := f.riders()
	f.engines = f.engines[:1] // b's NIC falls silent
	n, _, _ := a.way.SendSome(&vni.StraightSend{To: b.name, Tag: 1}, make([][]byte, 10))
	if n != 10 {
		t.Fatalf("%d went", n)
	}
	a.way.Sent()
	f.until(10*time.Second, "its loss", func() bool {
		ev, _, ok := a.v.NextEvent()
		if ok && ev.NIC == 2 && ev.Count != 10 {
			t.Errorf("%+v", ev)
		}
		return ok && ev.NIC == 2
	})
}

func TestARunAllocatesNothing(t *testing.T) { // decision 16
	for _, pl := range []fault.Config{{}, {Seed: 1}} {
		f := newFabric(t, 2, pl)
		a, b := f.riders()
		w := b.gather(a.tester, 1, 4096, 0)
		m, messages := &vni.StraightSend{To: b.name, Tag: 1}, assorted()[:20]
		turn := func() {
			for sent := 0; sent < len(messages); {
				n, _, _ := a.way.SendSome(m, messages[sent:])
				if sent += n; n == 0 {
					f.step()
				}
			}
			a.way.Sent()
			for n := 0; n < len(messages); {
				if _, ok := w.ring.Next(); ok {
					n++
				} else {
					f.step()
				}
			}
		}
		for range 3000 {
			turn()
		}
		if n := testing.AllocsPerRun(300, turn); n != 0 {
			t.Errorf("%v allocations", n)
		}
	}
}
