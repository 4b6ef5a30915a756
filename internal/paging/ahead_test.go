package paging

import "testing"

// Each page of a run is loaded once. Many pages are loaded together, so the program waits once
// for all of them.
func TestARunLoadsHalfAWindowOrMoreAtATime(t *testing.T) {
	const pages, window = 1000, 16
	a := ahead{window: window}
	next := inOrder // the first page that is not loaded yet
	batches := 0
	for n := range pages {
		first, end := a.note(n)
		if n+1 < inOrder && end > 0 {
			t.Fatalf("the fault on page %d is in order: pages up to %d are loaded", n, end)
		}
		if first >= end {
			continue
		}
		batches++
		if first != next {
			t.Fatalf("the fault on page %d loads pages from %d on; expected from %d on", n, first, next)
		}
		if end-first < window/2 {
			t.Errorf("the fault on page %d loads %d pages; expected half a window of %d or more", n, end-first, window)
		}
		next = end
	}
	if next < pages {
		t.Errorf("a run of %d faults loads pages up to %d", pages, next)
	}
	if most := pages / (window / 2); batches > most {
		t.Errorf("%d batches; expected at most %d", batches, most)
	}
}

// If there is no room for pages ahead, the next fault requests them.
func TestPagesWithoutRoomAreLoadedByTheNextFault(t *testing.T) {
	w := newWorld(t, Config{Pages: 400, Limit: MinLimit, Ahead: 64})
	if w.table.faults.window >= 64 {
		t.Fatalf("a window of %d pages needs more than %d buffers", w.table.faults.window, Buffers(MinLimit))
	}
	a := &w.table.faults
	for n := range inOrder {
		w.table.Fault(0, n, false)
	}
	r := a.last
	r.next = 100 // as if the pages before it were loaded
	w.table.room = 0
	for w.table.mapped.first != none {
		w.table.mapped.remove(w.table.mapped.first)
	}
	w.table.lookAhead(98, false)
	if r.next != 100 {
		t.Errorf("pages up to %d are taken for loaded; expected 100: there is no room", r.next)
	}
}
