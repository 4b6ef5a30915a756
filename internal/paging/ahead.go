package paging

// ahead detects sequential faults.
type ahead struct {
	window int
	runs   [8]run
	turn   int
	last   *run // the run that note found last
}

// run is a sequence of sequential faults.
type run struct {
	from, next int // the last fault, and the first page that was not requested then
	faults     int // so far
}

// inOrder is the number of sequential faults after which pages are loaded ahead.
const inOrder = 3

// note records a fault. It returns the pages from first to before end to load ahead of the
// fault's run. They are half a window or more, because loading many pages costs hardly more
// than loading one.
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

// lookAhead loads pages ahead of a sequential fault if there is room. It does not wait for room.
// The pages are as writable as the page of the fault: a program that writes its memory
// sequentially has one fault for many pages, and a few unneeded pages are stored at its end.
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
			t.faults.last.next = m // the next fault requests the rest
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

// allowAhead makes pages writable ahead of a sequential fault on a protected page.
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
