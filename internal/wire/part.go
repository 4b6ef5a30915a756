package wire

import "encoding/binary"

// PartLen is the length of a Part's header, in bytes.
const PartLen = 16

// PartUnit is the unit of parts, in bytes. A Part begins at a multiple of it, and ends at one
// unless it is the last of its segment. The receiver, which reassembles the parts, keeps a bit
// for each unit.
const PartUnit = 64

// MaxParted is the longest segment that may arrive in parts, in bytes of its records.
const MaxParted = 64 << 10

// Part is a piece of a segment whose frame is too long for its path. The same segment may have
// been sent whole before, or may be retransmitted in parts that are cut elsewhere. Its number
// stays the same.
//
//	 0  space     1
//	 1  zero      1
//	 2  size      2   of the payload in bytes, at least 1
//	 4  sequence  4   of the segment in its space
//	 8  offset    4   of the payload in the segment's records, a multiple of PartUnit
//	12  length    4   of all records of the segment in bytes
//	16  payload
type Part struct {
	Space  Space
	Seq    Seq
	Offset uint32
	Length uint32
}

// Put writes the header of a Part with n bytes of payload, which follow, into b[:PartLen].
func (p *Part) Put(b []byte, n int) {
	_ = b[PartLen-1]
	b[0], b[1] = byte(p.Space), 0
	binary.LittleEndian.PutUint16(b[2:], uint16(n))
	binary.LittleEndian.PutUint32(b[4:], uint32(p.Seq))
	binary.LittleEndian.PutUint32(b[8:], p.Offset)
	binary.LittleEndian.PutUint32(b[12:], p.Length)
}

// ParsePart reads a body and returns it with its payload. The contents of the payload are checked
// when the segment is complete.
func ParsePart(b []byte) (p Part, payload []byte, err error) {
	if len(b) < PartLen {
		return p, nil, ErrShort
	}
	size := int(binary.LittleEndian.Uint16(b[2:]))
	p = Part{Space: Space(b[0]), Seq: Seq(binary.LittleEndian.Uint32(b[4:])),
		Offset: binary.LittleEndian.Uint32(b[8:]), Length: binary.LittleEndian.Uint32(b[12:])}
	end := uint64(p.Offset) + uint64(size)
	if p.Space >= Spaces || b[1] != 0 || size == 0 || p.Length > MaxParted || p.Offset%PartUnit != 0 ||
		end > uint64(p.Length) || end < uint64(p.Length) && size%PartUnit != 0 {
		return Part{}, nil, ErrFormat
	}
	if len(b) < PartLen+size {
		return Part{}, nil, ErrShort
	}
	if len(b) > PartLen+size {
		return Part{}, nil, ErrFormat
	}
	return p, b[PartLen:], nil
}
