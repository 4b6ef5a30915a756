package wire

import "encoding/binary"

// ProbeLen is the length of a Probe's body without its padding, in bytes.
const ProbeLen = 16

// Probe asks whether frames of its own size get through. The answer is a ProbeReply with the same
// fields and size (USNIC-61). Small ones are keepalives as well.
//
//	 0  id      8   chosen by the asker
//	 8  size    4   length of the whole body in bytes, padding included
//	12  zero    4
//	16  padding    zeros
type Probe struct {
	ID   uint64
	Size uint32
}

// Put writes the body, padding included, into b[:p.Size]. Size is at least ProbeLen.
func (p Probe) Put(b []byte) {
	b = b[:p.Size]
	_ = b[ProbeLen-1]
	binary.LittleEndian.PutUint64(b, p.ID)
	binary.LittleEndian.PutUint32(b[8:], p.Size)
	clear(b[12:])
}

// ParseProbe reads a body, which must have exactly the size that it states: a piece of a large
// probe proves nothing about large frames.
func ParseProbe(b []byte) (p Probe, err error) {
	if len(b) < ProbeLen {
		return p, ErrShort
	}
	p.ID = binary.LittleEndian.Uint64(b)
	p.Size = binary.LittleEndian.Uint32(b[8:])
	if int64(p.Size) > int64(len(b)) {
		return Probe{}, ErrShort
	}
	if int64(p.Size) < int64(len(b)) || !allZero(b[12:]) {
		return Probe{}, ErrFormat
	}
	return p, nil
}

func allZero(b []byte) bool {
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}
