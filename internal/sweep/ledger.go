package sweep

import (
	"fmt"
	"time"

	"github.com/weftnet/weft/internal/vni"
)

// outcome is the way in which an operation ended.
type outcome uint8

const (
	pending outcome = iota
	// A Send succeeded if its buffer may be reused, and a SendDelivered if the destination's NIC
	// has accepted the message.
	succeeded
	cancelled // by its own deadline
	failed
	// A multicast failed for another receiver. The outcome of this receiver's message is not
	// known.
	undecided
)

// message is one message that a life sent.
type message struct {
	id   uint64
	from *life
	to   string
	// Number among the messages from this life to this name, in the order of posting.
	number    int
	tag       uint64
	size      int
	accept    bool   // SendDelivered
	unordered bool   // the time of its posting is not known
	unplaced  bool   // its place among the messages that its receiver took is not known
	session   uint32 // the session in which it was posted; see prefix.go
	posted    time.Duration
	ended     time.Duration
	outcome   outcome
	err       error

	deliveries int
	taker      *life
	by         receive
}

func (m *message) String() string {
	return fmt.Sprintf("message %d (number %d of %s to %s, tag %d, %d B, posted at %v)", m.id, m.number, m.from.name,
		m.to, m.tag, m.size, m.posted)
}

// receive holds the criteria of a receive, and its place among the receives that its process
// posted.
type receive struct {
	number int
	from   string // "": any process
	tag    uint64
	anyTag bool
	posted time.Duration

	unordered bool // the time of its posting is not known
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

// copyID identifies a message. The messages of one multicast have the same id, because they have
// the same bytes.
type copyID struct {
	id uint64
	to string
}

// ledger records the fate of every message, and checks it against the promises of Weft:
//
//   - No message is delivered more than once. It arrives with the bytes, tag and source with
//     which it was sent, at the name to which it was sent.
//   - A message that is reported delivered is delivered, if the receiver lived to take it.
//   - A message that is sent without error is delivered, if the receiver lived to take it. The
//     exception is a sender that was told of the loss of the peer, and of at least that many lost
//     messages.
//   - A send fails only if an event of the run explains the failure.
//   - If two receives could both have taken either of two messages from one process to another,
//     the earlier message went to the earlier receive.
//   - Within one session of two NICs, no message from one process to another is missing before
//     one that arrived, unless its send failed. No message arrives before the event that reports
//     the end of the previous session.
type ledger struct {
	messages   map[copyID]*message
	order      []*message
	sent       map[uint64]*message // the first message of each id
	nextID     uint64
	violations []string

	newsTake time.Duration // time until a session has delivered them, or has ended

	session func(from *life, to string) uint32 // the present session
	// The link is reliable, so NICs keep no account of single frames that they have passed to it.
	trusting bool
	// Maximum number of bytes in a frame. A longer message takes several frames.
	frame int

	unended int // messages that are posted but not ended
	bytes   uint64
}

func newLedger() *ledger {
	return &ledger{messages: map[copyID]*message{}, sent: map[uint64]*message{}, nextID: 1}
}

// violate records a violation.
func (l *ledger) violate(format string, args ...any) {
	l.violations = append(l.violations, fmt.Sprintf(format, args...))
}

// prepare makes the entry of a message that will be posted. A message that is too short for its
// id carries the id in its tag.
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

// post notes that a message has been posted. It is the next message from its source to its
// destination.
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

// end notes the end of a send.
func (l *ledger) end(m *message, now time.Duration, o outcome, err error) {
	if m.outcome != pending {
		l.violate("%v ended twice", m)
		return
	}
	m.outcome, m.ended, m.err = o, now, err
	l.leaves(m)
	if !m.from.ended { // otherwise it was subtracted when the sender ended
		l.unended--
	}
}

// arrival is a receive that has completed.
type arrival struct {
	from string
	tag  uint64
	full uint64 // bytes of the message
	got  []byte // the contents of the buffer
	room int    // bytes of the buffer
	// Sessions may have ended, and the name behind an address may be lost with one of them.
	lost bool
}

// id returns the id of the message that has arrived. known is false if the id cannot be
// determined.
func (a *arrival) id() (id uint64, known bool) {
	if a.tag&uniqueTag != 0 {
		return a.tag &^ uniqueTag, true
	}
	if len(a.got) < idBytes {
		return 0, false
	}
	return readID(a.got), true
}

// find returns the message to a process that has arrived, or nil if it cannot be determined.
func (l *ledger) find(to *life, a arrival) *message {
	id, _ := a.id()
	return l.messages[copyID{id, to.name}]
}

// nameless is the name of a sender whose NIC was lost before it could report the name.
const nameless = "any"

// deliver notes that a receive of a life has got a message.
func (l *ledger) deliver(to *life, r receive, a arrival) {
	id, known := a.id()
	if !known {
		if a.room < idBytes && a.full >= idBytes {
			return // the receiver cut it too short to identify it
		}
		l.violate("%s got %d bytes with tag %d from %s, which no process sends", to.name, len(a.got), a.tag, a.from)
		return
	}
	m := l.messages[copyID{id, to.name}]
	if m == nil {
		m = l.sent[id] // the message was sent to others
	}
	if m == nil {
		l.violate("%s got a message of %d B with tag %d from %s that was never sent", to.name, a.full, a.tag, a.from)
		return
	}
	m.deliveries++
	switch {
	case m.deliveries > 1:
		l.violate("%v was delivered to %s (receive %d) and again to %s (receive %d)", m, m.taker.name, m.by.number,
			to.name, r.number)
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
