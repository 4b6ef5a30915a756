package wire

import "encoding/binary"

// Heads are the headers of the frames of a run, inner and the record's: those of one frame at a time. From frame to frame sequence
// number and offset go on, and all else stays.
//
// They are kept here, and changed in whole words, as they are read for their checksum. A word that was written in parts, in the frame itself, would
// only be read once it has left the store buffer, and there the payload of the frame before stands in front of it, whose lines are
// another core's: that had the processor wait for each of them before it began the next frame.
type Heads struct {
	buf [mostHeads]byte // whole words
	n   int             // bytes of them
}

// mostHeads is the room for an Eager's headers, the longest of those that pieces of several packets have, in whole words.
const mostHeads = (InnerLen + EagerLen + 7) &^ 7

// The words that change, by their place in bytes.
const (
	headsSeq    = 0 // and space and flags before it
	headsOffset = InnerLen + 8
)

// Set makes them those of the first frame, whose piece has n bytes from offset on. record is the header of a Chunk or an Eager.
func (h *Heads) Set(inner *Inner, record []byte, offset uint64, n int) {
	inner.Put(h.buf[:])
	h.n = InnerLen + copy(h.buf[InnerLen:], record)
	PatchPiece(h.buf[InnerLen:], offset, n)
}

// Put writes them behind the outer header of a frame, which has room for a word more, and returns where they end: there the payload belongs.
func (h *Heads) Put(b []byte) int {
	for i := 0; i < h.n; i += 8 {
		binary.LittleEndian.PutUint64(b[OuterLen+i:], binary.LittleEndian.Uint64(h.buf[i:]))
	}
	return OuterLen + h.n
}

// Next makes them those of the next frame, behind a piece of n bytes.
func (h *Heads) Next(n int) {
	h.add(headsSeq, 1<<32)
	h.add(headsOffset, uint64(n))
}

func (h *Heads) add(at int, n uint64) {
	binary.LittleEndian.PutUint64(h.buf[at:], binary.LittleEndian.Uint64(h.buf[at:])+n)
}
