package vni

import (
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/weftnet/weft/internal/limits"
	"pgregory.net/rapid"
)

var small = Geometry{Commands: 16, Contexts: 4, Descriptors: 4, PoolPages: 2, Colour: 1}

// newSegment makes a segment on the heap and returns its two halves. Each is laid over the bytes
// separately, as two programs do it.
func newSegment(t testing.TB, g Geometry) (*Segment, *Process, *NIC) {
	t.Helper()
	n, m := g.Sizes()
	rw, ro := AlignedBytes(n), AlignedBytes(m)
	s, err := NewSegment(rw, ro, g)
	if err != nil {
		t.Fatal(err)
	}
	o, err := OpenSegment(rw, ro)
	if err != nil {
		t.Fatal(err)
	}
	return s, o.Process(), s.NIC()
}

func name(t testing.TB, s string) Name {
	t.Helper()
	n, err := ParseName(s)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// QNIX-32, for a whole send and a whole receive.
func TestDoorbellsGoTheWayOfQNIX32(t *testing.T) {
	_, p, n := newSegment(t, small)
	for _, receive := range []bool{false, true} {
		for _, notify := range []bool{false, true} {
			take := p.TakeSend
			if receive {
				take = p.TakeReceive
			}
			i, ok := take()
			if !ok || p.Doorbell(receive, i) != Used {
				t.Fatalf("taken: %v, doorbell %v, want used", ok, p.Doorbell(receive, i))
			}
			begin(t, p, n, receive, i)
			if err := n.Complete(receive, i, &Completion{Len: 7}, notify); err != nil {
				t.Fatal(err)
			}
			if !notify {
				if d := p.Doorbell(receive, i); d != Free {
					t.Errorf("completed without notification: doorbell %v, want free", d)
				}
				continue
			}
			if d := p.Doorbell(receive, i); d != Done {
				t.Errorf("completed with notification: doorbell %v, want done", d)
			}
			if c := p.Completion(receive, i); c.Len != 7 {
				t.Errorf("completion %+v", c)
			}
			if p.Release(receive, i); p.Doorbell(receive, i) != Free {
				t.Error("released: doorbell not free")
			}
		}
	}
}

// begin posts a minimal command for a taken context and makes the NIC half load it.
func begin(t testing.TB, p *Process, n *NIC, receive bool, i int) {
	t.Helper()
	code := CodeSend
	if receive {
		code = CodeReceive
		p.SetReceive(i, &ReceiveContext{PoolIndex: NoPool})
	} else {
		p.SetSend(i, &SendContext{PoolIndex: NoPool})
	}
	if !p.Post(Command{Code: code, Context: uint16(i)}) {
		t.Fatal("queue full")
	}
	c, ok := n.Next()
	if !ok || c.Code != code || int(c.Context) != i {
		t.Fatalf("posted %v of %d, read %+v, %v", code, i, c, ok)
	}
	var err error
	if receive {
		_, err = receiveOf(n, i)
	} else {
		_, err = sendOf(n, i)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestContextsArriveAsTheyWereWritten(t *testing.T) {
	g := DefaultGeometry(false)
	_, p, n := newSegment(t, g)
	sends := []SendContext{
		{Receiver: name(t, "app/3"), Gen: 9, Tag: 1<<63 | 5, Flags: WantNotify | WantAccept, Token: 0x10002, PoolIndex: NoPool, Size: 1, Len: 700},
		{NIC: 1 << 60, Slot: 65535, Gen: 2, Tag: 4, Flags: IsReply, PoolIndex: 3, Size: 2, Len: 8192},
		{PoolIndex: NoPool, Size: 16, Len: 1 << 30, Flags: WantNotify | IsCall,
			Remote: Remote{NIC: 77, Slot: 3, Gen: 4, Region: 5, Key: 1 << 63, Offset: 1 << 35}},
		// In the second use, the second line still holds the last address.
		{Receiver: name(t, "other/1"), PoolIndex: NoPool},
	}
	for range g.Contexts { // every context, each kind
		for _, want := range sends {
			i, _ := p.TakeSend()
			p.SetSend(i, &want)
			got, err := sendOf(n, i)
			if diff := cmp.Diff(want, got); err != nil || diff != "" {
				t.Fatalf("send context %d: %v %s", i, err, diff)
			}
			if err := n.Complete(false, i, &Completion{}, false); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, want := range []ReceiveContext{
		{Flags: AnyTag | WantNotify, PoolIndex: NoPool, Size: 1, Len: 10},
		{Sender: name(t, "app/4"), Tag: 12, PoolIndex: 255, Size: 1, Len: 4096},
		{NIC: 5, Slot: 6, Gen: 7, Tag: 8, Flags: IsReply, PoolIndex: NoPool},
	} {
		i, _ := p.TakeReceive()
		p.SetReceive(i, &want)
		got, err := receiveOf(n, i)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Fatalf("receive context %d: %v %s", i, err, diff)
		}
	}
}

func TestCompletionsArriveAsTheyWereWritten(t *testing.T) {
	_, p, n := newSegment(t, small)
	want := Completion{Status: StatusTruncated, Len: 5, Full: 1 << 40, Tag: 1 << 63, Token: 1<<31 | 7, From: name(t, "app/3"), NIC: 1 << 50, Slot: 9, Gen: 10}
	for _, receive := range []bool{false, true} {
		take := p.TakeSend
		if receive {
			take = p.TakeReceive
		}
		i, _ := take()
		begin(t, p, n, receive, i)
		if err := n.Complete(receive, i, &want, true); err != nil {
			t.Fatal(err)
		}
		if !receive {
			want.From = Name{}
		}
		if diff := cmp.Diff(want, p.Completion(receive, i)); diff != "" {
			t.Errorf("receive %v: %s", receive, diff)
		}
		want.From = name(t, "app/3")
	}
}

func TestRegionsAreOnePerContext(t *testing.T) {
	s, p, n := newSegment(t, small)
	for i := range small.Contexts {
		for k := range p.Inline(i) {
			p.Inline(i)[k] = byte(i + 1)
		}
		p.SetDescriptors(true, i, []Descriptor{{Region: uint32(i), Offset: 8, Len: 9}, {Offset: limits.MaxRegion}})
	}
	for i := range small.Contexts {
		b := n.Inline(i, limits.ShortMessage)
		for _, c := range b {
			if c != byte(i+1) {
				t.Fatalf("region of send context %d holds %d", i, c)
			}
		}
		d, err := n.Descriptors(true, i, 2, nil)
		want := []Descriptor{{Region: uint32(i), Flag: DescriptorValid, Offset: 8, Len: 9}, {Flag: DescriptorValid, Offset: limits.MaxRegion}}
		if diff := cmp.Diff(want, d); err != nil || diff != "" {
			t.Errorf("descriptors of receive context %d: %v %s", i, err, diff)
		}
		if _, err := n.Descriptors(true, i, 3, nil); !errors.Is(err, ErrArgument) {
			t.Errorf("a descriptor that was not filled: %v, want ErrArgument (QNIX-22's flag)", err)
		}
	}
	if len(s.Pool()) != small.PoolPages*limits.PageBytes {
		t.Errorf("pool of %d bytes", len(s.Pool()))
	}
}

// QNIX-29 and A4: the head moves every eight commands, so the queue is full early, but never for
// ever.
func TestQueueFillsAndDrainsAroundItsEnd(t *testing.T) {
	_, p, n := newSegment(t, small)
	next, read := uint32(0), uint32(0)
	for round := range 100 {
		posted := 0
		for p.Post(Command{Code: CodeCancel, Group: next, Size: ^next}) {
			next++
			posted++
		}
		if posted == 0 {
			t.Fatalf("round %d: nothing could be posted", round)
		}
		if p.Room(1) {
			t.Fatal("room in a full queue")
		}
		for k := 0; k < 8 || round%3 == 0; k++ {
			c, ok := n.Next()
			if !ok {
				break
			}
			if c.Group != read || c.Size != ^read {
				t.Fatalf("read %+v, want command %d", c, read)
			}
			read++
		}
	}
	for c, ok := n.Next(); ok; c, ok = n.Next() {
		if c.Group != read {
			t.Fatalf("read %+v, want command %d", c, read)
		}
		read++
	}
	if read != next || n.Pending() {
		t.Errorf("%d posted, %d read, pending %v", next, read, n.Pending())
	}
	if p.Head() != n.head&^7 || !p.Room(small.Commands-8) || p.KnownHead() != p.Head() {
		t.Error("an empty queue must take N−8 commands for certain")
	}
}

// dumbSearch is the simplest version of QNIX-30: doorbells and the field as the text describes
// them.
type dumbSearch struct {
	free  []bool
	field int
}

func (d *dumbSearch) take() (int, bool) {
	m := len(d.free)
	if i := d.field; d.free[i] {
		d.free[i] = false
		d.field = (d.field + 1) % m
		return i, true
	}
	for k := 1; k < m; k++ {
		i := (d.field + k) % m
		if d.free[i] {
			d.free[i] = false
			d.field = (i + 1) % m
			return i, true
		}
	}
	return 0, false
}

func TestContextSearchEqualsTheDumbOne(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		m := rapid.IntRange(1, 9).Draw(rt, "contexts")
		receive := rapid.Bool().Draw(rt, "receive")
		_, p, n := newSegment(t, Geometry{Commands: 24, Contexts: m, Descriptors: 1})
		dumb := dumbSearch{free: make([]bool, m)}
		for i := range dumb.free {
			dumb.free[i] = true
		}
		take := p.TakeSend
		if receive {
			take = p.TakeReceive
		}
		for range rapid.IntRange(1, 60).Draw(rt, "steps") {
			if rapid.Bool().Draw(rt, "take") {
				i, ok := take()
				j, want := dumb.take()
				if p.AnyFree(receive) != slices.Contains(dumb.free, true) {
					rt.Fatalf("AnyFree is %v, free are %v", p.AnyFree(receive), dumb.free)
				}
				if ok != want || ok && i != j {
					rt.Fatalf("took %d %v, want %d %v", i, ok, j, want)
				}
				if ok {
					begin(t, p, n, receive, i)
				}
				continue
			}
			i := rapid.IntRange(0, m-1).Draw(rt, "end")
			if dumb.free[i] {
				continue
			}
			dumb.free[i] = true
			notify := rapid.Bool().Draw(rt, "notify")
			if err := n.Complete(receive, i, &Completion{}, notify); err != nil {
				rt.Fatal(err)
			}
			if notify {
				p.Release(receive, i)
			}
		}
	})
}

func TestImpossibleStatesAreNamed(t *testing.T) {
	s, p, n := newSegment(t, small)
	wantImpossible := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, ErrImpossible) {
			t.Errorf("%s: %v, want ErrImpossible", what, err)
		}
	}
	_, err := sendOf(n, 0)
	wantImpossible("command for a free context", err)
	_, err = receiveOf(n, small.Contexts)
	wantImpossible("context beyond the list", err)
	_, err = sendOf(n, -1)
	wantImpossible("negative context", err)
	wantImpossible("completion of nothing", n.Complete(true, 0, &Completion{}, true))
	wantImpossible("completion beyond the list", n.Complete(true, 99, &Completion{}, true))

	i, _ := p.TakeSend()
	begin(t, p, n, false, i)
	_, err = sendOf(n, i)
	wantImpossible("second command for a context", err)
	s.bells[sendList][i] = 17
	wantImpossible("unknown doorbell", n.Complete(false, i, &Completion{}, true))
	if s.bells[sendList][i] != 17 {
		t.Error("the NIC wrote over a doorbell that it does not understand")
	}

	s.commands[n.head].word = 1 << 40
	if c, ok := n.Next(); !ok || c.Code != 0 {
		t.Errorf("command word with foreign bits: %+v, %v, want code 0", c, ok)
	}
}

func TestInvalidContextsFailAloneAndCanBeCompleted(t *testing.T) {
	_, p, n := newSegment(t, small)
	bad := name(t, "app/1")
	bad.App[0] = 'A'
	for what, c := range map[string]SendContext{
		"name":             {Receiver: bad, PoolIndex: NoPool},
		"flags":            {Flags: 1 << 9, PoolIndex: NoPool},
		"pool index":       {PoolIndex: 2, Size: 1},
		"negative index":   {PoolIndex: -2, Size: 1},
		"pool size":        {PoolIndex: 1, Size: ^uint32(0)},
		"length in pool":   {PoolIndex: 0, Size: 1, Len: limits.PageBytes + 1},
		"descriptors":      {PoolIndex: NoPool, Size: 5},
		"length":           {PoolIndex: NoPool, Len: limits.MaxRegion + 1},
		"remote's offset":  {PoolIndex: NoPool, Remote: Remote{NIC: 1, Offset: 1 << 63}},
		"receive-only bit": {PoolIndex: NoPool, Flags: AnyTag},
	} {
		i, _ := p.TakeSend()
		p.SetSend(i, &c)
		if _, err := sendOf(n, i); !errors.Is(err, ErrArgument) || errors.Is(err, ErrImpossible) {
			t.Errorf("%s: %v, want ErrArgument", what, err)
		}
		if err := n.Complete(false, i, &Completion{Status: StatusBadArgument}, true); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		p.Release(false, i)
	}
	if n.Inline(0, limits.ShortMessage+1) != nil || n.Inline(-1, 0) != nil || n.Inline(small.Contexts, 0) != nil {
		t.Error("Inline outside its region is not nil")
	}
}

// Whether a command can be missed depends on two accesses: see
// TestEveryScheduleOfTheListeningWord.
func TestTheNICStaysWithAQueueThatHasACommand(t *testing.T) {
	_, p, n := newSegment(t, small)
	if p.Listening() {
		t.Error("a new queue is listened to")
	}
	n.Listen()
	p.Post(Command{Code: CodeBarrier})
	if n.StopListening() || !p.Listening() {
		t.Error("the NIC left a queue with a command in it")
	}
	n.Next()
	if !n.StopListening() || p.Listening() {
		t.Error("the NIC did not leave an empty queue")
	}
}

func TestEventsComeInOrderAndLossesAreCounted(t *testing.T) {
	_, p, n := newSegment(t, small)
	if p.EventPending() {
		t.Error("an event before the first")
	}
	want := Event{Kind: EventProcessGone, NIC: 1 << 60, Slot: 5, Gen: 6, Name: name(t, "app/3"), Count: 7}
	n.Event(want)
	if got, lost, ok := p.NextEvent(); !ok || lost != 0 || got != want {
		t.Errorf("%+v, %d, %v, want %+v", got, lost, ok, want)
	}
	for i := range 3*Events + 5 {
		n.Event(Event{Kind: EventUnreachable, Count: uint64(i)})
	}
	for i := 2*Events + 5; i < 3*Events+5; i++ {
		got, lost, ok := p.NextEvent()
		wantLost := uint64(0)
		if i == 2*Events+5 {
			wantLost = 2*Events + 5
		}
		if !ok || got.Count != uint64(i) || lost != wantLost {
			t.Fatalf("%+v, lost %d, %v; want event %d, lost %d", got, lost, ok, i, wantLost)
		}
	}
	if _, lost, ok := p.NextEvent(); ok || lost != 0 || p.EventPending() {
		t.Error("an event after the last")
	}
}

func TestIdentityAndEndReachTheProcess(t *testing.T) {
	_, p, n := newSegment(t, small)
	want := Identity{NIC: 0x60dd7fff8c, Incarnation: 1 << 63, Slot: 12, Gen: 3, Name: name(t, "app/3")}
	n.SetIdentity(want)
	if got := p.Identity(); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if p.Gone() != StatusOK {
		t.Error("gone before its end")
	}
	if n.SetGone(StatusDetached); p.Gone() != StatusDetached {
		t.Error("not gone after its end")
	}
	if n.Sleeping() {
		t.Error("sleeping from the start")
	}
	p.SetSleeping(true)
	awake := !n.Sleeping()
	p.SetSleeping(false)
	if awake || n.Sleeping() {
		t.Error("the sleeping word does not follow SetSleeping")
	}
	if at := n.WaitsAt(); at != -1 {
		t.Errorf("waits at %d from the start", at)
	}
	for _, at := range []int{0, 7, 4095, -1} {
		if p.SetWaitsAt(at); n.WaitsAt() != at || n.Sleeping() {
			t.Errorf("waits at %d, and said that it does at %d", n.WaitsAt(), at)
		}
	}
}

func TestDirectMemoryIsPassedAndLetGo(t *testing.T) {
	n0, m0 := small.Sizes()
	s, err := NewSegment(AlignedBytes(n0), AlignedBytes(m0), small)
	if err != nil {
		t.Fatal(err)
	}
	s.EnableDirect()
	p, n := s.Process(), s.NIC()
	i, _ := p.TakeReceive()
	a, b := []byte("one"), []byte("two")
	p.SetDirect(true, i, [][]byte{a, b})
	begin(t, p, n, true, i)
	if d := n.Direct(true, i); len(d) != 2 || &d[0][0] != &a[0] || &d[1][0] != &b[0] {
		t.Errorf("direct memory %q", d)
	}
	parts := n.Direct(true, i)
	if err := n.Complete(true, i, &Completion{}, true); err != nil {
		t.Fatal(err)
	}
	p.Release(true, i)
	if parts[0] != nil || parts[1] != nil || len(n.Direct(true, i)) != 0 {
		t.Error("the segment still holds the caller's memory")
	}
}

// Decision 16: the steady state allocates nothing.
func TestOneOperationAllocatesNothing(t *testing.T) {
	_, p, n := newSegment(t, DefaultGeometry(false))
	to := name(t, "app/3")
	into := make([]Descriptor, 0, 4)
	pieces := []Descriptor{{Len: 5}}
	allocs := testing.AllocsPerRun(1000, func() {
		i, _ := p.TakeSend()
		p.SetSend(i, &SendContext{Receiver: to, PoolIndex: NoPool, Size: 1, Len: 5, Flags: WantNotify})
		p.SetDescriptors(false, i, pieces)
		p.Post(Command{Code: CodeSend, Context: uint16(i)})
		c, _ := n.Next()
		sc, err := sendOf(n, int(c.Context))
		if err != nil {
			t.Fatal(err)
		}
		if into, err = n.Descriptors(false, i, int(sc.Size), into[:0]); err != nil {
			t.Fatal(err)
		}
		if err := n.Complete(false, i, &Completion{Len: 5}, true); err != nil {
			t.Fatal(err)
		}
		n.Event(Event{Kind: EventNameLost, Name: to})
		p.NextEvent()
		if p.Doorbell(false, i) == Done && p.Completion(false, i).Len == 5 {
			p.Release(false, i)
		}
	})
	if allocs != 0 {
		t.Errorf("%v allocations", allocs)
	}
}

func sendOf(n *NIC, i int) (c SendContext, err error) {
	err = n.Send(i, &c)
	return c, err
}

func receiveOf(n *NIC, i int) (c ReceiveContext, err error) {
	err = n.Receive(i, &c)
	return c, err
}

// A burst costs one kick, however late the NIC is. The next burst costs another.
func TestOfABurstOnlyTheFirstCommandKicks(t *testing.T) { // NETSTAR-22
	_, p, n := newSegment(t, Geometry{Commands: 16, Contexts: 2, Descriptors: 2})
	for round := range 5 { // the queue wraps meanwhile
		for k := range 7 {
			p.Post(Command{Code: CodeBarrier})
			if kick := p.MustKick(); kick != (k == 0) {
				t.Fatalf("round %d, command %d: must kick: %v", round, k, kick)
			}
		}
		n.Next()
		// The command of the kick has been taken, and the NIC may be about to rest.
		p.Post(Command{Code: CodeBarrier})
		if !p.MustKick() {
			t.Fatalf("round %d: no kick behind a command that was taken", round)
		}
		n.Listen()
		p.Post(Command{Code: CodeBarrier})
		if p.MustKick() {
			t.Fatalf("round %d: a kick for a NIC that listens", round)
		}
		for n.Pending() {
			n.Next()
		}
		n.StopListening()
	}
}
