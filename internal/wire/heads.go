package wire

import "encoding/binary"

// Heads holds the headers of the frames of a run, one frame at once: the inner header and the
// record's. From frame to frame, only the sequence number and the offset change.
//
// The headers are kept here and changed in whole words, because the checksum reads them so. If a
// word were written in parts, in the frame itself, it could only be read after it has left the
// store buffer. There it would wait behind the payload of the frame before, whose cache lines
// belong to another core. So the processor would wait for each of those lines before it began the
// next frame.
type Heads struct {
	buf [mostHeads]byte // whole words
	n   int             // bytes in use
}

// mostHeads is the room for an Eager's headers in whole words: the longest headers of pieces that
// take several packets.
const mostHeads = (InnerLen + EagerLen + 7) &^ 7

// Byte offsets of the words that change.
const (
	headsSeq    = 0 // with space and flags before it
	headsOffset = InnerLen + 8
)

// Set makes h the headers of the first frame, whose piece has n bytes from offset on. record is
// the header of a Chunk or an Eager.
func (h *Heads) Set(inner *Inner, record []byte, offset uint64, n int) {
	inner.Put(h.buf[:])
	h.n = InnerLen + copy(h.buf[InnerLen:], record)
	PatchPiece(h.buf[InnerLen:], offset, n)
}

// Put writes the headers behind the outer header of a frame, which must have room for one more
// word. It returns their end, where the payload begins.
func (h *Heads) Put(b []byte) int {
	for i := 0; i < h.n; i += 8 {
		binary.LittleEndian.PutUint64(b[OuterLen+i:], binary.LittleEndian.Uint64(h.buf[i:]))
	}
	return OuterLen + h.n
}

// Next makes h the headers of the next frame, behind a piece of n bytes.
func (h *Heads) Next(n int) {
	h.add(headsSeq, 1<<32)
	h.add(headsOffset, uint64(n))
}

func (h *Heads) add(at int, n uint64) {
	binary.LittleEndian.PutUint64(h.buf[at:], binary.LittleEndian.Uint64(h.buf[at:])+n)
}
