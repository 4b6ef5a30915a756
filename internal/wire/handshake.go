package wire

import "encoding/binary"

// A Handshake is the body of a Hello, a HelloAck and a Finish on a sealed link:
//
//	 0  pattern          1   1 XX, 2 IK; 0 refuses the peer's version, without a Noise message
//	 1  message          1   1 in a Hello, 2 in a HelloAck, 3 in a Finish
//	 2  length           2   of the Noise message, in bytes
//	 4  sender's index   4   of its session; what is inside the Noise message says the same
//	 8  lowest version   1
//	 9  highest version  1
//	10  zero             2
//	12  Noise message
//	    zeros                so that a Hello is as long as its answer
//	    mac1            16   over the frame so far, keyed by the fabric key
//	    mac2            16   over the frame so far and mac1, keyed by a Cookie; zero without one
//
// The payload of Noise messages 1 and 2 is a Hello, followed by the sender's certificate, if it
// has one. An XX initiator sends its certificate in message 3.
type Handshake struct {
	Pattern, Message       uint8
	Index                  uint32
	MinVersion, MaxVersion uint8
	Noise                  []byte
}

// Patterns of Handshake.
const (
	PatternNone uint8 = 0 // no version in common
	PatternXX   uint8 = 1
	PatternIK   uint8 = 2
)

// MACLen is the length of each MAC behind a Handshake, in bytes.
const MACLen = 16

// HandshakeHead is the length of a Handshake before its Noise message, in bytes.
const HandshakeHead = 12

// HandshakeLeast is the length of the shortest frame with a Handshake, in bytes.
const HandshakeLeast = OuterLen + HandshakeHead + 2*MACLen

// Put writes the body of a frame, of the given length, up to the MACs, and pads it with zeros.
func (h *Handshake) Put(b []byte, length int) {
	le := binary.LittleEndian
	b[0], b[1] = h.Pattern, h.Message
	le.PutUint16(b[2:], uint16(len(h.Noise)))
	le.PutUint32(b[4:], h.Index)
	b[8], b[9], b[10], b[11] = h.MinVersion, h.MaxVersion, 0, 0
	n := HandshakeHead + copy(b[HandshakeHead:], h.Noise)
	clear(b[n:length])
}

// Len returns the length of the body before padding and MACs, in bytes.
func (h *Handshake) Len() int { return HandshakeHead + len(h.Noise) }

// ParseHandshake reads the body of a frame without its MACs. Noise refers to the frame.
func ParseHandshake(b []byte) (h Handshake, err error) {
	if len(b) < HandshakeHead {
		return h, ErrShort
	}
	le := binary.LittleEndian
	h = Handshake{
		Pattern: b[0], Message: b[1], Index: le.Uint32(b[4:]), MinVersion: b[8], MaxVersion: b[9],
	}
	n := int(le.Uint16(b[2:]))
	switch {
	case n > len(b)-HandshakeHead:
		return h, ErrShort
	case h.Pattern > PatternIK || h.Message < 1 || h.Message > 3 || h.Index == 0 || b[10]|b[11] != 0:
		return h, ErrFormat
	case h.MinVersion < 1 || h.MinVersion > h.MaxVersion || (n == 0) != (h.Pattern == PatternNone):
		return h, ErrFormat
	}
	h.Noise = b[HandshakeHead : HandshakeHead+n]
	for _, z := range b[HandshakeHead+n:] {
		if z != 0 {
			return h, ErrFormat
		}
	}
	return h, nil
}

// CookieLen is the length of a Cookie's body, in bytes.
const CookieLen = 24 + MACLen + 16

// Cookie is the answer of a NIC that receives more Hellos than it can process. With the cookie as
// the key of mac2 in its next Hello, the sender of the Hello proves that it receives at its
// address:
//
//	 0  nonce   24
//	24  sealed  32   the cookie, by XChaCha20-Poly1305 with a fabric key; additional data:
//	                 mac1 of the Hello
type Cookie struct {
	Nonce  [24]byte
	Sealed [MACLen + 16]byte
}

// Put writes the body into b[:CookieLen].
func (c *Cookie) Put(b []byte) {
	_ = b[CookieLen-1]
	copy(b, c.Nonce[:])
	copy(b[len(c.Nonce):], c.Sealed[:])
}

// ParseCookie reads a body.
func ParseCookie(b []byte) (c Cookie, err error) {
	switch {
	case len(b) < CookieLen:
		return c, ErrShort
	case len(b) > CookieLen:
		return c, ErrFormat
	}
	copy(c.Nonce[:], b)
	copy(c.Sealed[:], b[len(c.Nonce):])
	return c, nil
}

// RekeyHead is the length of a Rekey's body before its Noise message, in bytes.
const RekeyHead = 4

// Rekey is the body of a KindRekey: one message of a handshake for fresh keys, inside a sealed
// session.
//
//	0  message        1   1 offers, 2 answers
//	1  zero           1
//	2  number         2   of the handshake, from 1
//	4  Noise message
type Rekey struct {
	Message uint8
	Number  uint16
	Noise   []byte
}

// Put writes the body and returns its length.
func (r *Rekey) Put(b []byte) int {
	b[0], b[1] = r.Message, 0
	binary.LittleEndian.PutUint16(b[2:], r.Number)
	return RekeyHead + copy(b[RekeyHead:], r.Noise)
}

// ParseRekey reads a body. Noise refers to it.
func ParseRekey(b []byte) (r Rekey, err error) {
	if len(b) <= RekeyHead {
		return r, ErrShort
	}
	r = Rekey{Message: b[0], Number: binary.LittleEndian.Uint16(b[2:]), Noise: b[RekeyHead:]}
	if r.Message < 1 || r.Message > 2 || b[1] != 0 || r.Number == 0 {
		return r, ErrFormat
	}
	return r, nil
}
