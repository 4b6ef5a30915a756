package sweep

import (
	"fmt"
	"time"

	"github.com/weftnet/weft/internal/vni"
)

// outcome is how an operation ended.
type outcome uint8

const (
	pending   outcome = iota
	succeeded         // a Send: its buffer may be reused; a SendDelivered: the destination's NIC has accepted it
	cancelled         // by its own deadline
	failed
	undecided // a multicast that failed for another receiver: what became of this one's message is not known
)

// message is one message that a life sent.
type message struct {
	id        uint64
	from      *life
	to        string
	number    int // of the messages from this life to this name, in the order of their posting
	tag       uint64
	size      int
	accept    bool   // SendDelivered
	unordered bool   // it is not known when it was posted
	unplaced  bool   // its place among those that its receiver has taken is not known
	session   uint32 // in which it was posted; prefix.go
	posted    time.Duration
	ended     time.Duration
	outcome   outcome
	err       error

	deliveries int
	taker      *life
	by         receive
}

func (m *message) String() string {
	return fmt.Sprintf("message %d (number %d of %s to %s, tag %d, %d B, posted at %v)", m.id, m.number, m.from.name, m.to, m.tag, m.size, m.posted)
}

// receive is what a receive asked for, and its place among the receives that its process posted.
type receive struct {
	number int
	from   string // "": of any process
	tag    uint64
	anyTag bool
	posted time.Duration

	unordered bool // it is not known when it was posted
}

func (r *receive) String() string {
	from, tag := r.from, "any tag"
	if from == "" {
		from = "anyone"
	}
	if !r.anyTag {
		tag = fmt.Sprintf("tag %d", r.tag)
	}
	return fmt.Sprintf("receive %d from %s with %s, posted at %v", r.number, from, tag, r.posted)
}

func (r *receive) fits(m *message) bool {
	return (r.from == "" || r.from == m.from.name) && (r.anyTag || r.tag == m.tag)
}

// copyID is what a message is known by: those of one multicast have the same id, since they have the same bytes.
type copyID struct {
	id uint64
	to string
}

// ledger knows of every message what has become of it, and holds that against the promises of Weft:
//
//   - delivered never more than once, with the bytes, tag and source with which it was sent, to the name it was sent to;
//   - reported delivered: delivered, if the receiver lived to take it;
//   - sent without error: delivered, if the receiver lived to take it, unless the sender was told that the peer was lost,
//     and with it at least so many messages;
//   - failed: only where something has happened that explains it;
//   - of two messages from one process to another that two receives could both have taken, the earlier message went to
//     the earlier receive;
//   - of messages from one process to another within one session of their NICs, none is missing before one that came, unless
//     its sending failed; and none comes before the event that tells of the end of the session before.
type ledger struct {
	messages   map[copyID]*message
	order      []*message
	sent       map[uint64]*message // the first of each id
	nextID     uint64
	violations []string

	newsTake time.Duration // until a session has brought them, or has ended

	session  func(from *life, to string) uint32 // the present one
	trusting bool                               // the link is reliable: NICs keep no account of single frames that they have handed to it
	frame    int                                // bytes that a frame has at most: what is longer takes several

	unended int // messages posted and not ended
	bytes   uint64
}

func newLedger() *ledger {
	return &ledger{messages: map[copyID]*message{}, sent: map[uint64]*message{}, nextID: 1}
}

// violate notes a broken promise.
func (l *ledger) violate(format string, args ...any) {
	l.violations = append(l.violations, fmt.Sprintf(format, args...))
}

// prepare makes the entry of a message that will be posted. Messages too short to carry their id have it in their tag.
func (l *ledger) prepare(from *life, to string, tag uint64, size int, accept bool) *message {
	m := &message{id: l.nextID, from: from, to: to, tag: tag, size: size, accept: accept}
	l.nextID++
	if size < idBytes {
		m.tag = uniqueTag | m.id
	}
	return m
}

// uniqueTag marks tags that carry a message's id.
const uniqueTag uint64 = vni.TagMask ^ vni.TagMask>>1

// post notes that a message has been posted, as the next of its source to its destination.
func (l *ledger) post(m *message, now time.Duration) {
	m.posted = now
	m.number = m.from.sent[m.to]
	m.from.sent[m.to]++
	if l.session != nil {
		m.session = l.session(m.from, m.to)
	}
	l.messages[copyID{m.id, m.to}] = m
	if l.sent[m.id] == nil {
		l.sent[m.id] = m
	}
	l.order = append(l.order, m)
	l.unended++
	l.bytes += uint64(m.size)
}

// end notes how the sending of a message ended.
func (l *ledger) end(m *message, now time.Duration, o outcome, err error) {
	if m.outcome != pending {
		l.violate("%v ended twice", m)
		return
	}
	m.outcome, m.ended, m.err = o, now, err
	l.leaves(m)
	if !m.from.ended { // else it was taken off when the sender ended
		l.unended--
	}
}

// arrival is a receive that completed.
type arrival struct {
	from string
	tag  uint64
	full uint64 // bytes of the message
	got  []byte // what is in the buffer
	room int    // bytes of the buffer
	lost bool   // sessions may have ended, and with one the word of which name is behind an address
}

// id is the id of the message that has come, if it can be told.
func (a *arrival) id() (id uint64, known bool) {
	if a.tag&uniqueTag != 0 {
		return a.tag &^ uniqueTag, true
	}
	if len(a.got) < idBytes {
		return 0, false
	}
	return readID(a.got), true
}

// find is the message to a process that has come; nil if that cannot be told.
func (l *ledger) find(to *life, a arrival) *message {
	id, _ := a.id()
	return l.messages[copyID{id, to.name}]
}

// nameless is the name of a sender whose NIC was lost before it could tell it.
const nameless = "any"

// deliver notes that a receive of a life has got a message.
func (l *ledger) deliver(to *life, r receive, a arrival) {
	id, known := a.id()
	if !known {
		if a.room < idBytes && a.full >= idBytes {
			return // cut so short by its receiver that it cannot be told which it was
		}
		l.violate("%s got %d bytes with tag %d from %s, which no process sends", to.name, len(a.got), a.tag, a.from)
		return
	}
	m := l.messages[copyID{id, to.name}]
	if m == nil {
		m = l.sent[id] // which was sent to others
	}
	if m == nil {
		l.violate("%s got a message of %d B with tag %d from %s that was never sent", to.name, a.full, a.tag, a.from)
		return
	}
	m.deliveries++
	switch {
	case m.deliveries > 1:
		l.violate("%v was delivered to %s (receive %d) and again to %s (receive %d)", m, m.taker.name, m.by.number, to.name, r.number)
	case m.to != to.name:
		l.violate("%v was delivered to %s", m, to.name)
	case m.from.name != a.from && !(a.from == nameless && a.lost):
		l.violate("%v came as one from %s", m, a.from)
	case m.tag != a.tag || !r.fits(m):
		l.violate("%v with tag %d was delivered to a receive that wants another: %+v", m, a.tag, r)
	case a.full != uint64(m.size) || len(a.got) != min(m.size, a.room) && !to.cutBack(m, len(a.got)):
		l.violate("%v came with %d of %d bytes into %d", m, len(a.got), a.full, a.room)
	default:
		if err := compare(m.id, m.size, a.got); err != nil {
			l.violate("%v is damaged: %v", m, err)
		}
	}
	m.taker, m.by = to, r
	m.unplaced = m.unordered || r.unordered || to.mayHavePutBack(m, nil)
	l.hears(to, m)
}
