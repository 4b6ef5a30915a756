package wire

import (
	"encoding/binary"

	"github.com/weftnet/weft/internal/limits"
)

// Space is the sequence to which a segment belongs, for life (decision 4). Each has its own
// window. So a burst of small messages that overtakes a large one causes no needless
// retransmission (a complaint of the notes themselves, USNIC-52).
type Space uint8

const (
	Command Space = 0 // fragments up to 768 B, permissions, control (USNIC-15)
	Data    Space = 1 // everything else
	Spaces        = 2
)

// SpaceFor returns the space for a message, or a piece of one, of n bytes in one record.
func SpaceFor(n int) Space {
	if n > limits.TinyMessage {
		return Data
	}
	return Command
}

func (s Space) String() string {
	if s == Command {
		return "command"
	}
	return "data"
}

// InnerLen is the length of the inner header of a Data frame, in bytes.
const InnerLen = 16

// Overhead is what a frame with one tag adds to the records in it, in bytes.
const Overhead = OuterLen + InnerLen + TagLen

// Flags of Inner and Ack: the acknowledgements that are valid.
const (
	AckCommand uint8 = 1 << 0
	AckData    uint8 = 1 << 1
)

// Inner is the header of a segment.
//
//	 0  space               1
//	 1  flags               1   AckCommand, AckData
//	 2  zero                2
//	 4  sequence            4   of this segment in its space
//	 8  ack, command space  4   every segment up to and including this one has arrived
//	                            (USNIC-43, USNIC-44)
//	12  ack, data space     4
//
// An acknowledgement whose flag is clear means nothing.
type Inner struct {
	Space Space
	Flags uint8
	Seq   Seq
	Ack   [Spaces]Seq
}

// Put writes the header into b[:InnerLen].
func (h *Inner) Put(b []byte) {
	_ = b[InnerLen-1]
	b[0], b[1], b[2], b[3] = byte(h.Space), h.Flags, 0, 0
	binary.LittleEndian.PutUint32(b[4:], uint32(h.Seq))
	binary.LittleEndian.PutUint32(b[8:], uint32(h.Ack[Command]))
	binary.LittleEndian.PutUint32(b[12:], uint32(h.Ack[Data]))
}

// NextChunk is the expected beginning of the body of a long message's next data frame,
// acknowledgements excluded. It assumes that the frame carries one Chunk without flags, as the
// frames before it did.
type NextChunk struct{ inner, record, offset uint64 }

// After returns the NextChunk that follows a segment with header h, whose Chunk of fragment id
// ended at offset.
func (h *Inner) After(id FragmentID, offset uint64) NextChunk {
	return NextChunk{
		uint64(h.Space) | uint64(h.Flags)<<8 | uint64(h.Seq.Add(1))<<32, uint64(TypeChunk) | uint64(id)<<32, offset,
	}
}

// ID returns the fragment, 0 if there is none.
func (c *NextChunk) ID() FragmentID { return FragmentID(c.record >> 32) }

// Offset returns the offset of the payload in the fragment.
func (c *NextChunk) Offset() uint64 { return c.offset }

// Begins returns the payload length of a body that begins as expected, and 0 for any other body.
// It only compares: the tag may be bad, so the body proves nothing.
func (c *NextChunk) Begins(body []byte) int {
	n := len(body) - InnerLen
	if n <= ChunkLen || n > MaxRecord {
		return 0
	}
	b := (*[InnerLen + ChunkLen]byte)(body)
	if binary.LittleEndian.Uint64(b[:]) != c.inner ||
		binary.LittleEndian.Uint64(b[InnerLen:]) != c.record|uint64(n)<<16 ||
		binary.LittleEndian.Uint64(b[InnerLen+8:]) != c.offset {
		return 0
	}
	return n - ChunkLen
}

// Next advances c past a payload of n bytes.
func (c *NextChunk) Next(n int) {
	c.inner += 1 << 32
	c.offset += uint64(n)
}

// ParseHead reads only the header at the beginning of a body.
func ParseHead(body []byte) (h Inner, ok bool) {
	ok = len(body) >= InnerLen && h.parse(body)
	return h, ok
}

// parse reads the header in b and reports whether it is well formed.
func (h *Inner) parse(b []byte) bool {
	_ = b[InnerLen-1]
	h.Space, h.Flags = Space(b[0]), b[1]
	if h.Space >= Spaces || h.Flags&^(AckCommand|AckData) != 0 || binary.LittleEndian.Uint16(b[2:]) != 0 {
		return false
	}
	h.Seq = Seq(binary.LittleEndian.Uint32(b[4:]))
	h.Ack[Command] = Seq(binary.LittleEndian.Uint32(b[8:]))
	h.Ack[Data] = Seq(binary.LittleEndian.Uint32(b[12:]))
	return true
}

// ParseInner reads the header of a segment and returns it with the segment's records, which
// CheckRecords has accepted: NextRecord and the accessors cannot fail on them. A segment without
// records is good: it only holds its place in the sequence.
func ParseInner(b []byte) (h Inner, records []byte, err error) {
	if len(b) < InnerLen {
		return h, nil, ErrShort
	}
	if !h.parse(b) {
		return Inner{}, nil, ErrFormat
	}
	records = b[InnerLen:]
	if err := CheckRecords(records); err != nil {
		return Inner{}, nil, err
	}
	return h, records, nil
}
