package wire

import "encoding/binary"

// LoneLen is the length of a Lone, in bytes.
const LoneLen = OuterLen + FragLen

// Lone holds everything before the payload in the frame of most short messages over shared
// memory: a Plain without a tag, with one Frag and nothing else. It has six words, which are
// written and compared as words:
//
//	0  start of a Plain 4   session index 4
//	1  packet counter   8
//	2  type 1, flags 1, length 2   destination slot 2, source slot 2
//	3  destination generation 4   source generation 4
//	4  number 4   token 4
//	5  tag    8
type Lone [LoneLen / 8]uint64

// LoneOf returns the Lone for messages between two processes. The rest of the envelope, the
// session and the length are set for each message.
func LoneOf(e *Envelope) (l Lone) {
	var b [FragLen]byte
	PutFrag(b[:], &Envelope{DstSlot: e.DstSlot, SrcSlot: e.SrcSlot, DstGen: e.DstGen, SrcGen: e.SrcGen}, 0)
	for i := range FragLen / 8 {
		l[2+i] = binary.LittleEndian.Uint64(b[8*i:])
	}
	l[2] &^= loneLength
	return l
}

// loneLength masks the length of the record in word 2.
const loneLength = 0xffff << 16

// SetMessage sets l for a message with n bytes of payload that needs no accept.
func (l *Lone) SetMessage(number uint32, tag uint64, n int) {
	l[2] = l[2]&^loneLength | uint64(uint16(FragLen+n))<<16
	l[4] = uint64(number)
	l[5] = tag
}

// SetOuter sets l for the frame with outer header o.
func (l *Lone) SetOuter(o Outer) { l[0], l[1] = o.Word(), o.Counter }

// PutFrag writes the header of the record into b[:FragLen].
func (l *Lone) PutFrag(b []byte) {
	_ = b[FragLen-1]
	for i := range FragLen / 8 {
		binary.LittleEndian.PutUint64(b[8*i:], l[2+i])
	}
}

// Heads reports whether record is a Frag between the two processes of l, with its whole payload
// and the given number, that needs no accept.
func (l *Lone) Heads(record []byte, number uint32) bool {
	if len(record) < FragLen {
		return false
	}
	le := binary.LittleEndian
	return le.Uint64(record) == l[2]&^loneLength|uint64(uint16(len(record)))<<16 &&
		le.Uint64(record[8:]) == l[3] && le.Uint64(record[16:]) == uint64(number)
}

// FragTag returns the tag of a Frag.
func FragTag(record []byte) uint64 { return binary.LittleEndian.Uint64(record[24:]) }
