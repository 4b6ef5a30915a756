package stream

import (
	"errors"

	"github.com/weftnet/weft"
)

// Besides data, a process sends its peers answers, windows and ends. The messages to one peer are
// sent in order. Several of them are in flight at once, since a message to a silent NIC takes a
// long time. A silent peer delays no other peer:
//
//	owing, strays ──► serve ──► lane of a peer ──► NIC        while few messages are in flight
//	                               └──► goroutine ──► NIC     otherwise, until the lane is empty
//
// A failed send is ignored: a later state repeats the message, and keepAlive ends a stream to a
// peer that is unreachable.

const (
	mostUnderWay = 16 // messages of a lane in flight
	keptLanes    = 64 // number of lanes at which serve first removes idle ones
)

// lane is the queue of messages to one peer. Only the sender of the lane uses the fields under to
// of. The sender is serve or, while held is set, the lane's own goroutine.
type lane struct {
	h     *host
	to    weft.Name
	under []*weft.Op // in flight

	has  bool // tag and body hold a message that could not be started yet
	tag  weft.Tag
	body []byte
	of   *Conn // the stream of the message; nil for a stray

	waits []owed // under host.owed
	held  bool   // under host.owed
}

// owed is an entry of a lane: a stream that owes its peer messages, or a stray.
type owed struct {
	c *Conn
	s stray
}

// to returns the peer.
func (o *owed) to() weft.Name {
	if o.c != nil {
		return o.c.remote.Process
	}
	return o.s.to
}

// lanes holds the lanes of a process, by their peers.
type lanes struct {
	h     *host
	of    map[weft.Name]*lane
	sweep int // number of lanes at which drop removes idle ones
}

// serve moves owed messages to their lanes and sends them, until the process is closed.
func (h *host) serve() {
	ls := lanes{h: h, of: map[weft.Name]*lane{}, sweep: keptLanes}
	for h.owes.Wait(h.ctx) == nil {
		h.owed.Lock()
		owing, strays := h.owing, h.strays
		h.owing, h.strays = nil, nil
		h.owed.Unlock()
		for _, c := range owing { // first, so that an end leaves before the refusal of later data
			ls.put(owed{c: c})
		}
		for _, s := range strays {
			ls.put(owed{s: s})
		}
	}
}

// put adds an entry to its lane, and sends if the lane has no goroutine.
func (ls *lanes) put(o owed) {
	l := ls.lane(o.to())
	h := ls.h
	h.owed.Lock()
	if o.c != nil || len(l.waits) < mostStrays {
		l.waits = append(l.waits, o)
	}
	held := l.held
	h.owed.Unlock()
	if !held && !l.send() {
		h.owed.Lock()
		l.held, held = true, true
		h.owed.Unlock()
		h.p.Runtime().Go(l.hold)
	}
	if held && o.c != nil {
		o.c.held()
	}
}

// lane returns the lane of a peer.
func (ls *lanes) lane(to weft.Name) *lane {
	l := ls.of[to]
	if l == nil {
		if len(ls.of) >= ls.sweep {
			ls.drop()
		}
		l = &lane{h: ls.h, to: to}
		ls.of[to] = l
	}
	return l
}

// drop removes idle lanes.
func (ls *lanes) drop() {
	ls.h.owed.Lock()
	defer ls.h.owed.Unlock()
	for to, l := range ls.of {
		if !l.held && l.ended() == 0 {
			delete(ls.of, to)
		}
	}
	ls.sweep = max(keptLanes, 2*len(ls.of))
}

// ended removes the operations that have ended, and returns the number of those in flight.
func (l *lane) ended() int {
	left := l.under[:0]
	for _, o := range l.under {
		if _, done, _ := o.Test(); !done {
			left = append(left, o)
		}
	}
	clear(l.under[len(left):])
	l.under = left
	return len(left)
}

// send starts the messages that wait. It reports whether all of them have started.
func (l *lane) send() bool {
	for {
		switch {
		case l.has:
		case l.empty():
			return true
		case l.ended() >= mostUnderWay:
			return false
		case !l.next():
			continue
		}
		o := new(weft.Op)
		err := l.h.port.Peer(l.to).StartSend(o, l.tag, l.body)
		if errors.Is(err, weft.ErrQueueFull) {
			return false
		}
		if err == nil {
			l.under = append(l.under, o)
		}
		l.begun(o)
	}
}

// begun notes that the operation o sends the message. If o is nil, the NIC has the message already,
// or the send failed.
func (l *lane) begun(o *weft.Op) {
	l.has = false
	if l.of != nil {
		l.of.announced(o)
	}
}

// hold is the lane's own goroutine. It sends whenever flights end, until the lane is empty.
func (l *lane) hold() {
	for l.h.ctx.Err() == nil {
		if l.has {
			_ = l.h.port.Send(l.h.ctx, l.to, l.tag, l.body)
			l.begun(nil)
		} else if len(l.under) > 0 {
			_, _ = l.under[0].Wait(l.h.ctx)
		}
		if l.send() && l.release() {
			return
		}
	}
}

// release gives an empty lane back to serve. It reports whether the lane is empty.
func (l *lane) release() bool {
	l.h.owed.Lock()
	defer l.h.owed.Unlock()
	l.held = len(l.waits) > 0
	return !l.held
}

// empty reports whether no entry waits.
func (l *lane) empty() bool {
	l.h.owed.Lock()
	defer l.h.owed.Unlock()
	return len(l.waits) == 0
}

// next takes the first message of the first entry. It removes the entry and returns false if its
// stream owes no message any more.
func (l *lane) next() bool {
	l.h.owed.Lock()
	o := l.waits[0]
	l.h.owed.Unlock()
	l.of = o.c
	if o.c != nil {
		l.tag, l.body, l.has = o.c.due()
	} else {
		l.tag, l.body, l.has = o.s.tag, o.s.body, true
	}
	if o.c == nil || !l.has {
		l.h.owed.Lock()
		if l.waits = l.waits[1:]; len(l.waits) == 0 {
			l.waits = nil
		}
		l.h.owed.Unlock()
	}
	return l.has
}
