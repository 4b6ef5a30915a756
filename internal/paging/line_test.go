package paging

import (
	"math/rand/v2"
	"testing"
	"time"
)

// A fault that needs less room than the fault before it does not overtake that fault. Otherwise a
// thread that waits for a page of the device could starve while other threads touch new pages.
func TestFaultsThatWaitForRoomAreServedInTheirOrder(t *testing.T) {
	const pages, old = 400, 399
	w := newWorld(t, Config{Pages: pages, Limit: MinLimit, Ahead: -1, Timeout: time.Minute})
	w.table.pages[old].stored = true // the device has it
	next := 0
	// Fill every buffer with a page that must go to the device.
	for ; w.table.buffers() > 0; next++ {
		w.table.Fault(w.now, next, true)
		w.perform()
	}
	if w.table.room < 2 {
		t.Fatalf("there is room for %d pages; expected some: the fault below waits for a buffer alone", w.table.room)
	}
	w.table.Fault(w.now, old, false)
	w.table.Fault(w.now, next, true) // it needs no buffer
	w.perform()
	if w.region[next] >= 0 || w.table.Stats().Waiting != 2 {
		t.Errorf("%d faults wait; expected both: the second overtook the first", w.table.Stats().Waiting)
	}
	r := rand.New(rand.NewPCG(1, 1))
	for w.table.Stats().Loads == 0 && len(w.stores) > 0 {
		w.answer(r, func(Action) bool { return false })
	}
	if len(w.loads) != 1 || w.loads[0].Page != old || w.region[next] < 0 {
		t.Errorf("a buffer is free: %d loads are in flight, and the second page is there: %v; expected the load of page %d, and the second",
			len(w.loads), w.region[next] >= 0, old)
	}
}

// Pages that no thread awaits yet take no room from a thread that waits.
func TestNoPageComesAheadOfAFaultThatWaits(t *testing.T) {
	const pages, old = 400, 399
	w := newWorld(t, Config{Pages: pages, Limit: MinLimit, Ahead: -1})
	w.table.pages[old].stored = true
	next := 0
	for ; w.table.buffers() > 0; next++ {
		w.table.Fault(w.now, next, true)
		w.perform()
	}
	if w.table.room == 0 {
		t.Fatal("there is no room; expected some: the fault below waits for a buffer alone")
	}
	w.table.Fault(w.now, old, false)
	w.table.faults.window = 8
	w.table.faults.runs[0] = run{from: next - 2, next: next, faults: inOrder}
	before := w.table.Stats().Ahead
	w.table.lookAhead(next-1, true)
	w.perform()
	if s := w.table.Stats(); s.Waiting != 1 || s.Ahead != before {
		t.Errorf("%d pages came ahead while %d faults wait; expected none and one", s.Ahead-before, s.Waiting)
	}
}
