package wire

import (
	"encoding/binary"

	"github.com/weftnet/weft/internal/crc"
)

// The tag of a plain frame:
//
//	 0  CRC-32C     4   of the frame up to the tag
//	 4  zero        4
//	 8  cookie      8   the receiver's, told only to this sender in its Hello or HelloAck;
//	                    0 only in a Hello
//
// The CRC finds damage. The cookie is no cryptography, but it costs nothing, since the place is
// there for the AEAD tag. A sender that has not seen the session's frames cannot forge one, even
// if it knows the index.

// Seal writes the tag of a plain frame behind its first n bytes and returns the length of the
// whole frame. The frame must have FlagTagged set and room for TagLen more bytes.
func Seal(frame []byte, n int, cookie uint64) int {
	return SealSum(frame, n, cookie, Sum(frame[:n]))
}

// Sum returns the checksum of the beginning of a frame.
func Sum(begin []byte) uint32 { return crc.Checksum(begin) }

// SumCopy copies b into a frame behind bytes whose checksum is sum, and returns the checksum of
// both. So one pass over the payload serves both ends.
func SumCopy(to, b []byte, sum uint32) uint32 { return crc.Copy(to, b, sum) }

// SealSum is Seal for a frame whose first n bytes have the checksum sum.
func SealSum(frame []byte, n int, cookie uint64, sum uint32) int {
	t := frame[n : n+TagLen]
	binary.LittleEndian.PutUint32(t, sum)
	binary.LittleEndian.PutUint32(t[4:], 0)
	binary.LittleEndian.PutUint64(t[8:], cookie)
	return n + TagLen
}

// Open checks the tag of a plain frame that has one, and returns the length of the frame without
// it.
func Open(frame []byte, cookie uint64) (n int, err error) {
	n = len(frame) - TagLen
	if n < OuterLen {
		return 0, ErrShort
	}
	// The cookie is checked first: a flood of frames with guessed cookies should not cost a
	// checksum each.
	if t := frame[n:]; !promising(t, cookie) || binary.LittleEndian.Uint32(t) != crc.Checksum(frame[:n]) {
		return 0, ErrTag
	}
	return n, nil
}

// promising reports whether a tag is good except for its checksum.
func promising(tag []byte, cookie uint64) bool {
	return binary.LittleEndian.Uint64(tag[8:]) == cookie && binary.LittleEndian.Uint32(tag[4:]) == 0
}

// OpenInto checks the tag of a plain frame as Open does. In the same pass it copies the len(to)
// bytes before the tag to to. The copy is meaningful only if OpenInto returns true; if the cookie
// is wrong, there is no copy.
func OpenInto(to, frame []byte, cookie uint64) bool {
	n := len(frame) - TagLen
	t := frame[n:]
	at := n - len(to)
	return promising(t, cookie) && binary.LittleEndian.Uint32(t) == crc.Copy(to, frame[at:n], crc.Checksum(frame[:at]))
}
