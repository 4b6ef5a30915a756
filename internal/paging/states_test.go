package paging

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// told returns the actions of a table as text.
func told(t *Table) string {
	var l []string
	for _, a := range t.Actions(nil) {
		s := fmt.Sprint(map[Kind]string{Load: "load", Store: "store", Fill: "fill", Zero: "zero", Take: "take", Allow: "allow", Wake: "wake", Poison: "poison"}[a.Kind], " ", a.Page)
		if a.Writable {
			s += " writable"
		}
		if a.Here {
			s += " here"
		}
		if a.Buf < 0 && (a.Kind == Load || a.Kind == Store || a.Kind == Fill) {
			s += " without a buffer"
		}
		l = append(l, s)
	}
	return strings.Join(l, ", ")
}

// plain returns a table that loads nothing ahead. The device has pages 100 to 199.
func plain(t *testing.T) *Table {
	t.Helper()
	table, err := New(Config{Pages: 256, Limit: MinLimit, Ahead: -1, Timeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	for n := 100; n < 200; n++ {
		table.pages[n].stored = true
	}
	return table
}

// Each fault is answered according to the state of its page, so its thread continues. A thread
// that gets no answer would wait for ever.
func TestEachFaultIsAnsweredByTheStateOfItsPage(t *testing.T) {
	table := plain(t)
	fault := func(n int, write bool) func() { return func() { table.Fault(0, n, write) } }
	protected := func(n int) func() { return func() { table.Protected(n) } }
	loaded := func(n int, ok bool) func() { return func() { table.Loaded(n, ok) } }
	for i, step := range []struct {
		do   func()
		want string
	}{
		{fault(0, false), "zero 0"},
		{fault(0, false), "wake 0 here"},
		{fault(0, true), "wake 0 here"}, // the thread retries, and finds the page protected
		{protected(0), "allow 0"},
		{protected(0), "wake 0"},
		{fault(0, true), "wake 0 here"},
		{fault(1, true), "zero 1 writable"},
		{protected(1), "wake 1"},
		{protected(2), "wake 2"}, // the page left before the report arrived
		{fault(100, false), "load 100"},
		{fault(100, false), ""},
		{protected(100), "wake 100"},
		{loaded(100, true), "fill 100"},
		{protected(100), "allow 100"},
		{fault(101, true), "load 101"},
		{loaded(101, true), "fill 101 writable"},
		{fault(102, false), "load 102"},
		{fault(102, true), ""},
		{fault(102, false), ""},
		{loaded(102, true), "fill 102 writable"},
		{fault(103, true), "load 103"},
		{loaded(103, false), "poison 103"},
		{fault(103, false), "wake 103"},
		{fault(103, true), "wake 103"},
		{protected(103), "wake 103"},
	} {
		step.do()
		if got := told(table); got != step.want {
			t.Errorf("step %d: %q is to be done; expected %q", i, got, step.want)
		}
	}
	if got, want := table.Stats(), (Stats{Mapped: 5, Faults: 14, Writes: 7, Loads: 4, Lost: 1}); got != want {
		t.Errorf("%+v; expected %+v", got, want)
	}
}

// If a page that was loaded ahead cannot be had, its room and its buffer are free, and it can be
// requested again.
func TestAPageThatNoThreadAwaitsIsNotLost(t *testing.T) {
	table := plain(t)
	room, free := table.room, len(table.free)
	table.pages[100].writes = true
	table.load(100)
	if table.room != room-1 || len(table.free) != free-1 || told(table) != "load 100" {
		t.Fatalf("a load takes %d of the room and %d buffers", room-table.room, free-len(table.free))
	}
	table.Loaded(100, false)
	if p := table.pages[100]; table.room != room || len(table.free) != free || p.state != absent || p.buf != none || p.writes || table.Stats().Lost != 0 || told(table) != "" {
		t.Errorf("behind it %d of the room and %d buffers are taken, and the page is %+v", room-table.room, free-len(table.free), p)
	}
	table.Fault(0, 100, false)
	table.Loaded(100, true)
	if got := told(table); got != "load 100, fill 100" {
		t.Errorf("the fault behind it: %q", got)
	}
}

// An answer that the device cannot have given is a defect of the pager, and ends the pager.
func TestAnAnswerThatWasNotAskedForEndsThePager(t *testing.T) {
	table := plain(t)
	for name, do := range map[string]func(){"a load": func() { table.Loaded(0, true) }, "a store": func() { table.Stored(0, 3, true) }} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s of a page that is not asked for is taken", name)
				}
			}()
			do()
		}()
	}
}

// full returns a world without room. Each buffer holds a page that must go to the device, and
// some stores are in flight.
func full(t *testing.T, stores int) (w *world, next int) {
	t.Helper()
	w = newWorld(t, Config{Pages: 400, Limit: MinLimit, Stores: stores, Ahead: -1, Timeout: time.Second})
	for w.table.Stats().Waiting == 0 {
		w.latest[next] = 0
		w.table.Fault(w.now, next, true)
		w.perform()
		next++
	}
	return w, next
}

// The number of stores in flight reaches its limit and does not exceed it.
func TestStoresInFlightAreBounded(t *testing.T) {
	for stores, want := range map[int]int{0: 16, 1: 1, 5: 5, Buffers(MinLimit): Buffers(MinLimit), 100: Buffers(MinLimit)} {
		w, _ := full(t, stores)
		if len(w.stores) != want {
			t.Errorf("with %d stores %d are in flight; expected %d", stores, len(w.stores), want)
		}
		if s := w.table.Stats(); s.Buffered != Buffers(MinLimit) || s.Mapped != MinLimit-Buffers(MinLimit) || s.Waiting != 1 {
			t.Errorf("%+v; expected that all is in use", s)
		}
	}
}

// A page may be given up before or during its store. Its buffer is freed once, when nothing uses
// it any more.
func TestAPageThatIsGivenUpFreesItsBufferOnce(t *testing.T) {
	for _, sending := range []bool{true, false} {
		w, next := full(t, 5)
		at := w.stores[2].Page
		if !sending {
			at = int(w.table.leave.first)
		}
		if (w.table.pages[at].sending != none) != sending || w.table.pages[at].state != leaving {
			t.Fatalf("page %d: %+v", at, w.table.pages[at])
		}
		w.table.Fault(w.now, at, false) // there is no room for the page
		w.perform()
		w.table.Expire(w.now.Add(time.Second))
		w.perform()
		if !w.poison[at] || !w.poison[next-1] || w.table.Stats().Waiting != 0 || w.table.Stats().Lost != 2 {
			t.Fatalf("behind the timeout of both: %+v", w.table.Stats())
		}
		left := 0
		for n := w.table.leave.first; n != none; n = w.table.pages[n].next {
			if left++; int(n) == at || w.table.pages[n].state != leaving {
				t.Errorf("page %d is to be stored: %+v", n, w.table.pages[n])
			}
		}
		if left != w.table.leave.len {
			t.Errorf("%d pages are to be stored; the list says %d", left, w.table.leave.len)
		}
		r := rand.New(rand.NewPCG(1, 2))
		for len(w.stores) > 0 {
			w.answer(r, func(Action) bool { return false })
		}
		free := map[int32]bool{}
		for _, b := range w.table.free {
			if b < 0 || free[b] {
				t.Errorf("buffer %d is free, %v", b, w.table.free)
			}
			free[b] = true
		}
		if w.table.buffers() != Buffers(MinLimit) || len(w.table.free) < 1 {
			t.Errorf("%d buffers can be had, of which %d are free; expected all, and that of the lost page", w.table.buffers(), len(w.table.free))
		}
	}
}

// A store that fails is retried after the stores that have not been tried yet. Its content is
// kept meanwhile.
func TestAStoreThatFailsIsTriedAgainBehindTheOthers(t *testing.T) {
	w, _ := full(t, 1)
	order := []int{}
	for range Buffers(MinLimit) + 1 {
		a := w.stores[0]
		w.stores, w.carried = nil, nil
		order = append(order, a.Page)
		w.table.Stored(a.Page, a.Buf, false)
		w.perform()
		if len(w.stores) != 1 {
			t.Fatalf("%d stores are in flight behind one that failed", len(w.stores))
		}
	}
	seen := map[int]bool{}
	for _, n := range order[:len(order)-1] {
		seen[n] = true
	}
	if len(seen) != Buffers(MinLimit) || order[len(order)-1] != order[0] {
		t.Errorf("the device is given the pages %v; expected each once, and the first again", order)
	}
	if s := w.table.Stats(); s.Failed != uint64(len(order)) || s.Waiting != 1 {
		t.Errorf("%+v", s)
	}
}

// A fault belongs to the run that it follows, and to no other run.
func TestAFaultIsOfTheRunThatItFollows(t *testing.T) {
	run := func(window int) *ahead {
		a := &ahead{window: window}
		for n := 10; n < 10+inOrder; n++ {
			a.note(n)
		}
		return a // the next page to request is 13+window
	}
	for _, window := range []int{0, -1} {
		if a := run(window); a.runs[0].faults != 0 {
			t.Errorf("with a window of %d pages runs are kept", window)
		}
	}
	const window = 8
	last, next := 10+inOrder-1, 10+inOrder+window
	for n, want := range map[int][2]int{
		last - 1: {0, 0}, last: {0, 0}, // the run has passed these
		last + 1: {next, 0}, next - window/2: {next, next + 1 + window/2}, next: {next + 1, next + 1 + window}, next + 1: {0, 0}, next - window/2 - 1: {next, 0},
	} {
		if first, end := run(window).note(n); first != want[0] || end != want[1] {
			t.Errorf("a fault on page %d has pages from %d to %d loaded; expected %v", n, first, end, want)
		}
	}
	a := run(window)
	for i := range len(a.runs) { // other runs replace the oldest
		a.note(1000 * (i + 1))
	}
	if first, end := a.note(last + 1); first != 0 || end != 0 {
		t.Errorf("a run that %d others followed still loads pages from %d to %d", len(a.runs), first, end)
	}
}

// A window of pages ahead is at most a quarter of the buffers, and does not extend beyond the end
// of the region.
func TestPagesAheadAreBounded(t *testing.T) {
	for _, c := range []struct{ limit, ahead, want int }{{MinLimit, 0, 4}, {4096, 0, 64}, {4096, 10, 10}, {4096, -1, -1}, {MinLimit, 1000, 4}} {
		table, err := New(Config{Pages: 5000, Limit: c.limit, Ahead: c.ahead})
		if err != nil {
			t.Fatal(err)
		}
		if table.faults.window != c.want || table.writes.window != c.want {
			t.Errorf("%+v: windows of %d and %d pages", c, table.faults.window, table.writes.window)
		}
	}
	w := newWorld(t, Config{Pages: 200, Limit: 128})
	for n := 200 - inOrder; n < 200; n++ {
		w.table.Fault(w.now, n, false)
		w.perform()
	}
	if s := w.table.Stats(); s.Mapped != inOrder {
		t.Errorf("%d pages are there at the end; expected %d", s.Mapped, inOrder)
	}
	for n := 200 - inOrder; n < 200; n++ {
		w.table.Protected(n)
		w.perform()
	}
}

// Pages of zeros leave without a buffer, so a thread continues although the device accepts
// nothing.
func TestZerosMakeRoomThoughNoBufferIsFree(t *testing.T) {
	table := plain(t)
	buffers, local := Buffers(MinLimit), MinLimit-Buffers(MinLimit)
	for n := range local { // the oldest fill the buffers, the others are zeros
		table.Fault(0, n, n < buffers)
	}
	for n := local; table.buffers() > 0 || table.room > 0; n++ {
		table.Fault(0, n, false)
	}
	table.Actions(nil)
	for n := 250; n < 255; n++ {
		table.Fault(0, n, false)
		if got := told(table); !strings.HasPrefix(got, "take ") || !strings.HasSuffix(got, fmt.Sprint(", zero ", n)) || table.Stats().Waiting != 0 {
			t.Errorf("a fault on page %d: %q, and %d wait; expected that a page of zeros gives way", n, got, table.Stats().Waiting)
		}
	}
}
