package wire

import (
	"encoding/binary"

	"github.com/weftnet/weft/internal/crc"
)

// The tag of a plain frame:
//
//	 0  CRC-32C     4   of the frame up to the tag
//	 4  zero        4
//	 8  cookie      8   the receiver's, told to this sender alone in its Hello or HelloAck; 0 in a Hello, and only there
//
// The CRC finds damage. The cookie is no cryptography, but it costs nothing, since the place is there for the AEAD tag:
// a sender that has not seen the session's frames cannot forge one, even knowing its index.

// Seal writes the tag of a plain frame behind its first n bytes and returns the length of the whole.
// The frame must have FlagTagged set and room for TagLen bytes more.
func Seal(frame []byte, n int, cookie uint64) int {
	return SealSum(frame, n, cookie, Sum(frame[:n]))
}

// Sum is the checksum of the beginning of a frame.
func Sum(begin []byte) uint32 { return crc.Checksum(begin) }

// SumCopy copies b into a frame behind what sum is the checksum of, and returns that of both: one look at the payload serves both ends.
func SumCopy(to, b []byte, sum uint32) uint32 { return crc.Copy(to, b, sum) }

// SealSum is Seal of a frame whose first n bytes have that checksum.
func SealSum(frame []byte, n int, cookie uint64, sum uint32) int {
	t := frame[n : n+TagLen]
	binary.LittleEndian.PutUint32(t, sum)
	binary.LittleEndian.PutUint32(t[4:], 0)
	binary.LittleEndian.PutUint64(t[8:], cookie)
	return n + TagLen
}

// Open checks the tag of a plain frame that carries one, and returns the length of the frame without it.
func Open(frame []byte, cookie uint64) (n int, err error) {
	n = len(frame) - TagLen
	if n < OuterLen {
		return 0, ErrShort
	}
	// The cookie first: a flood of frames that guess it should not cost a checksum each.
	if t := frame[n:]; !promising(t, cookie) || binary.LittleEndian.Uint32(t) != crc.Checksum(frame[:n]) {
		return 0, ErrTag
	}
	return n, nil
}

// promising reports whether a tag is good but for its checksum.
func promising(tag []byte, cookie uint64) bool {
	return binary.LittleEndian.Uint64(tag[8:]) == cookie && binary.LittleEndian.Uint32(tag[4:]) == 0
}

// OpenInto checks the tag of a plain frame as Open does, and copies what stands before it to to, whose length that is, in the same
// pass. Only if it is true does the copy mean anything; if the cookie is wrong there is none.
func OpenInto(to, frame []byte, cookie uint64) bool {
	n := len(frame) - TagLen
	t := frame[n:]
	at := n - len(to)
	return promising(t, cookie) && binary.LittleEndian.Uint32(t) == crc.Copy(to, frame[at:n], crc.Checksum(frame[:at]))
}
