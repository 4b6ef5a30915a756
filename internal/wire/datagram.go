package wire

import "encoding/binary"

// DatagramLen is the length of a Datagram's header, in bytes.
const DatagramLen = 16

// MaxDatagram is the longest datagram, in bytes of its payload.
const MaxDatagram = 16 << 10

// Datagram is the header of a datagram, or of a piece of one that is too long for a frame of its
// path. It has no sequence number: it is neither acknowledged nor retransmitted.
//
//	 0  id       4   of the datagram: the same in all its pieces, unique among those in flight
//	 4  offset   4   of the payload in the datagram, a multiple of PartUnit
//	 8  length   4   of the whole datagram, at most MaxDatagram
//	12  service  1   what the datagram is for
//	13  zero     1
//	14  size     2   of the payload: a multiple of PartUnit, except in the last piece; 0 in an
//	                 empty datagram
//	16  payload
//	 …  zeros        pad the last of several pieces to the length of the others, so that a link
//	                 that merges frames of one length merges these with the next datagram's
type Datagram struct {
	ID      uint32
	Offset  uint32
	Length  uint32
	Service uint8
}

// Put writes the header of a piece with n bytes of payload, which follow, into b[:DatagramLen].
func (d *Datagram) Put(b []byte, n int) {
	_ = b[DatagramLen-1]
	binary.LittleEndian.PutUint32(b, d.ID)
	binary.LittleEndian.PutUint32(b[4:], d.Offset)
	binary.LittleEndian.PutUint32(b[8:], d.Length)
	b[12], b[13] = d.Service, 0
	binary.LittleEndian.PutUint16(b[14:], uint16(n))
}

// ParseDatagram reads a body and returns it with its payload.
func ParseDatagram(b []byte) (d Datagram, payload []byte, err error) {
	if len(b) < DatagramLen {
		return d, nil, ErrShort
	}
	d = Datagram{
		ID: binary.LittleEndian.Uint32(b), Offset: binary.LittleEndian.Uint32(b[4:]),
		Length: binary.LittleEndian.Uint32(b[8:]), Service: b[12],
	}
	size := int(binary.LittleEndian.Uint16(b[14:]))
	end := uint64(d.Offset) + uint64(size)
	if b[13] != 0 || d.Length > MaxDatagram || d.Offset%PartUnit != 0 || end > uint64(d.Length) ||
		end < uint64(d.Length) && size%PartUnit != 0 || size == 0 && d.Length > 0 {
		return Datagram{}, nil, ErrFormat
	}
	if len(b) < DatagramLen+size {
		return Datagram{}, nil, ErrShort
	}
	payload, zeros := b[DatagramLen:DatagramLen+size], b[DatagramLen+size:]
	if len(zeros) > 0 && (end < uint64(d.Length) || uint64(len(b)-DatagramLen) > uint64(d.Offset) || !allZero(zeros)) {
		return Datagram{}, nil, ErrFormat
	}
	return d, payload, nil
}

// DatagramPiece returns the length of the pieces of a datagram of n bytes in frames with room for
// most bytes, a multiple of PartUnit. All pieces have one length.
func DatagramPiece(n, most int) int {
	if n <= most {
		return n
	}
	pieces := (n + most - 1) / most
	units := ((n+pieces-1)/pieces + PartUnit - 1) / PartUnit
	return units * PartUnit
}
