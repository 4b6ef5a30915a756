package vni

import (
	"encoding/binary"
	"fmt"
	"sync/atomic"
)

// A ring is memory into which the NIC writes messages one behind the other, so that a process reads them without a command and
// without a completion for each. One ReceiveRing command posts it (an Inbox).
//
//	        consumed (the process)            produced (the NIC)
//	            ▼                                  ▼
//	│ free      │ sender │ message │ run │ message │          free        │
//	                  a record: header, bytes, padding to 16 bytes
//
//	process                                       NIC
//	Next: reads what lies before produced  ◄───── Place, Advance: records; PublishTo: produced, after the bytes
//	      a quarter read: publishes consumed ───► look: only when the room that it knows of is spent
//	Stalls changed? posts a Refill         ◄───── Stall: counts it, then looks at consumed for the last time
//
// Both words count bytes, and go on from ring to ring of a context. produced and stalls are in ro, so the process may believe them.
// consumed is the process's: the NIC loads it once, and one that lies outside of what was produced is an impossible state. Of what
// is in the ring itself the NIC reads only messages that it takes back, and the lengths of a run of them; where these are and what they are it has noted for itself.
//
// Stall follows Dekker's pattern: the NIC counts a stall and then reads consumed, the process writes consumed and then reads the
// count. So a ring without room is never left to lie.
//
// When the receive has ended, its context may be another's, and so may these words. Freeze comes before that: it takes produced for the last
// time. The reader loads produced and looks afterwards whether it is frozen, so it believes no word of another's; and it publishes by a
// compare-and-swap from what it published last, which another's consumed has passed, unless nothing is left to publish.
const (
	ringHeader = 16
	ringFull   = 32 // header of a message with its full length
	ringSender = 64
	ringUnit   = 16
)

// Kinds of records, in bits 29 to 31 of the first word. Its lower bits are a length, its upper half a token or a count.
//
//	 0  length, kind  4
//	 4  token, count  4
//	 8  tag           8
//	16  full length   8   of a ringWhole
//	    bytes             of a run: lengths of 2 bytes each, then the messages
const (
	ringMessage = iota // all of it, as long as it says
	ringWhole          // with the length that it has, or had: more may have been sent than there was room for
	ringRun            // many, from one process with one tag
	ringSource         // whose the next messages are: application 24, index 4, gen 4, NIC 8, slot 4
	ringSkip           // the next record is at the start
	ringVoid           // nothing: a message had this place that has not come
)

const ringLength = 1<<29 - 1

// MaxRingMessage is the longest message that a ring takes.
const MaxRingMessage = 1 << 28

// RingSize is how many bytes a ring must have that takes messages of most bytes: one finds room in an empty ring wherever it begins.
func RingSize(most int) int { return 2 * (ringSender + align(ringFull+most, ringUnit)) }

// RingNeeds is the room that a message of n bytes takes in a ring; fresh: its sender is another than the last one's, full: it has its
// full length beside it.
func RingNeeds(n int, fresh, full bool) int {
	n += ringHeader
	if full {
		n += ringFull - ringHeader
	}
	return RingAlign(n) + sourceNeeds(fresh)
}

// RingRunNeeds is the room that a run takes whose lengths and messages have n bytes.
func RingRunNeeds(n int, fresh bool) int { return RingAlign(ringHeader+n) + sourceNeeds(fresh) }

// RingAlign is the length of a record of n bytes.
func RingAlign(n int) int { return (n + ringUnit - 1) &^ (ringUnit - 1) }

func sourceNeeds(fresh bool) int {
	if fresh {
		return ringSender
	}
	return 0
}

// RingWriter is the NIC's half of a ring.
type RingWriter struct {
	mem       []byte
	at        int    // in mem: where the next record begins,
	pos       uint64 // and as produced counts
	read      uint64 // consumed, as it was last loaded
	told      uint64 // produced, as it was published
	produced  *uint64
	stalls    *uint32
	consumed  *uint64
	partial   *uint32
	believing bool // test hook: consumed is not judged
}

// Ring is the NIC's half of the ring of receive context i, in mem, which is empty.
func (n *NIC) Ring(i int, mem []byte) RingWriter {
	d, r := &n.s.done[receiveList][i], &n.s.receives[i]
	at := d.produced // only the NIC writes it
	return RingWriter{mem: mem, pos: at, read: at, told: at, produced: &d.produced, stalls: &d.stalls, consumed: &r.consumed, partial: &r.partial}
}

// Believe is a test hook: consumed is taken as it is.
func (w *RingWriter) Believe() { w.believing = true }

// Position counts the bytes that were written, and Read those that the process has done with.
func (w *RingWriter) Position() uint64 { return w.pos }

// Read is how far the process has read, as Look found last.
func (w *RingWriter) Read() uint64 { return w.read }

// Fits reports whether a record of n bytes finds room, as far as the writer knows.
func (w *RingWriter) Fits(n int) bool {
	used := w.pos - w.read
	if rest := len(w.mem) - w.at; n > rest {
		n += rest
	}
	return used+uint64(n) <= uint64(len(w.mem))
}

// Room is how many bytes the next record may have.
func (w *RingWriter) Room() int {
	free, rest := len(w.mem)-int(w.pos-w.read), len(w.mem)-w.at
	return max(min(rest, free), free-rest)
}

// Look loads how far the process has read. ErrImpossible: beyond what was published, or back.
func (w *RingWriter) Look() error {
	c := atomic.LoadUint64(w.consumed)
	if c-w.read > w.told-w.read && !w.believing {
		return fmt.Errorf("%w: %d bytes of a ring are read, which has %d", ErrImpossible, int64(c-w.read), w.told-w.read)
	}
	w.read = c
	return nil
}

// Sound reports whether no more is unread than the ring holds.
func (w *RingWriter) Sound() bool { return w.pos-w.read <= uint64(len(w.mem)) }

// AllRead reports whether the process says that it has read all that it was shown. It changes nothing.
func (w *RingWriter) AllRead() bool { return atomic.LoadUint64(w.consumed) == w.told }

// Partial is how many messages of the record at Read the process has had, as it says.
func (w *RingWriter) Partial() uint32 { return atomic.LoadUint32(w.partial) }

// Stall tells the process that there was no room. Look once more afterwards.
func (w *RingWriter) Stall() { atomic.AddUint32(w.stalls, 1) }

// hotRing is how much of a ring is used in a round as long as its reader keeps up: it stays in the caches.
const hotRing = 64 << 10

// Place is the n bytes of the next record, which must fit. Advance follows.
func (w *RingWriter) Place(n int) []byte {
	if rest := len(w.mem) - w.at; n > rest || w.at >= hotRing && w.pos == w.read && n <= w.at {
		if rest > 0 {
			binary.LittleEndian.PutUint64(w.mem[w.at:], ringSkip<<29)
			w.pos += uint64(rest)
		}
		w.at = 0
	}
	return w.mem[w.at : w.at+n : w.at+n]
}

// Advance ends the record of n bytes at Place. PublishTo shows it to the process.
func (w *RingWriter) Advance(n int) {
	w.at += n
	w.pos += uint64(n)
}

// Unpublished is how many bytes the process does not know of.
func (w *RingWriter) Unpublished() int { return int(w.pos - w.told) }

// PublishTo shows the process the records that end at a position or before, and reports whether it had not seen them all.
func (w *RingWriter) PublishTo(pos uint64) bool {
	if pos == w.told {
		return false
	}
	w.told = pos
	atomic.StoreUint64(w.produced, pos)
	return true
}

// Memory is all of the ring.
func (w *RingWriter) Memory() []byte { return w.mem }

// Bytes is a piece of the ring.
func (w *RingWriter) Bytes(at, n int) []byte { return w.mem[at : at+n : at+n] }

// Offset is where in the ring a piece of it begins that Place has returned.
func (w *RingWriter) Offset() int { return w.at }

// PutRingSource writes whose the messages behind it are, and returns what is left of b.
func PutRingSource(b []byte, s *Sender) []byte {
	le := binary.LittleEndian
	le.PutUint64(b, ringSource<<29)
	copy(b[16:40], s.Name.App[:])
	le.PutUint32(b[40:], s.Name.Index)
	le.PutUint32(b[44:], s.Gen)
	le.PutUint64(b[48:], s.NIC)
	le.PutUint32(b[56:], uint32(s.Slot))
	return b[ringSender:]
}

// PutRingMessage writes the header of a message of n bytes, whose place it returns.
func PutRingMessage(b []byte, tag uint64, token uint32, n int) []byte {
	binary.LittleEndian.PutUint64(b, uint64(n)|ringMessage<<29|uint64(token)<<32)
	binary.LittleEndian.PutUint64(b[8:], tag)
	return b[ringHeader : ringHeader+n]
}

// PutRingWhole is PutRingMessage of one of full bytes of which there are n.
func PutRingWhole(b []byte, tag uint64, token uint32, n int, full uint64) []byte {
	binary.LittleEndian.PutUint64(b, uint64(n)|ringWhole<<29|uint64(token)<<32)
	binary.LittleEndian.PutUint64(b[8:], tag)
	binary.LittleEndian.PutUint64(b[16:], full)
	return b[ringFull : ringFull+n]
}

// PutRingLess is PutRingWhole in b, which is all of a record, of a message of which less has come than there was room for. It returns how much
// shorter the record is now.
func PutRingLess(b []byte, tag uint64, token uint32, n int, full uint64) (less int) {
	PutRingWhole(b, tag, token, n, full)
	if less = len(b) - RingAlign(ringFull+n); less > 0 {
		PutRingVoid(b[len(b)-less:])
	}
	return less
}

// PutRingVoid makes b a record of nothing. Its length is a multiple of that of the shortest.
func PutRingVoid(b []byte) { binary.LittleEndian.PutUint64(b, uint64(len(b))|ringVoid<<29) }

// PutRingRun writes the header of a run of messages, and returns the n bytes of lengths and messages behind it.
func PutRingRun(b []byte, tag uint64, messages, n int) []byte {
	binary.LittleEndian.PutUint64(b, uint64(n)|ringRun<<29|uint64(messages)<<32)
	binary.LittleEndian.PutUint64(b[8:], tag)
	return b[ringHeader : ringHeader+n]
}

// RingReader is the process's half of a ring. One goroutine at a time uses it; Ready any may ask.
type RingReader struct {
	// Of the message that Next has returned:
	Tag   uint64
	Full  uint64 // bytes of it, if it may have been cut short; else 0
	Token uint32
	Other bool   // From has been written since this was last cleared
	From  Sender // whose it is

	mem      []byte
	at       int           // in mem: of the record that is read,
	pos      uint64        // and as consumed counts
	step     int           // to the next record; 0: no message of this one was returned
	left     int           // messages of a run that were not returned
	count    int           // of its messages
	lengthAt int           // in mem: of the next one's length,
	dataAt   int           // and bytes
	upTo     uint64        // produced, as last loaded
	told     uint64        // consumed, as published
	shown    atomic.Uint64 // produced, when Next has found no message
	produced *uint64
	stalls   *uint32
	consumed *uint64
	partial  *uint32
	answered uint32 // stalls that were
	last     uint64 // produced, once frozen
	frozen   atomic.Bool
}

// Open makes r the reader of the ring in mem that the next ReceiveRing of context i posts. The context is the caller's and not posted.
func (r *RingReader) Open(p *Process, i int, mem []byte) {
	d, c := &p.s.done[receiveList][i], &p.s.receives[i]
	at := atomic.LoadUint64(&d.produced)
	atomic.StoreUint64(&c.consumed, at)
	atomic.StoreUint32(&c.partial, 0)
	r.mem, r.at, r.pos, r.step, r.left, r.count, r.upTo, r.told = mem, 0, at, 0, 0, 0, at, at
	r.shown.Store(at)
	r.produced, r.stalls, r.consumed, r.partial = &d.produced, &d.stalls, &c.consumed, &c.partial
	r.answered = atomic.LoadUint32(r.stalls)
	r.frozen.Store(false)
}

// Freeze is called when the ring's receive has ended, before its context may be another's. What is in the ring stays to be read, and nothing
// is added. Any goroutine may call it.
func (r *RingReader) Freeze() {
	r.last = atomic.LoadUint64(r.produced)
	r.frozen.Store(true)
}

// written is produced.
func (r *RingReader) written() uint64 {
	to := atomic.LoadUint64(r.produced)
	if r.frozen.Load() { // to may be another's
		return r.last
	}
	return to
}

// Ready reports whether there is a message that Next, when it last found none, had not seen.
func (r *RingReader) Ready() bool { return r.written() != r.shown.Load() }

// Next is the next message, if there is one. Its bytes stay until the call after.
func (r *RingReader) Next() (data []byte, ok bool) {
	if r.left == 0 {
		if data, ok = r.record(); !ok || r.left == 0 {
			return data, ok
		}
	}
	n := int(binary.LittleEndian.Uint16(r.mem[r.lengthAt:]))
	at := r.dataAt
	r.left--
	r.lengthAt += 2
	r.dataAt += n
	return r.mem[at : at+n : at+n], true
}

// record goes on to the next record that has a message.
func (r *RingReader) record() (data []byte, ok bool) {
	r.forward(r.step)
	r.step = 0
	if r.pos-r.told >= uint64(len(r.mem)/4) {
		r.publish()
	}
	for {
		if r.pos == r.upTo {
			if r.upTo = r.written(); r.pos == r.upTo {
				r.shown.Store(r.pos)
				if r.pos != r.told {
					r.publish()
				}
				return nil, false
			}
		}
		b := r.mem[r.at:]
		word := binary.LittleEndian.Uint64(b)
		n := int(word & ringLength)
		switch word >> 29 & 7 {
		case ringMessage:
			r.Tag, r.Token, r.Full = binary.LittleEndian.Uint64(b[8:]), uint32(word>>32), 0
			r.step = RingAlign(ringHeader + n)
			return b[ringHeader : ringHeader+n : ringHeader+n], true
		case ringWhole:
			r.Tag, r.Token, r.Full = binary.LittleEndian.Uint64(b[8:]), uint32(word>>32), binary.LittleEndian.Uint64(b[16:])
			r.step = RingAlign(ringFull + n)
			return b[ringFull : ringFull+n : ringFull+n], true
		case ringRun:
			r.Tag, r.Token, r.Full = binary.LittleEndian.Uint64(b[8:]), 0, 0
			r.count = int(word >> 32)
			r.left, r.lengthAt, r.dataAt = r.count, r.at+ringHeader, r.at+ringHeader+2*r.count
			r.step = RingAlign(ringHeader + n)
			return nil, true
		case ringSource:
			r.source(b)
			r.Other = true
			r.forward(ringSender)
		case ringVoid:
			r.forward(n)
		default: // ringSkip
			r.forward(len(r.mem) - r.at)
		}
	}
}

func (r *RingReader) source(b []byte) {
	le := binary.LittleEndian
	copy(r.From.Name.App[:], b[16:40])
	r.From.Name.Index, r.From.Gen = le.Uint32(b[40:]), le.Uint32(b[44:])
	r.From.NIC, r.From.Slot = le.Uint64(b[48:]), uint16(le.Uint32(b[56:]))
}

func (r *RingReader) forward(n int) {
	r.pos += uint64(n)
	if r.at += n; r.at == len(r.mem) {
		r.at = 0
	}
}

func (r *RingReader) publish() {
	atomic.CompareAndSwapUint64(r.consumed, r.told, r.pos) // else the context is another's
	r.told = r.pos
}

// Produced counts the bytes that were written into rings of receive context i.
func (p *Process) Produced(i int) uint64 {
	return atomic.LoadUint64(&p.s.done[receiveList][i].produced)
}

// SetConsumed says how far a ring of receive context i was read, and how many messages of the record there. A RingReader does that.
func (p *Process) SetConsumed(i int, to uint64, partial uint32) {
	atomic.StoreUint32(&p.s.receives[i].partial, partial)
	atomic.StoreUint64(&p.s.receives[i].consumed, to)
}

// Stalled reports, once for each time, that the NIC has found no room since. A Refill has it look again.
func (r *RingReader) Stalled() bool {
	n := atomic.LoadUint32(r.stalls)
	if n == r.answered {
		return false
	}
	r.answered = n
	return true
}

// Unanswered takes Stalled back: the Refill could not be posted.
func (r *RingReader) Unanswered() { r.answered-- }

// Finish tells the NIC precisely what was read, before the ring's receive is cancelled. It must not be frozen meanwhile.
func (r *RingReader) Finish() {
	if r.left == 0 {
		r.forward(r.step)
		r.step, r.count = 0, 0
	}
	atomic.StoreUint32(r.partial, uint32(r.count-r.left))
	r.publish()
}
