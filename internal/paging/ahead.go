package paging

// ahead finds faults that come in order.
type ahead struct {
	window int
	runs   [8]run
	turn   int
	last   *run // that note has found last
}

// run is faults in order.
type run struct {
	from, next int // the last fault, and the first page that was not asked for then
	faults     int // so far
}

// inOrder is the fault of a run from which on pages are loaded ahead of it.
const inOrder = 3

// note takes notice of a fault. It returns the pages from first to before end to load ahead of the run
// that it belongs to. They are half a window or more, because many pages come for hardly more than
// one page does.
func (a *ahead) note(n int) (first, end int) {
	if a.window <= 0 {
		return 0, 0
	}
	for i := range a.runs {
		r := &a.runs[i]
		if r.faults == 0 || n <= r.from || n > r.next {
			continue
		}
		r.faults++
		r.from, a.last = n, r
		first = max(r.next, n+1)
		if r.next = first; r.faults >= inOrder && first-n <= a.window/2 {
			end = n + 1 + a.window
			r.next = end
		}
		return first, end
	}
	a.runs[a.turn] = run{from: n, next: n + 1, faults: 1}
	a.turn = (a.turn + 1) % len(a.runs)
	return 0, 0
}

// lookAhead has pages come ahead of a fault, if it comes in order behind others and there is room: they wait for none. They come as the fault's
// own page does: a program that writes its memory in order has one fault for many pages, and a few too many are stored at its end.
func (t *Table) lookAhead(n int, write bool) {
	first, end := t.faults.note(n)
	for m := first; m < min(end, len(t.pages)) && len(t.line) == 0; m++ {
		p := &t.pages[m]
		if p.state != absent {
			continue
		}
		buffers := 0
		if p.stored {
			buffers = 1
		}
		if !t.makeRoom(buffers) {
			t.faults.last.next = m // the next fault asks for the rest
			break
		}
		t.stats.Ahead++
		p.writes = write
		if p.stored {
			t.load(m)
			continue
		}
		t.room--
		t.enter(m, Zero)
	}
	t.startStores()
}

// allowAhead lets pages be written ahead of a fault on a protected one, if it comes in order behind others.
func (t *Table) allowAhead(n int) {
	_, end := t.writes.note(n)
	for m := n + 1; m < min(end, len(t.pages)); m++ {
		switch p := &t.pages[m]; p.state {
		case clean:
			p.state = dirty
			t.act(Action{Kind: Allow, Page: m})
		case coming:
			p.writes = true
		}
	}
}
