package paging

// serve has a page come that is wanted and is absent or buffered. It reports whether there was room for it.
func (t *Table) serve(n int) bool {
	p := &t.pages[n]
	switch {
	case p.state == kept: // its own buffer is not one of those that make room
		t.kept.remove(int32(n))
		if !t.makeRoom(0) {
			t.kept.push(int32(n))
			return false
		}
	case p.state == leaving:
		if !t.makeRoom(0) {
			return false
		}
		if p.sending == none {
			t.leave.remove(int32(n))
		}
	case p.stored:
		if !t.makeRoom(1) {
			return false
		}
		t.load(n)
		return true
	default:
		if !t.makeRoom(0) {
			return false
		}
		t.room--
		t.enter(n, Zero)
		return true
	}
	t.stats.Back++
	t.room--
	t.enter(n, Fill)
	return true
}

// load asks the device for a page. There is room for it, and a buffer.
func (t *Table) load(n int) {
	p := &t.pages[n]
	t.room--
	p.state, p.buf = coming, t.buffer()
	t.stats.Loads++
	t.act(Action{Kind: Load, Page: n, Buf: p.buf})
}

// enter puts a page into the region. Its room is taken.
func (t *Table) enter(n int, how Kind) {
	p := &t.pages[n]
	// What is on its way to the device, or should be, may not be there yet: the page is not clean, whatever the fault is.
	a := Action{Kind: how, Page: n, Buf: p.buf, Writable: p.writes || p.state == leaving}
	p.state = clean
	if a.Writable {
		p.state = dirty
	}
	p.wanted, p.writes = false, false
	t.mapped.push(int32(n))
	t.act(a)
	t.release(p)
}

// lose gives up a page that is wanted.
func (t *Table) lose(n int) {
	p := &t.pages[n]
	switch {
	case p.state == kept:
		t.kept.remove(int32(n))
	case p.state == leaving && p.sending == none:
		t.leave.remove(int32(n))
	}
	p.state, p.wanted, p.writes = lost, false, false
	t.release(p)
	t.stats.Lost++
	t.act(Action{Kind: Poison, Page: n})
}

// makeRoom has room for a page in the region, and so many buffers beside, or changes nothing.
func (t *Table) makeRoom(buffers int) bool {
	if t.room > 0 {
		return t.buffers() >= buffers
	}
	oldest := t.mapped.first
	if oldest == none {
		return false // all that is in the region is still coming
	}
	need := buffers
	if !t.droppable(oldest) {
		need++
	}
	if t.buffers() < need {
		return false
	}
	for i := 0; i < takeAtOnce && t.mapped.first != none && (i == 0 || t.buffers() > buffers); i++ {
		t.take(t.mapped.first)
	}
	return true
}

// droppable reports whether nothing is lost with a page of the region: it is zeros.
func (t *Table) droppable(n int32) bool { return t.pages[n].state == clean && !t.pages[n].stored }

// take takes a page out of the region. There is a buffer for it.
func (t *Table) take(n int32) {
	p := &t.pages[n]
	a := Action{Kind: Take, Page: int(n), Buf: none, Writable: p.state == dirty}
	t.mapped.remove(n)
	t.room++
	if p.state == clean {
		t.stats.Clean++
	}
	if t.droppable(n) {
		p.state = absent
		t.act(a)
		return
	}
	a.Buf = t.buffer()
	p.buf = a.Buf
	switch {
	case p.state == clean:
		p.state = kept
		t.kept.push(n)
	default:
		p.state = leaving
		if p.sending == none { // else it begins when the store of what the page had before ends
			t.leave.push(n)
		}
	}
	t.act(a)
}

// startStores begins stores, as many as may be under way.
func (t *Table) startStores() {
	for t.stores < t.cfg.Stores && t.leave.first != none {
		n := t.leave.first
		t.leave.remove(n)
		p := &t.pages[n]
		p.sending = p.buf
		t.stores++
		t.stats.Stores++
		t.act(Action{Kind: Store, Page: int(n), Buf: p.buf})
	}
}

// buffers is how many are free, or are so for the asking.
func (t *Table) buffers() int { return len(t.free) + t.kept.len }

// buffer takes a buffer: a free one, or that of the page that has been buffered longest. There is one.
func (t *Table) buffer() int32 {
	if len(t.free) == 0 {
		n := t.kept.first
		t.kept.remove(n)
		p := &t.pages[n]
		p.state = absent
		t.release(p)
	}
	b := t.free[len(t.free)-1]
	t.free = t.free[:len(t.free)-1]
	return b
}

// release gives up the buffer of a page. One that is being stored is free when that ends.
func (t *Table) release(p *page) {
	if p.buf != none && p.buf != p.sending {
		t.free = append(t.free, p.buf)
	}
	p.buf = none
}
