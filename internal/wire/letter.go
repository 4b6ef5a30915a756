package wire

import "encoding/binary"

// ServiceProcess is the service of datagrams from process to process: a Letter, then the payload.
const ServiceProcess uint8 = 1

// LetterLen is the length of a Letter, in bytes.
const LetterLen = 24

// MaxLetter is the largest payload that a process can send in one datagram, in bytes.
const MaxLetter = MaxDatagram - LetterLen

// Letter names the source and the destination process of a datagram. The NICs are those of the
// session.
//
//	 0  tag      8
//	 8  dst gen  4
//	12  src gen  4
//	16  dst slot 2
//	18  src slot 2
//	20  zero     4
//	24  payload of the process
type Letter struct {
	Tag              uint64
	DstGen, SrcGen   uint32
	DstSlot, SrcSlot uint16
}

// Put writes the letter into b[:LetterLen].
func (l *Letter) Put(b []byte) {
	_ = b[LetterLen-1]
	binary.LittleEndian.PutUint64(b, l.Tag)
	binary.LittleEndian.PutUint32(b[8:], l.DstGen)
	binary.LittleEndian.PutUint32(b[12:], l.SrcGen)
	binary.LittleEndian.PutUint16(b[16:], l.DstSlot)
	binary.LittleEndian.PutUint16(b[18:], l.SrcSlot)
	binary.LittleEndian.PutUint32(b[20:], 0)
}

// ParseLetter reads a datagram of ServiceProcess, and returns its letter and the payload.
func ParseLetter(b []byte) (l Letter, payload []byte, err error) {
	if len(b) < LetterLen {
		return l, nil, ErrShort
	}
	if binary.LittleEndian.Uint32(b[20:]) != 0 {
		return l, nil, ErrFormat
	}
	l = Letter{
		Tag: binary.LittleEndian.Uint64(b), DstGen: binary.LittleEndian.Uint32(b[8:]),
		SrcGen: binary.LittleEndian.Uint32(b[12:]), DstSlot: binary.LittleEndian.Uint16(b[16:]),
		SrcSlot: binary.LittleEndian.Uint16(b[18:]),
	}
	return l, b[LetterLen:], nil
}
