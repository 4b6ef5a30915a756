package stream

import (
	"errors"

	"github.com/weftnet/weft"
)

// Beside data a process owes each of its peers messages: answers, room, ends. Those to one peer leave in order; several are under way at a time, for
// one to a NIC that is silent is long on its way. A peer that is silent holds up no other:
//
//	owing, strays ──► serve ──► lane of a peer ──► NIC        while few are under way
//	                               └──► goroutine ──► NIC     else, until nothing waits there
//
// What fails, fails: a state that comes later tells all of it, and a peer that is not reached ends the stream by its silence.

const (
	mostUnderWay = 16 // messages of a lane
	keptLanes    = 64 // without a look at which are idle
)

// lane is what a process owes one peer. Whatever sends has under and the message: serve, or a goroutine of its own while held is set.
type lane struct {
	h     *host
	to    weft.Name
	under []*weft.Op

	has  bool // the message has not begun, since too many operations are under way in the process
	tag  weft.Tag
	body []byte
	of   *Conn // nil: of no stream here

	waits []owed // under host.owed
	held  bool   // likewise
}

// owed is a stream that owes its peer something, or a stray.
type owed struct {
	c *Conn
	s stray
}

func (o *owed) to() weft.Name {
	if o.c != nil {
		return o.c.remote.Process
	}
	return o.s.to
}

// lanes are those of a process, by their peers.
type lanes struct {
	h     *host
	of    map[weft.Name]*lane
	sweep int // how many there are when the idle ones go
}

// serve sends what is owed.
func (h *host) serve() {
	ls := lanes{h: h, of: map[weft.Name]*lane{}, sweep: keptLanes}
	for h.owes.Wait(h.ctx) == nil {
		h.owed.Lock()
		owing, strays := h.owing, h.strays
		h.owing, h.strays = nil, nil
		h.owed.Unlock()
		for _, c := range owing { // before the strays: an end, before what came behind it is refused
			ls.put(owed{c: c})
		}
		for _, s := range strays {
			ls.put(owed{s: s})
		}
	}
}

// put has something sent behind what waits in its lane.
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

// lane is the lane of a peer.
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

// drop lets go of idle lanes.
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

// ended drops the operations that have ended, and returns how many are left.
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

// send begins what waits, and reports whether all of it has begun.
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

// begun notes that the message has, as o; nil: the NIC has it, or it has failed.
func (l *lane) begun(o *weft.Op) {
	l.has = false
	if l.of != nil {
		l.of.announced(o)
	}
}

// hold sends what waits as soon as what is under way has ended.
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

// release leaves the lane to serve, if nothing waits.
func (l *lane) release() bool {
	l.h.owed.Lock()
	defer l.h.owed.Unlock()
	l.held = len(l.waits) > 0
	return !l.held
}

func (l *lane) empty() bool {
	l.h.owed.Lock()
	defer l.h.owed.Unlock()
	return len(l.waits) == 0
}

// next takes the first message that waits. It returns false if the first stream owes none any more.
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
