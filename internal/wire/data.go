package wire

import "encoding/binary"

// Space is the sequence to which a segment belongs, for life (decision 4). Each has its own window, so that a burst of
// small messages that overtakes a large one causes no needless retransmission (the notes' own complaint, USNIC-52).
type Space uint8

const (
	Command Space = 0 // fragments up to 768 B, permissions, control (USNIC-15)
	Data    Space = 1 // everything else
	Spaces        = 2
)

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

// Flags of Inner and Ack: which acknowledgements are meant.
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
//	 8  ack, command space  4   every segment up to and with this one has arrived (USNIC-43, USNIC-44)
//	12  ack, data space     4
//
// An acknowledgement whose flag is not set means nothing.
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

// LoneChunk reads the headers of a tagged data frame whose only record is a Chunk without flags, and returns the length of its payload;
// 0 if it is anything else, or not well formed. It is for who expects just that and has yet to check the tag.
func LoneChunk(frame []byte) (h Inner, id FragmentID, offset uint64, n int) {
	const head = OuterLen + InnerLen
	n = len(frame) - head - ChunkLen - TagLen
	if n <= 0 || frame[1] != FlagTagged {
		return h, 0, 0, 0
	}
	if b, r := frame[OuterLen:head], Record(frame[head:]); r.Type() == TypeChunk && r.Flags() == 0 && r.length() == ChunkLen+n && h.parse(b) {
		id, offset = r.Chunk()
		return h, id, offset, n
	}
	return h, 0, 0, 0
}

// Follows reports whether the headers of a data frame, of which LoneChunk knows the first of a run, are those of the nth behind that: all
// alike but packet counter, sequence number and offset, which go on by one, one and length a frame.
func Follows(frame, first []byte, n, length int) bool {
	const head = OuterLen + InnerLen + ChunkLen
	a, b := (*[head]byte)(frame), (*[head]byte)(first)
	word := func(b *[head]byte, i int) uint64 { return binary.LittleEndian.Uint64(b[8*i:]) }
	return word(a, 0) == word(b, 0) &&
		word(a, 1) == word(b, 1)+uint64(n) &&
		uint32(word(a, 2)) == uint32(word(b, 2)) && uint32(word(a, 2)>>32) == uint32(word(b, 2)>>32)+uint32(n) &&
		word(a, 3) == word(b, 3) &&
		word(a, 4) == word(b, 4) &&
		word(a, 5) == word(b, 5)+uint64(n*length)
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

// ParseInnerFrag is ParseInner of a segment whose only record is a Frag. ok is false of every other, good or not.
func ParseInnerFrag(b []byte) (h Inner, r Record, ok bool) {
	if len(b) < InnerLen+FragLen || !LoneFrag(b[InnerLen:]) || !h.parse(b) {
		return h, nil, false
	}
	return h, Record(b[InnerLen:]), true
}

// ParseInner reads the header of a segment and returns it with the segment's records, which it has put through
// CheckRecords: NextRecord and the accessors cannot fail on them. A segment without records is good: it only holds its
// place in the sequence.
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
