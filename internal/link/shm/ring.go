package shm

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync/atomic"
	"unsafe"
)

// A ring has one writer and one reader. Frames of any length stand one behind the other, each in a record that begins on
// a cache line of its own and never wraps:
//
//	offset 0       64                   128            4096
//	┌──────────────┬────────────────────┬───────── ─ ─ ┬──────────────────── ─ ─ ────────┐
//	│ header: size,│ reader: consumed,  │              │ record │ record │ … │ pad │      │
//	│ keys         │ sleeping           │              │        │        │   │     │      │
//	└──────────────┴────────────────────┴───────── ─ ─ ┴──────────────────── ─ ─ ────────┘
//	                                                     record: first word, second word, frame
//
// Positions count bytes from the beginning of time. The first word of the record at position p is firstKey ^ p, the second
// is secondKey ^ (p<<18 | length). The reader waits for the first word of the position it is at. Nothing has to be zeroed between
// two laps, so a message costs the two sides the lines that it fills and no others: what stands there of the lap before
// can be anything that was once sent, but it is not these two words, since no sender of payload has seen the keys.
//
// The writer holds the first word of a batch back until the others stand: the reader then finds all of them. What has been
// consumed is told every quarter of the ring, since telling costs a cache line each way, too.
type ring struct {
	head *ringHeader
	read *ringReader
	data []byte
	size uint64
}

type ringHeader struct {
	magic               uint64
	size                uint64 // of the data, bytes
	firstKey, secondKey uint64
}

type ringReader struct {
	consumed uint64 // position up to which the reader is through
	sleeping uint32 // it parks, or is about to: announce the next record
}

const (
	ringMagic  = 0x31_67_6e_69_52_74_66_57 // "WftRing1"
	readerAt   = 64
	dataAt     = 4096
	recordHead = 16
	line       = 64
	lengthBits = 18
	padLength  = 1<<lengthBits - 1 // the length of a record that only fills the ring up to its end
)

var errRing = errors.New("shm: damaged ring")

// newRing lays a ring out in mem, which is zero, page-aligned, and dataAt plus a power of two long.
func newRing(mem []byte, firstKey, secondKey uint64) *ring {
	r := overlay(mem)
	*r.head = ringHeader{ringMagic, r.size, firstKey, secondKey}
	return r
}

// openRing finds the ring that another process has laid out in mem.
func openRing(mem []byte) (*ring, error) {
	n := len(mem) - dataAt
	if n < line || n&(n-1) != 0 {
		return nil, fmt.Errorf("%w: %d bytes; expected %d and a power of two", errRing, len(mem), dataAt)
	}
	r := overlay(mem)
	if h := r.head; h.magic != ringMagic || h.size != r.size {
		return nil, fmt.Errorf("%w: magic %#x and size %d; expected %#x and %d", errRing, h.magic, h.size, uint64(ringMagic), r.size)
	}
	return r, nil
}

func overlay(mem []byte) *ring {
	return &ring{
		head: (*ringHeader)(unsafe.Pointer(&mem[0])), read: (*ringReader)(unsafe.Pointer(&mem[readerAt])),
		data: mem[dataAt:], size: uint64(len(mem) - dataAt),
	}
}

// word is the aligned word at an offset of the data.
func (r *ring) word(at uint64) *uint64 { return (*uint64)(unsafe.Pointer(&r.data[at])) }

// record is how many bytes a frame of n bytes takes.
func record(n int) uint64 { return uint64(recordHead+n+line-1) &^ (line - 1) }

// writer is the sending half.
type writer struct {
	*ring
	firstKey, secondKey uint64
	pos                 uint64  // of the next record
	limit               uint64  // it may not go beyond: a ring's length from what was consumed when it was looked at last
	held                *uint64 // where the first word of the batch goes
	heldWord            uint64
	frames, bytes       int // in the batch
}

func newWriter(r *ring) *writer {
	return &writer{ring: r, firstKey: r.head.firstKey, secondKey: r.head.secondKey, limit: r.size}
}

// reserve finds room for a frame of up to n bytes; nil if the reader has to catch up first.
func (w *writer) reserve(n int) []byte {
	need := record(n)
	at := w.pos & (w.size - 1)
	rest := w.size - at
	if rest < need {
		need += rest
	}
	if w.limit-w.pos < need {
		limit := atomic.LoadUint64(&w.read.consumed) + w.size
		if limit-w.pos > w.size { // nonsense
			return nil
		}
		if w.limit = limit; limit-w.pos < need {
			return nil
		}
	}
	if rest < record(n) {
		w.put(padLength, rest)
		at = 0
	}
	own(w.word(at))
	return w.open(n)
}

// open is the room for a frame of up to n bytes that reserve has found.
func (w *writer) open(n int) []byte {
	at := w.pos&(w.size-1) + recordHead
	return w.data[at : at+uint64(n) : at+uint64(n)]
}

// commit makes the first n bytes of what reserve returned a frame.
func (w *writer) commit(n int) { w.put(uint64(n), record(n)) }

func (w *writer) put(length, bytes uint64) {
	at := w.pos & (w.size - 1)
	*w.word(at + 8) = w.secondKey ^ (w.pos<<lengthBits | length)
	first := w.word(at)
	if w.held == nil {
		w.held, w.heldWord = first, w.firstKey^w.pos
	} else {
		*first = w.firstKey ^ w.pos
	}
	w.pos += bytes
	w.frames++
	w.bytes += int(bytes)
}

// post makes a frame where nothing is held, if there is room, and shows it to the reader. A reader on another core that waits for the
// first line of a record takes that line away each time that it looks, and the writer stalls for it again: so all that goes
// there is at hand by then, and is stored in one go.
func (w *writer) post(head *[6]uint64, body []byte) (posted bool) {
	n := len(head)*8 + len(body)
	at, need := w.pos&(w.size-1), record(n)
	if w.size-at < need || w.limit-w.pos < need {
		return false
	}
	first, le := (*[line]byte)(unsafe.Pointer(&w.data[at])), binary.LittleEndian
	words := (*[2]uint64)(unsafe.Pointer(first))
	own(&words[0])
	if len(body) > 0 {
		copy(w.data[at+line:], body)
	}
	le.PutUint64(first[16:], head[0]) // word by word: a loop takes three times as long
	le.PutUint64(first[24:], head[1])
	le.PutUint64(first[32:], head[2])
	le.PutUint64(first[40:], head[3])
	le.PutUint64(first[48:], head[4])
	le.PutUint64(first[56:], head[5])
	words[1] = w.secondKey ^ (w.pos<<lengthBits | uint64(n))
	atomic.StoreUint64(&words[0], w.firstKey^w.pos)
	w.pos += need
	own(w.word((w.pos + line) & (w.size - 1))) // the second line of the next, unless a reader that waits asks for it meanwhile
	return true
}

var _ = [1]struct{}{}[recordHead+6*8-line] // so the body begins with the second line

// publish shows the batch to the reader, and reports whether that has to be woken.
func (w *writer) publish() (wake bool) {
	if w.held == nil {
		return false
	}
	atomic.StoreUint64(w.held, w.heldWord)
	w.held, w.frames, w.bytes = nil, 0, 0
	return w.wakes()
}

// wakes reports whether the reader has to be woken, since it sleeps; once.
func (w *writer) wakes() bool {
	return atomic.LoadUint32(&w.read.sleeping) != 0 && atomic.SwapUint32(&w.read.sleeping, 0) != 0
}

// reader is the receiving half. It trusts the writer no further than to lie within the ring.
type reader struct {
	*ring
	firstKey, secondKey uint64
	pos                 uint64
	told                uint64 // the position that the writer knows of
	most                int    // bytes of a frame
}

func newReader(r *ring, most int) *reader {
	return &reader{ring: r, firstKey: r.head.firstKey, secondKey: r.head.secondKey, most: most}
}

// ready reports whether a record has come. It is one load.
func (r *reader) ready() bool { return r.shows(r.first()) }

// first is the first word of the next record.
func (r *reader) first() *uint64 { return r.word(r.pos & (r.size - 1)) }

func (r *reader) shows(first *uint64) bool { return atomic.LoadUint64(first) == r.firstKey^r.pos }

// next returns the frame that has come, which stays until done; nil if there is none.
func (r *reader) next() ([]byte, error) {
	for {
		at := r.pos & (r.size - 1)
		words := (*[2]uint64)(unsafe.Pointer(&r.data[at]))
		if atomic.LoadUint64(&words[0]) != r.firstKey^r.pos {
			return nil, nil
		}
		fetch(&words[0])
		second := words[1] ^ r.secondKey
		if second>>lengthBits != r.pos<<lengthBits>>lengthBits {
			return nil, nil // the payload of an earlier lap, by a chance of 2^-64: the record is not there yet
		}
		length := second & padLength
		if length == padLength {
			r.pos += r.size - at
			continue
		}
		if length > uint64(r.most) || at+record(int(length)) > r.size {
			return nil, fmt.Errorf("%w: a frame of %d bytes at %d of %d; expected at most %d", errRing, length, at, r.size, r.most)
		}
		at += recordHead
		return r.data[at : at+length : at+length], nil
	}
}

// done lets go of the frame of n bytes that next returned.
func (r *reader) done(n int) {
	r.pos += record(n)
	if r.pos-r.told >= r.size/4 {
		r.told = r.pos
		atomic.StoreUint64(&r.read.consumed, r.pos)
	}
}

// sleep asks the writer to announce its next record, unless there is one already.
func (r *reader) sleep() (ready bool) {
	atomic.StoreUint32(&r.read.sleeping, 1)
	return r.ready()
}

// awake takes that back.
func (r *reader) awake() { atomic.StoreUint32(&r.read.sleeping, 0) }
