package rel

// changes is a list of endpoints whose counts or state may have changed, in the order in which they
// were marked. An endpoint is on it once at most. So the owner looks only at peers with events.
type changes struct{ head, tail *Endpoint }

// MarkChanged puts e on the list from which NextChanged takes.
func (e *Endpoint) MarkChanged() {
	if !e.changed { // asked for each frame
		e.m.changes.add(e)
	}
}

// add appends an endpoint, except for a stranger: know adds it if its session opens.
func (l *changes) add(e *Endpoint) {
	if !e.known {
		return
	}
	if l.head == nil {
		l.head = e
	} else {
		l.tail.nextChanged = e
	}
	l.tail, e.changed = e, true
}

// remove takes an endpoint off the list, if it is there.
func (l *changes) remove(e *Endpoint) {
	var before *Endpoint
	for at := l.head; at != nil; before, at = at, at.nextChanged {
		if at != e {
			continue
		}
		if before == nil {
			l.head = e.nextChanged
		} else {
			before.nextChanged = e.nextChanged
		}
		if l.tail == e {
			l.tail = before
		}
		e.nextChanged, e.changed = nil, false
		return
	}
}

// AnyChanged reports whether NextChanged would return an endpoint.
func (m *Module) AnyChanged() bool { return m.changes.head != nil }

// NextChanged returns an endpoint whose Stats have changed since NextChanged returned it last, or
// its id, incarnation, address, session, round trips, window or path. It returns nil if there is
// none. It does not return a stranger before its first session opens.
func (m *Module) NextChanged() *Endpoint {
	m.settle()
	e := m.changes.head
	if e != nil {
		m.changes.remove(e)
	}
	return e
}
