package paging

// ahead finds faults that come in order.
type ahead struct {
	window int
	runs   [8]run
	turn   int
}

// run is faults in order.
type run struct {
	from, next int // the last fault, and the first page that was not asked for then
	faults     int // so far
}

// inOrder is the fault of a run from which on pages are loaded ahead of it.
const inOrder = 3

// note takes notice of a fault. It returns the pages from first to before end to load ahead of the run that it belongs to.
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
		r.from = n
		first = max(r.next, n+1)
		r.next = n + 1
		if r.faults >= inOrder {
			end = n + 1 + a.window
			r.next = max(first, end)
		}
		return first, end
	}
	a.runs[a.turn] = run{from: n, next: n + 1, faults: 1}
	a.turn = (a.turn + 1) % len(a.runs)
	return 0, 0
}

// lookAhead loads pages ahead of a fault, if it comes in order behind others and there is room: they wait for none.
func (t *Table) lookAhead(n int) {
	first, end := t.ahead.note(n)
	for m := first; m < min(end, len(t.pages)) && len(t.line) == 0; m++ {
		p := &t.pages[m]
		if p.state != absent || !p.stored {
			continue
		}
		if !t.makeRoom(1) {
			break
		}
		t.stats.Ahead++
		t.load(m)
	}
	t.startStores()
}
