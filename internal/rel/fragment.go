package rel

import (
	"fmt"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/nicid"
	"github.com/weftnet/weft/internal/wire"
)

// Fragment is anything that the NIC control program sends and that is not a short record: a long
// message, a PUT, the answer to a GET (USNIC-1, USNIC-9). The owner fills it in and posts it,
// one segment after the other as far as permission goes (USNIC-11). It keeps the memory of Parts
// unchanged until Released.
type Fragment struct {
	Space wire.Space // Data for large ones
	// Type is the type of its records: Chunk or Eager for many pieces, Frag or Put if one piece
	// holds it whole.
	Type  wire.Type
	ID    wire.FragmentID
	Parts [][]byte // payload, gathered (USNIC-25…27): Length bytes, or from Base at least to Limit
	Base  uint64   // offset of Parts[0] in the payload
	// Slides: Parts are a stretch that moves on. The owner is told of each acknowledged piece,
	// and calls Slide.
	Slides bool
	// Confirm: Released only when the peer has all of it, also over a Reliable link, where
	// nothing else tells the owner.
	Confirm bool
	Length  uint64 // bytes
	Limit   uint64 // bytes that may be posted now: the permission; ≤ Length
	// Piece is the bytes of each piece if a frame has room for so many, so that all frames have
	// one length; 0: as many as a frame has room for.
	Piece int
	Next  uint64 // bytes posted so far
	Err   error  // set before Released
	Owner any    // for the owner's use

	// HeaderBuf[:HeaderLen] is the header of its records, as wire.PutChunk or a similar function
	// wrote it. Each piece gets a copy with its own length and, for Chunk and Eager, offset.
	HeaderBuf [64]byte
	HeaderLen int

	place    int       // among the endpoint's active fragments
	active   bool      // posted, not yet Released
	endpoint *Endpoint // its destination, while active
	pieces   int       // queued or in flight
	part     int       // Parts[part] begins at partAt: where the last gather ended
	partAt   uint64
}

// Slide gives f another stretch of its payload. Bytes that no piece in flight needs may have
// left it at the front, and others have come at the end. It is only for a fragment that Slides.
func (f *Fragment) Slide(parts [][]byte, base uint64) {
	f.Parts, f.Base = parts, base
	f.part, f.partAt = 0, base
}

// PieceLen returns how many payload bytes a full piece carries behind the header of type t.
func (e *Endpoint) PieceLen(t wire.Type) int { return e.MaxRecord(wire.Data) - t.HeaderLen() }

// Post queues some of f's bytes that are permitted and not yet posted: one segment's worth, or
// several full segments, at most most. It returns how many segments it queued. It returns 0 if
// nothing is permitted, or if the session is not open (then it is being opened), the window is
// full or the credits are spent; in these three cases Writable will follow.
func (e *Endpoint) Post(now clock.Time, f *Fragment, most int) (segments int) {
	if !e.opened(now) {
		return 0
	}
	allowed := min(f.Limit, f.Length)
	if allowed <= f.Next {
		return 0
	}
	left, full := allowed-f.Next, uint64(e.MaxRecord(f.Space)-f.HeaderLen)
	if f.Piece > 0 {
		full = min(full, uint64(f.Piece))
	}
	n := int(min(left, full))
	filler := f.filler(n, int(full))
	frames := e.readyFor(f.Space, filler+f.HeaderLen+n, min(most, max(int(left/full), 1)))
	if frames == 0 {
		e.refuse(f.Space)
		return 0
	}
	g := e.m.pool.get(e, f.Space, frames)
	g.fragment, g.offset, g.length, g.filler = f, f.Next, n, filler
	f.Next += uint64(n * frames)
	f.pieces += frames
	e.begins(f)
	e.channels[f.Space].enqueue(g, filler+f.HeaderLen+n)
	e.toSend()
	return frames
}

// Withdraw stops f. Its queued pieces are dropped. Pieces in flight keep their place in the
// sequence but become Voids if they must be retransmitted. Released(f) is called before Withdraw
// returns, with f.Err as the owner set it, so the memory is the owner's at once. A fragment that
// is not active is left alone.
func (e *Endpoint) Withdraw(now clock.Time, f *Fragment) {
	if !f.active {
		return
	}
	if f.endpoint != e {
		panic(fmt.Sprintf("rel: fragment %d is under way to NIC %v, not to %v",
			f.ID, nicid.ID(f.endpoint.nic), nicid.ID(e.nic)))
	}
	c := &e.channels[f.Space]
	for g := c.queue.head; g != nil; {
		after := g.next
		if g.fragment == f {
			c.dequeue(g)
			e.m.pool.put(g)
		}
		g = after
	}
	w := &e.live.send[f.Space]
	for s := w.base; s != w.next; s = s.Add(1) {
		if g := *w.at(s); g != nil && g.fragment == f {
			g.fragment, g.length = nil, 0
		}
	}
	f.pieces = 0
	e.live.confirming.forget(f)
	e.over(f)
	e.m.handler.Released(now, f)
}

// piecesDone notes that so many pieces of a fragment, each of length bytes, from offset on, are
// acknowledged, and that the fragment is finished if they were the last. It ignores a nil
// fragment.
func (m *Module) piecesDone(e *Endpoint, f *Fragment, offset uint64, length, pieces int) {
	if f == nil {
		return
	}
	if f.Slides {
		m.handler.Acknowledged(f, offset, uint64(length*pieces))
	}
	f.pieces -= pieces
	if f.pieces == 0 && f.Next >= f.Length {
		if m.mustConfirm(e, f) {
			m.unconfirmed(e.live, f)
			return
		}
		e.over(f)
		m.finished = append(m.finished, f)
	}
}

// putHeader writes the header of the record of one piece into b and returns its length.
func (f *Fragment) putHeader(b []byte, offset uint64, n int) int {
	copy(b, f.HeaderBuf[:f.HeaderLen])
	wire.PatchPiece(b, offset, n)
	return f.HeaderLen
}

// payload gathers the n bytes from offset on, which belong to b[at:]. It writes them there,
// except for a last contiguous run of them: this is rest, which is copied when its checksum is
// computed. end is where rest begins.
func (f *Fragment) payload(b []byte, at int, offset uint64, n int) (end int, rest []byte) {
	for n > 0 {
		p := f.from(offset)
		if len(p) >= n {
			return at, p[:n]
		}
		k := copy(b[at:], p)
		at, offset, n = at+k, offset+uint64(k), n-k
	}
	return at, nil
}

// from returns the contiguous bytes from offset on: at least that byte.
func (f *Fragment) from(offset uint64) []byte {
	if offset < f.partAt {
		f.part, f.partAt = 0, f.Base
	}
	if offset < f.partAt {
		panic(fmt.Sprintf("rel: byte %d of a fragment is sent, whose stretch begins at %d", offset, f.partAt))
	}
	for ; f.part < len(f.Parts); f.part++ {
		p := f.Parts[f.part]
		if at := offset - f.partAt; at < uint64(len(p)) {
			return p[at:]
		}
		f.partAt += uint64(len(p))
	}
	panic(fmt.Sprintf("rel: a fragment of %d bytes has parts for only %d", f.Length, f.partAt))
}

// begins notes that a fragment is active, if it was not.
func (e *Endpoint) begins(f *Fragment) {
	if !f.active {
		f.active, f.endpoint, f.place = true, e, len(e.fragments)
		f.part, f.partAt = 0, f.Base
		e.fragments = append(e.fragments, f)
	}
}

// over notes that a fragment is no longer active. The last one takes its place.
func (e *Endpoint) over(f *Fragment) {
	n := len(e.fragments) - 1
	last := e.fragments[n]
	e.fragments[f.place], last.place = last, f.place
	e.fragments[n], e.fragments = nil, e.fragments[:n]
	f.active, f.endpoint = false, nil
}

// fragmentIDs hands out the numbers by which a peer knows this NIC's fragments. An id names a
// slot, id mod 2048. It is not reused for a very long time, so that a late record about an
// earlier fragment of the slot fits no later one.
type fragmentIDs struct {
	last []wire.FragmentID // of each slot that was ever used
	free []uint16          // slots whose last id is free again, last in first out
}

// NewFragment returns a free fragment id, never 0. It returns false if limits.ActiveFragments
// are in use.
func (e *Endpoint) NewFragment() (wire.FragmentID, bool) {
	ids := &e.ids
	if n := len(ids.free); n > 0 {
		slot := ids.free[n-1]
		ids.free = ids.free[:n-1]
		id := ids.last[slot] + limits.ActiveFragments
		if id == 0 {
			id = limits.ActiveFragments
		}
		ids.last[slot] = id
		return id, true
	}
	if len(ids.last) == limits.ActiveFragments {
		return 0, false
	}
	id := wire.FragmentID(len(ids.last))
	if id == 0 {
		id = limits.ActiveFragments
	}
	ids.last = append(ids.last, id)
	return id, true
}

// FreeFragment gives an id back, when nothing about it is in flight any more.
func (e *Endpoint) FreeFragment(id wire.FragmentID) {
	slot := uint16(id % limits.ActiveFragments)
	if int(slot) >= len(e.ids.last) || e.ids.last[slot] != id {
		panic(fmt.Sprintf("rel: fragment id %d is not in use", id))
	}
	e.ids.free = append(e.ids.free, slot)
}
