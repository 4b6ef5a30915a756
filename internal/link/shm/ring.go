package shm

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync/atomic"
	"unsafe"
)

// A ring has one writer and one reader. Frames of any length follow one another, each in a
// record that begins on a cache line and never wraps:
//
//	offset 0       64                   128            4096
//	┌──────────────┬────────────────────┬───────── ─ ─ ┬──────────────────── ─ ─ ────────┐
//	│ header: size,│ reader: consumed,  │              │ record │ record │ … │ pad │      │
//	│ keys         │ sleeping           │              │        │        │   │     │      │
//	└──────────────┴────────────────────┴───────── ─ ─ ┴──────────────────── ─ ─ ────────┘
//	                                                     record: first word, second word, frame
//
// Positions count bytes from the beginning of the ring's life. The first word of the record at
// position p is firstKey ^ p, the second is secondKey ^ (p<<18 | length). The reader waits for
// the first word that fits its position. So nothing has to be zeroed between two laps, and a
// message costs both sides only the lines that it fills. The old content may be anything that
// was sent before, but not these two words, since no sender of payload has seen the keys.
//
// The writer writes the first word of a batch last, so the reader finds all its records at once.
// The reader reports its position after every quarter of the ring, since each report costs a
// cache line in both directions.
type ring struct {
	head *ringHeader
	read *ringReader
	data []byte
	size uint64
}

type ringHeader struct {
	magic               uint64
	size                uint64 // of the data, in bytes
	firstKey, secondKey uint64
}

type ringReader struct {
	consumed uint64 // position up to which the reader has read
	sleeping uint32 // the reader parks, or is about to: announce the next record
}

const (
	ringMagic  = 0x31_67_6e_69_52_74_66_57 // "WftRing1"
	readerAt   = 64
	dataAt     = 4096
	recordHead = 16
	line       = 64
	lengthBits = 18
	padLength  = 1<<lengthBits - 1 // length of a record that only fills the ring up to its end
)

var errRing = errors.New("shm: damaged ring")

// newRing lays out a ring in mem. mem must be zero and page-aligned, and its length dataAt plus
// a power of two.
func newRing(mem []byte, firstKey, secondKey uint64) *ring {
	r := overlay(mem)
	*r.head = ringHeader{ringMagic, r.size, firstKey, secondKey}
	return r
}

// openRing opens the ring that another process has laid out in mem.
func openRing(mem []byte) (*ring, error) {
	n := len(mem) - dataAt
	if n < line || n&(n-1) != 0 {
		return nil, fmt.Errorf("%w: %d bytes; expected %d and a power of two", errRing, len(mem), dataAt)
	}
	r := overlay(mem)
	if h := r.head; h.magic != ringMagic || h.size != r.size {
		return nil, fmt.Errorf("%w: magic %#x and size %d; expected %#x and %d",
			errRing, h.magic, h.size, uint64(ringMagic), r.size)
	}
	return r, nil
}

func overlay(mem []byte) *ring {
	return &ring{
		head: (*ringHeader)(unsafe.Pointer(&mem[0])), read: (*ringReader)(unsafe.Pointer(&mem[readerAt])),
		data: mem[dataAt:], size: uint64(len(mem) - dataAt),
	}
}

// word returns the aligned word at an offset of the data.
func (r *ring) word(at uint64) *uint64 { return (*uint64)(unsafe.Pointer(&r.data[at])) }

// record returns the bytes that a frame of n bytes takes in the ring.
func record(n int) uint64 { return uint64(recordHead+n+line-1) &^ (line - 1) }

// writer is the sending half.
type writer struct {
	*ring
	firstKey, secondKey uint64
	pos                 uint64 // position of the next record
	// The writer may not go beyond limit: one ring's length from the reader's position as last
	// loaded.
	limit         uint64
	held          *uint64 // place of the batch's first word
	heldWord      uint64
	frames, bytes int // size of the batch
}

func newWriter(r *ring) *writer {
	return &writer{ring: r, firstKey: r.head.firstKey, secondKey: r.head.secondKey, limit: r.size}
}

// reserve returns room for a frame of up to n bytes. It returns nil if the reader must first
// catch up.
func (w *writer) reserve(n int) []byte {
	need := record(n)
	at := w.pos & (w.size - 1)
	rest := w.size - at
	if rest < need {
		need += rest
	}
	if w.limit-w.pos < need {
		limit := atomic.LoadUint64(&w.read.consumed) + w.size
		if limit-w.pos > w.size { // nonsense from the reader
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

// open returns the room that reserve has found for a frame of up to n bytes.
func (w *writer) open(n int) []byte {
	at := w.pos&(w.size-1) + recordHead
	return w.data[at : at+uint64(n) : at+uint64(n)]
}

// commit commits the first n bytes of the reserved room as a frame.
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

// post writes a frame and shows it to the reader at once. It is called only without an open
// batch, and reports whether there was room. A reader on another core that waits for the first
// line of a record takes that line away at each look, and the writer must wait for it again. So
// post first prepares everything for that line and then stores it in one go.
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
	// This requests the second line of the next record. A waiting reader may take it back
	// meanwhile.
	own(w.word((w.pos + line) & (w.size - 1)))
	return true
}

var _ = [1]struct{}{}[recordHead+6*8-line] // so the body begins with the second line

// publish makes the batch visible to the reader. It reports whether the reader must be woken.
func (w *writer) publish() (wake bool) {
	if w.held == nil {
		return false
	}
	atomic.StoreUint64(w.held, w.heldWord)
	w.held, w.frames, w.bytes = nil, 0, 0
	return w.wakes()
}

// wakes reports whether the reader sleeps and must be woken. It returns true only once for each
// sleep.
func (w *writer) wakes() bool {
	return atomic.LoadUint32(&w.read.sleeping) != 0 && atomic.SwapUint32(&w.read.sleeping, 0) != 0
}

// reader is the receiving half. It does not trust the writer, but relies on the ring's bounds.
type reader struct {
	*ring
	firstKey, secondKey uint64
	pos                 uint64
	told                uint64 // position that the writer knows
	most                int    // largest length of a frame, in bytes
}

func newReader(r *ring, most int) *reader {
	return &reader{ring: r, firstKey: r.head.firstKey, secondKey: r.head.secondKey, most: most}
}

// ready reports whether there is a record, by one load.
func (r *reader) ready() bool { return r.shows(r.first()) }

// first returns the place of the first word of the next record.
func (r *reader) first() *uint64 { return r.word(r.pos & (r.size - 1)) }

func (r *reader) shows(first *uint64) bool { return atomic.LoadUint64(first) == r.firstKey^r.pos }

// next returns the next frame, which is valid until done. It returns nil if there is none.
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
			// The first word was payload of an earlier lap, with a chance of 2^-64: the record
			// is not there yet.
			return nil, nil
		}
		length := second & padLength
		if length == padLength {
			r.pos += r.size - at
			continue
		}
		if length > uint64(r.most) || at+record(int(length)) > r.size {
			return nil, fmt.Errorf("%w: a frame of %d bytes at %d of %d; expected at most %d",
				errRing, length, at, r.size, r.most)
		}
		at += recordHead
		return r.data[at : at+length : at+length], nil
	}
}

// done releases the frame of n bytes that next returned.
func (r *reader) done(n int) {
	r.pos += record(n)
	if r.pos-r.told >= r.size/4 {
		r.told = r.pos
		atomic.StoreUint64(&r.read.consumed, r.pos)
	}
}

// sleep asks the writer to announce its next record. It reports whether there is a record
// already.
func (r *reader) sleep() (ready bool) {
	atomic.StoreUint32(&r.read.sleeping, 1)
	return r.ready()
}

// awake ends the sleep.
func (r *reader) awake() { atomic.StoreUint32(&r.read.sleeping, 0) }
