package wire

import "encoding/binary"

// LoneLen is the length of a Lone, in bytes.
const LoneLen = OuterLen + FragLen

// Lone is all that stands before the payload in the frame that most short messages over shared memory are: a Plain without a tag
// that has one Frag, and nothing else. It is six words, written and compared with what is expected as such:
//
//	0  start of a Plain 4   session index 4
//	1  packet counter   8
//	2  type 1, flags 1, length 2   destination slot 2, source slot 2
//	3  destination generation 4   source generation 4
//	4  number 4   token 4
//	5  tag    8
type Lone [LoneLen / 8]uint64

// LoneOf makes the Lone of messages between two processes. What else the envelope has, the session and the length are set for each.
func LoneOf(e *Envelope) (l Lone) {
	var b [FragLen]byte
	PutFrag(b[:], &Envelope{DstSlot: e.DstSlot, SrcSlot: e.SrcSlot, DstGen: e.DstGen, SrcGen: e.SrcGen}, 0)
	for i := range FragLen / 8 {
		l[2+i] = binary.LittleEndian.Uint64(b[8*i:])
	}
	l[2] &^= loneLength
	return l
}

// loneLength is where word 2 has the length of the record.
const loneLength = 0xffff << 16

// SetMessage makes l that of a message with n bytes of payload, for which no accept is wanted.
func (l *Lone) SetMessage(number uint32, tag uint64, n int) {
	l[2] = l[2]&^loneLength | uint64(uint16(FragLen+n))<<16
	l[4] = uint64(number)
	l[5] = tag
}

// SetOuter makes l that of the frame with an outer header.
func (l *Lone) SetOuter(o Outer) { l[0], l[1] = o.Word(), o.Counter }

// PutFrag writes the header of the record into b[:FragLen].
func (l *Lone) PutFrag(b []byte) {
	_ = b[FragLen-1]
	for i := range FragLen / 8 {
		binary.LittleEndian.PutUint64(b[8*i:], l[2+i])
	}
}

// Heads reports whether record is a Frag between the two processes that l is of, with its whole payload and the given number, for which no
// accept is wanted.
func (l *Lone) Heads(record []byte, number uint32) bool {
	if len(record) < FragLen {
		return false
	}
	le := binary.LittleEndian
	return le.Uint64(record) == l[2]&^loneLength|uint64(uint16(len(record)))<<16 &&
		le.Uint64(record[8:]) == l[3] && le.Uint64(record[16:]) == uint64(number)
}

// FragTag is the tag of a Frag.
func FragTag(record []byte) uint64 { return binary.LittleEndian.Uint64(record[24:]) }
