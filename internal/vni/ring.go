package vni

import (
	"encoding/binary"
	"fmt"
	"sync/atomic"
)

// A ring is memory into which the NIC writes consecutive messages. A process reads them without a
// command or a completion for each. One ReceiveRing command posts it (an Inbox).
//
//	        consumed (the process)            produced (the NIC)
//	            ▼                                  ▼
//	│ free      │ sender │ message │ run │ message │          free        │
//	                  a record: header, bytes, padding to 16 bytes
//
//	process                                       NIC
//	Next: reads what lies before produced  ◄───── Place, Advance: records; PublishTo: produced
//	      a quarter read: publishes consumed ───► look: only when the known room is spent
//	Stalls changed? posts a Refill         ◄───── Stall: counts it, reads consumed a last time
//
// Both words count bytes, and continue from ring to ring of a context. produced and stalls are in
// ro, so the process may trust them. consumed belongs to the process: the NIC loads it once, and a
// value outside of the produced bytes is an impossible state. In the ring itself the NIC reads
// only messages that it takes back, and the lengths in a run of them. It has its own notes about
// their places and kinds.
//
// Stall follows Dekker's pattern: the NIC counts a stall and then reads consumed; the process
// writes consumed and then reads the count. So a ring without room is never forgotten.
//
// When the receive has ended, another operation may use its context, and so these words. Freeze
// comes before that: it reads produced for the last time. The reader loads produced and then
// checks whether it is frozen, so it trusts no word of another operation. It publishes by a
// compare-and-swap from the value that it published last. Another operation's consumed is beyond
// that value, unless nothing is left to publish.
const (
	ringHeader = 16
	ringFull   = 32 // header of a message with its full length
	ringSender = 64
	ringUnit   = 16
)

// Kinds of records, in bits 29 to 31 of the first word. The lower bits of the word are a length,
// and its upper half is a token or a count.
//
//	 0  length, kind  4
//	 4  token, count  4
//	 8  tag           8
//	16  full length   8   of a ringWhole
//	    bytes             of a run: lengths of 2 bytes each, then the messages
const (
	ringMessage = iota // a whole message, as long as the record says
	ringWhole          // with the message's own length: the ring may hold only its beginning
	ringRun            // many messages, from one process with one tag
	// The sender of the next messages: application 24, index 4, gen 4, NIC 8, slot 4.
	ringSource
	ringSkip // the next record is at the start
	ringVoid // void: the message of this place did not arrive
)

const ringLength = 1<<29 - 1

// MaxRingMessage is the longest message that a ring takes.
const MaxRingMessage = 1 << 28

// RingSize returns how many bytes a ring needs that takes messages of most bytes: such a message
// fits an empty ring at any position.
func RingSize(most int) int { return 2 * (ringSender + align(ringFull+most, ringUnit)) }

// RingNeeds returns the room that a message of n bytes takes in a ring. fresh says that its sender
// differs from the last one, full that the record has the full length, too.
func RingNeeds(n int, fresh, full bool) int {
	n += ringHeader
	if full {
		n += ringFull - ringHeader
	}
	return RingAlign(n) + sourceNeeds(fresh)
}

// RingRunNeeds returns the room that a run takes whose lengths and messages have n bytes together.
func RingRunNeeds(n int, fresh bool) int { return RingAlign(ringHeader+n) + sourceNeeds(fresh) }

// RingAlign returns the length of a record of n bytes.
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
	at        int    // in mem: start of the next record
	pos       uint64 // the same position, as produced counts
	read      uint64 // consumed, as last loaded
	told      uint64 // produced, as published
	produced  *uint64
	stalls    *uint32
	consumed  *uint64
	partial   *uint32
	believing bool // test hook: consumed is not checked
}

// Ring returns the NIC's half of the ring of receive context i, in mem, which is empty.
func (n *NIC) Ring(i int, mem []byte) RingWriter {
	d, r := &n.s.done[receiveList][i], &n.s.receives[i]
	at := d.produced // only the NIC writes it
	return RingWriter{mem: mem, pos: at, read: at, told: at, produced: &d.produced, stalls: &d.stalls,
		consumed: &r.consumed, partial: &r.partial}
}

// Believe is a test hook: consumed is not checked.
func (w *RingWriter) Believe() { w.believing = true }

// Position returns the number of bytes that were written.
func (w *RingWriter) Position() uint64 { return w.pos }

// Read returns how far the process has read, as of the last Look.
func (w *RingWriter) Read() uint64 { return w.read }

// Fits reports whether a record of n bytes fits, as far as the writer knows.
func (w *RingWriter) Fits(n int) bool {
	used := w.pos - w.read
	if rest := len(w.mem) - w.at; n > rest {
		n += rest
	}
	return used+uint64(n) <= uint64(len(w.mem))
}

// Room returns how many bytes the next record may have.
func (w *RingWriter) Room() int {
	free, rest := len(w.mem)-int(w.pos-w.read), len(w.mem)-w.at
	return max(min(rest, free), free-rest)
}

// Look loads how far the process has read. It fails with ErrImpossible if that is beyond what was
// published, or back.
func (w *RingWriter) Look() error {
	c := atomic.LoadUint64(w.consumed)
	if c-w.read > w.told-w.read && !w.believing {
		return fmt.Errorf("%w: %d bytes of a ring are read, which has %d", ErrImpossible, int64(c-w.read),
			w.told-w.read)
	}
	w.read = c
	return nil
}

// Sound reports whether the unread bytes do not exceed the ring.
func (w *RingWriter) Sound() bool { return w.pos-w.read <= uint64(len(w.mem)) }

// AllRead reports whether the process says that it has read everything that it was shown. It
// changes nothing.
func (w *RingWriter) AllRead() bool { return atomic.LoadUint64(w.consumed) == w.told }

// Partial returns how many messages of the record at Read the process has read, as it says.
func (w *RingWriter) Partial() uint32 { return atomic.LoadUint32(w.partial) }

// Stall tells the process that there was no room. Call Look once more afterwards.
func (w *RingWriter) Stall() { atomic.AddUint32(w.stalls, 1) }

// hotRing is how much of a ring is used in one round as long as its reader keeps up: that part
// stays in the caches.
const hotRing = 64 << 10

// Place returns the n bytes of the next record, which must fit. Advance must follow.
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

// Unpublished returns how many bytes have not been shown to the process.
func (w *RingWriter) Unpublished() int { return int(w.pos - w.told) }

// PublishTo shows the process the records that end at pos or before. It reports whether any of
// them is new.
func (w *RingWriter) PublishTo(pos uint64) bool {
	if pos == w.told {
		return false
	}
	w.told = pos
	atomic.StoreUint64(w.produced, pos)
	return true
}

// Memory returns the whole ring.
func (w *RingWriter) Memory() []byte { return w.mem }

// Bytes returns a piece of the ring.
func (w *RingWriter) Bytes(at, n int) []byte { return w.mem[at : at+n : at+n] }

// Offset returns where in the ring the record begins that Place last returned.
func (w *RingWriter) Offset() int { return w.at }

// PutRingSource writes the sender of the following messages, and returns the rest of b.
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

// PutRingMessage writes the header of a message of n bytes, and returns the place of the message.
func PutRingMessage(b []byte, tag uint64, token uint32, n int) []byte {
	binary.LittleEndian.PutUint64(b, uint64(n)|ringMessage<<29|uint64(token)<<32)
	binary.LittleEndian.PutUint64(b[8:], tag)
	return b[ringHeader : ringHeader+n]
}

// PutRingWhole is PutRingMessage for a message of full bytes, of which the record holds n.
func PutRingWhole(b []byte, tag uint64, token uint32, n int, full uint64) []byte {
	binary.LittleEndian.PutUint64(b, uint64(n)|ringWhole<<29|uint64(token)<<32)
	binary.LittleEndian.PutUint64(b[8:], tag)
	binary.LittleEndian.PutUint64(b[16:], full)
	return b[ringFull : ringFull+n]
}

// PutRingLess is PutRingWhole in b, a whole record, for a message of which fewer bytes have
// arrived than there was room for. It returns by how much the record is now shorter.
func PutRingLess(b []byte, tag uint64, token uint32, n int, full uint64) (less int) {
	PutRingWhole(b, tag, token, n, full)
	if less = len(b) - RingAlign(ringFull+n); less > 0 {
		PutRingVoid(b[len(b)-less:])
	}
	return less
}

// PutRingVoid makes b a void record. Its length is a multiple of that of the shortest record.
func PutRingVoid(b []byte) { binary.LittleEndian.PutUint64(b, uint64(len(b))|ringVoid<<29) }

// PutRingRun writes the header of a run of messages, and returns the n bytes of lengths and
// messages after it.
func PutRingRun(b []byte, tag uint64, messages, n int) []byte {
	binary.LittleEndian.PutUint64(b, uint64(n)|ringRun<<29|uint64(messages)<<32)
	binary.LittleEndian.PutUint64(b[8:], tag)
	return b[ringHeader : ringHeader+n]
}

// RingReader is the process's half of a ring. One goroutine at a time may use it; any goroutine
// may call Ready.
type RingReader struct {
	// Of the message that Next has returned:
	Tag   uint64
	Full  uint64 // bytes of the message, if it may have been cut short; else 0
	Token uint32
	Other bool   // From has been written since Other was last cleared
	From  Sender // the sender

	mem      []byte
	at       int           // in mem: start of the current record
	pos      uint64        // the same position, as consumed counts
	step     int           // bytes to the next record; 0: no message of this record was returned
	left     int           // messages of a run that were not returned
	count    int           // messages of the run
	lengthAt int           // in mem: the next message's length
	dataAt   int           // in mem: the next message's bytes
	upTo     uint64        // produced, as last loaded
	told     uint64        // consumed, as published
	shown    atomic.Uint64 // produced, when Next last found no message
	produced *uint64
	stalls   *uint32
	consumed *uint64
	partial  *uint32
	answered uint32 // stalls that were answered by a Refill
	last     uint64 // produced, once frozen
	frozen   atomic.Bool
}

// Open makes r the reader of the ring in mem that the next ReceiveRing of context i posts. The
// caller must own the context, and it must not be posted.
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

// Freeze must be called when the ring's receive has ended, before another operation can use its
// context. The messages in the ring can still be read, and none is added. Any goroutine may call
// it.
func (r *RingReader) Freeze() {
	r.last = atomic.LoadUint64(r.produced)
	r.frozen.Store(true)
}

// written returns produced.
func (r *RingReader) written() uint64 {
	to := atomic.LoadUint64(r.produced)
	if r.frozen.Load() { // to may belong to another operation
		return r.last
	}
	return to
}

// Ready reports whether there is a message that Next had not seen when it last found none.
func (r *RingReader) Ready() bool { return r.written() != r.shown.Load() }

// Next returns the next message, if there is one. Its bytes are valid until the next call.
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

// record moves on to the next record with a message.
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
			r.Tag, r.Token, r.Full = binary.LittleEndian.Uint64(b[8:]), uint32(word>>32),
				binary.LittleEndian.Uint64(b[16:])
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
	// Fails if another operation has the context.
	atomic.CompareAndSwapUint64(r.consumed, r.told, r.pos)
	r.told = r.pos
}

// Produced returns the number of bytes that were written into rings of receive context i.
func (p *Process) Produced(i int) uint64 {
	return atomic.LoadUint64(&p.s.done[receiveList][i].produced)
}

// SetConsumed writes how far a ring of receive context i was read, and how many messages of the
// record there. RingReader normally does this.
func (p *Process) SetConsumed(i int, to uint64, partial uint32) {
	atomic.StoreUint32(&p.s.receives[i].partial, partial)
	atomic.StoreUint64(&p.s.receives[i].consumed, to)
}

// Stalled reports whether the NIC has found no room since the last call. After a Refill the NIC
// looks again.
func (r *RingReader) Stalled() bool {
	n := atomic.LoadUint32(r.stalls)
	if n == r.answered {
		return false
	}
	r.answered = n
	return true
}

// Unanswered undoes Stalled: the Refill could not be posted.
func (r *RingReader) Unanswered() { r.answered-- }

// Finish tells the NIC exactly what was read, before the ring's receive is cancelled. The ring
// must not be frozen meanwhile.
func (r *RingReader) Finish() {
	if r.left == 0 {
		r.forward(r.step)
		r.step, r.count = 0, 0
	}
	atomic.StoreUint32(r.partial, uint32(r.count-r.left))
	r.publish()
}
