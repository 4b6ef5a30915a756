package paging

// serve brings a wanted page that is absent or buffered. It reports whether there was room for
// the page.
func (t *Table) serve(n int) bool {
	p := &t.pages[n]
	switch {
	case p.state == kept: // its own buffer does not count as room
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

// load requests a page from the device. The caller has made room for it, and there is a buffer.
func (t *Table) load(n int) {
	p := &t.pages[n]
	t.room--
	p.state, p.buf = coming, t.buffer()
	t.stats.Loads++
	t.act(Action{Kind: Load, Page: n, Buf: p.buf})
}

// enter puts a page into the region. Its room is already taken.
func (t *Table) enter(n int, how Kind) {
	p := &t.pages[n]
	// The content of a leaving page may not have reached the device yet. So the page is not
	// clean, whatever the fault is.
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

// lose gives up a wanted page.
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

// makeRoom makes room for a page in the region and for the given number of buffers. If it cannot,
// it changes nothing and returns false.
func (t *Table) makeRoom(buffers int) bool {
	if t.room > 0 {
		return t.buffers() >= buffers
	}
	oldest := t.mapped.first
	if oldest == none {
		return false // all pages of the region are still loading
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

// droppable reports whether a page of the region can be dropped without loss because it is zeros.
func (t *Table) droppable(n int32) bool { return t.pages[n].state == clean && !t.pages[n].stored }

// take takes a page out of the region. The caller has made sure that there is a buffer for it.
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
		// Otherwise it begins when the store of the page's previous content ends.
		if p.sending == none {
			t.leave.push(n)
		}
	}
	t.act(a)
}

// startStores begins stores, up to the largest number in flight.
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

// buffers returns the number of buffers that are free or can be freed at once.
func (t *Table) buffers() int { return len(t.free) + t.kept.len }

// buffer takes a free buffer, or the buffer of the page that has been kept longest. The caller
// has made sure that there is one.
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

// release gives up the buffer of a page. If the buffer is being stored, it is free when the store
// ends.
func (t *Table) release(p *page) {
	if p.buf != none && p.buf != p.sending {
		t.free = append(t.free, p.buf)
	}
	p.buf = none
}
