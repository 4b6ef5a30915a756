package program

import (
	"bytes"
	"errors"
	"slices"
	"testing"
	"unsafe"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/rel"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/pdl/vm"
)

// A transfer reaches the data of its segment, and no byte before or behind it.
func TestATransferStaysWithinTheSegment(t *testing.T) { // PANIC-32, PANIC-33
	n := newNIC(t)
	mem := vni.AlignedBytes(16 + SegmentTail)
	if err := n.AddSegment(3, mem); err != nil {
		t.Fatal(err)
	}
	h := (*host)(n.Table)
	for _, c := range []struct {
		segment, offset int64
		length          int
		want            vm.Status
	}{
		{3, 0, 0, vm.Done}, {3, 0, 16, vm.Done}, {3, 0, 17, vm.Refused}, {3, 15, 1, vm.Done}, {3, 15, 2, vm.Refused}, {3, 16, 0, vm.Done},
		{3, 16, 1, vm.Refused}, {3, 17, 0, vm.Refused}, {3, 1<<63 - 1, 1, vm.Refused}, {4, 0, 1, vm.Refused}, {-1, 0, 1, vm.Refused}, {1<<32 + 3, 0, 1, vm.Refused},
	} {
		clear(mem)
		data, tr := bytes.Repeat([]byte{7}, c.length), vm.Transfer{Program: 5, Segment: c.segment, Offset: c.offset}
		into := make([]byte, c.length)
		if d, g := h.Deliver(tr, data), h.Get(tr, into); d != c.want || g != c.want {
			t.Errorf("%d bytes at %d of segment %d: delivered %v, read %v; expected %v", c.length, c.offset, c.segment, d, g, c.want)
		}
		want := make([]byte, len(mem))
		if c.want == vm.Done {
			copy(want[c.offset:], data)
			if !bytes.Equal(into, data) {
				t.Errorf("%d bytes at %d: %v were read", c.length, c.offset, into)
			}
		}
		if !bytes.Equal(mem, want) {
			t.Errorf("%d bytes at %d of segment %d are not where they should be", c.length, c.offset, c.segment)
		}
	}
}

// Memory is a segment if it has whole words, and room for locks and flags behind them.
func TestASegmentHasWholeWordsAndATail(t *testing.T) {
	all := vni.AlignedBytes(limits.SegmentBytes + 16 + SegmentTail)
	for _, c := range []struct {
		from, bytes int
		ok          bool
	}{{0, 0, false}, {0, 7, false}, {0, 8, true}, {0, 12, false}, {4, 8, false}, {8, 8, true}, {0, limits.SegmentBytes, true}, {0, limits.SegmentBytes + 8, false}} {
		n := newNIC(t)
		err := n.AddSegment(1, all[c.from:][:c.bytes+SegmentTail])
		if (err == nil) != c.ok || err != nil && !errors.Is(err, ErrSegmentBad) || len(n.segments) > 0 != c.ok {
			t.Errorf("%d bytes from byte %d on: %v", c.bytes, c.from, err)
		}
	}
	n := newNIC(t)
	if err := n.AddSegment(1, all[:SegmentTail-8]); !errors.Is(err, ErrSegmentBad) {
		t.Errorf("memory that is shorter than a tail: %v", err)
	}
	locks, flags := SegmentSync(all[:8+SegmentTail])
	if len(locks) != limits.SegmentWords || len(flags) != limits.SegmentWords || cap(locks) != len(locks) ||
		unsafe.Pointer(&locks[0]) != unsafe.Pointer(&all[8]) || unsafe.Pointer(&flags[0]) != unsafe.Pointer(&all[8+SegmentTail/2]) {
		t.Error("locks and flags do not lie behind the data")
	}
}

func TestARingForAllSegmentsRingsEach(t *testing.T) {
	n := newNIC(t)
	b := &bells{lone: n.engine}
	n.nic = b
	for _, id := range []uint32{9, 2, 5} {
		if err := n.AddSegment(id, vni.AlignedBytes(8+SegmentTail)); err != nil {
			t.Fatal(err)
		}
	}
	n.RangAll()
	n.Table.Rang(7)
	if !slices.Equal(b.rung, []uint32{2, 5, 9, 7}) {
		t.Errorf("segments %v ring", b.rung)
	}
}

// A lock is seen while its word is set, and a program clears only that word.
func TestAProgramSeesAndClearsTheLocksOfItsSegments(t *testing.T) { // PANIC-24
	n := newNIC(t)
	mem := vni.AlignedBytes(8 + SegmentTail)
	if err := n.AddSegment(2, mem); err != nil {
		t.Fatal(err)
	}
	locks, flags := SegmentSync(mem)
	h := (*host)(n.Table)
	for _, i := range []int64{0, 1, limits.SegmentWords - 1} {
		number := 2*limits.SegmentWords + i
		if h.Lock(number) {
			t.Errorf("lock %d is set", number)
		}
		for k := range locks {
			locks[k] = 1
		}
		clear(flags)
		if !h.Lock(number) || h.Lock(number-2*limits.SegmentWords) || h.Lock(number+limits.SegmentWords) || h.Lock(-number) {
			t.Errorf("lock %d is not set, or a lock of no segment is", number)
		}
		h.ClearLock(number)
		h.SetFlag(number)
		for k := range locks {
			if (locks[k] == 0) != (k == int(i)) || (flags[k] == 1) != (k == int(i)) {
				t.Errorf("lock %d is %d and flag %d is %d when those of %d were changed", k, locks[k], k, flags[k], i)
			}
		}
		clear(locks)
	}
}

// The log keeps the last values, and returns them from any number on.
func TestALogKeepsTheLastValues(t *testing.T) { // PANIC-26
	n := newNIC(t)
	n.put(5, shower)
	const extra = 10
	for v := range int64(limits.ProgramLog + extra) {
		(*host)(n.Table).Display(5, v)
		(*host)(n.Table).Display(6, v) // no such program: lost
	}
	const total = limits.ProgramLog + extra
	for _, c := range []struct{ from, first uint64 }{{0, extra}, {extra, extra}, {extra + 1, extra + 1}, {total - 1, total - 1}, {total, total}, {total + 5, total}, {1<<64 - 1, total}} {
		values, first, err := n.Log(5, c.from)
		if err != nil || first != c.first || uint64(len(values)) != total-c.first {
			t.Fatalf("from %d: %d values from %d on, %v; expected %d", c.from, len(values), first, err, c.first)
		}
		for i, v := range values {
			if uint64(v) != first+uint64(i) {
				t.Fatalf("from %d: value %d is %d", c.from, first+uint64(i), v)
			}
		}
	}
	if info, _ := n.Info(5); info.Shown != total {
		t.Errorf("%d values are counted", info.Shown)
	}
}

// The queue keeps its order at any length, and handled messages take no room in it.
func TestTheQueueKeepsItsOrderAndItsLength(t *testing.T) {
	n := newNIC(t)
	next, want := uint32(0), uint32(0)
	for round := range 40 {
		for range 10 * (round%7 + 1) {
			m := n.newMessage(0)
			m.id = next
			next++
			n.push(m)
		}
		for range 10 * ((round+3)%7 + 1) {
			if n.Pending() == 0 {
				break
			}
			m := n.pop()
			if m.id != want {
				t.Fatalf("message %d is handled when it is the turn of %d", m.id, want)
			}
			n.freeMessage(m)
			want++
		}
		if len(n.queue) > 2*n.Pending()+128 || n.local != n.Pending()*cost(0) {
			t.Fatalf("the queue is %d long with %d messages that wait; %d bytes are counted", len(n.queue), n.Pending(), n.local)
		}
	}
}

// Each piece of a message has its place. Messages with interleaved pieces are told apart.
func TestPiecesOfSeveralMessagesAreToldApart(t *testing.T) { // PANIC-18
	n := newNIC(t)
	pr := &Peer{Endpoint: new(rel.Endpoint)}
	n.Record(pr, piece(1, 4, 2, 3, 4))
	n.Record(pr, piece(2, 4, 0, 5, 6))
	n.Record(pr, piece(3, 2, 0, 9, 9))
	n.Record(pr, piece(2, 4, 2, 7, 8))
	n.Record(pr, piece(1, 4, 0, 1, 2))
	var got [][]byte
	for n.Pending() > 0 {
		m := n.pop()
		got = append(got, m.Payload)
		if m.peer != pr || m.answer || m.cost != cost(len(m.Payload)) {
			t.Errorf("the message is %+v", m)
		}
	}
	if len(got) != 3 || !bytes.Equal(got[0], []byte{9, 9}) || !bytes.Equal(got[1], []byte{5, 6, 7, 8}) || !bytes.Equal(got[2], []byte{1, 2, 3, 4}) {
		t.Errorf("the messages are %v", got)
	}
	if len(pr.assemblies) != 0 || pr.used != 2*cost(4)+cost(2) {
		t.Errorf("%d messages are in pieces, %d bytes are used", len(pr.assemblies), pr.used)
	}
	n.Record(pr, piece(2, 4, 0, 1, 2)) // the number of a complete message begins another
	if n.Pending() != 0 || len(pr.assemblies) != 1 || n.counts[vni.DropFormat] != 0 {
		t.Errorf("%d messages wait, %d are in pieces", n.Pending(), len(pr.assemblies))
	}
	n.Down(pr, vni.StatusUnreachable)
	if len(pr.assemblies) != 0 || pr.used != 0 || n.counts[vni.NICProgramsLost] != 0 {
		t.Errorf("behind the session %d messages are in pieces, %d bytes are used", len(pr.assemblies), pr.used)
	}
}
