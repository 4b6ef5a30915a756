// Package wire defines the formats of everything that Weft puts on a network. docs/wire.md
// describes them byte by byte.
//
// All numbers are little-endian. A frame is what a driver sends in one piece:
//
//	0               16                                              n-16           n
//	┌───────────────┬──────────────────────────────────────────────┬───────────────┐
//	│ outer header  │ body: by kind                                │ tag           │
//	└───────────────┴──────────────────────────────────────────────┴───────────────┘
//	┌───────────────┬───────────────┬────────┬────────┬───     ────┬───────────────┐
//	│ outer, Data   │ inner header  │ record │ record │ …          │ tag           │
//	└───────────────┴───────────────┴────────┴────────┴───     ────┴───────────────┘
//
// The outer header stays in the clear; the rest is what sealing encrypts. The body of a Data
// frame is one segment: its inner header gives it a place in the sequence of its space, and its
// records are pieces of messages. A retransmitted segment has the same sequence number, in a new
// frame with a new packet counter.
//
//	outer header            16 bytes
//	 0  version<<4 | kind   1
//	 1  flags               1
//	 2  magic "WF"          2
//	 4  receiver's index    4   the session at the receiver; 0 only in a Hello, which has none yet
//	 8  packet counter      8   from 1, never reused in a session, not even by a retransmission
//
// Every type comes as a length, a Put that writes into memory which the caller has reserved, and
// a Parse (for records: CheckRecords, then an accessor). Parse checks once; accessors afterwards
// cannot fail.
//
// Parsers are strict: a frame has one spelling. Unknown flags, nonzero bytes that should be zero,
// and excess bytes are ErrFormat. So no frame has a meaning to one implementation and none to
// another. Only a Hello is lenient, because it is how versions find each other.
//
// A value that a user's process can choose — a tag, a key, a range in a region — is never a
// question of format: a NIC answers a bad one with a Refuse. Dropping its frame instead would let
// one process spoil the session of all.
package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Version is the version of the formats in this package. Hello negotiates it.
const Version = 1

// OuterLen is the length of the outer header, in bytes.
const OuterLen = 16

// TagLen is the length of the tag behind the body, in bytes, if a frame has one.
const TagLen = 16

// Kind is the kind of a frame's body.
type Kind uint8

const (
	KindHello Kind = 1 // opens a pair (decision 3)
	// KindHelloAck answers a Hello, with the index and cookie from it. Any frame of the new
	// session answers it.
	KindHelloAck Kind = 2
	KindData     Kind = 3 // one sequenced segment
	KindAck      Kind = 4 // only acknowledgements, without a sequence number of its own (USNIC-34)
	// KindProbe asks for a ProbeReply of the same size: keepalive and connectivity check
	// (USNIC-61).
	KindProbe      Kind = 5
	KindProbeReply Kind = 6
	// KindGoodbye: the sender's NIC is closing in an orderly way. It has no body; a body is
	// ignored.
	KindGoodbye Kind = 7
	KindPart    Kind = 8 // a piece of a segment whose frame is too long for its path
	// KindPlain is the next segment of the command space, between links that keep order and lose
	// nothing.
	KindPlain    Kind = 9
	KindDatagram Kind = 10 // a datagram or a piece of one: neither in a sequence nor acknowledged
	KindRekey    Kind = 11 // carries a handshake for fresh keys inside a sealed session
	KindFinish   Kind = 12 // ends the handshake of a sealed link; its body is a Handshake
	KindCookie   Kind = 13 // asks the sender of a Hello to prove its address; see Cookie

	lastKind = KindCookie
)

var kindNames = [...]string{
	"", "hello", "hello-ack", "data", "ack", "probe", "probe-reply", "goodbye", "part", "plain", "datagram",
	"rekey", "finish", "cookie",
}

// OfHandshake reports whether frames of kind k open a session.
func (k Kind) OfHandshake() bool {
	return k == KindHello || k == KindHelloAck || k == KindFinish || k == KindCookie
}

// ofSession reports whether frames of kind k are protected by the keys of an open session.
func (k Kind) ofSession() bool { return k > KindHelloAck && k <= KindRekey }

func (k Kind) String() string {
	if k >= KindHello && k <= lastKind {
		return kindNames[k]
	}
	return fmt.Sprintf("kind-%d", uint8(k))
}

// Flags of the outer header.
const (
	FlagTagged uint8 = 1 << 0 // a checksum and a cookie follow the body
	// FlagSealed: the frame belongs to a sealed link. An AEAD tag follows the body, or MACs
	// follow a Handshake.
	FlagSealed uint8 = 1 << 1
	FlagPhase  uint8 = 1 << 2 // which of two keys sealed the frame
	// FlagClear: the inner header and the head of the frame's one Chunk are in the clear; the
	// payload is sealed.
	FlagClear uint8 = 1 << 3
)

// ClearLen is how many bytes of a sealed frame with FlagClear are in the clear. The tag covers
// them.
const ClearLen = OuterLen + InnerLen + ChunkLen

// varying holds the bits of a header's first word that differ between the frames of a sealed
// session, apart from the kind.
const varying = uint64(FlagPhase|FlagClear) << 8

// ResidentBit is set in the index of frames from a program in the driver of the sending NIC. It
// is clear in every index that a NIC gives out. Such frames belong to the session of the index
// without the bit, and have their own packet counter.
const ResidentBit uint32 = 1 << 31

const magic = 'W' | 'F'<<8

// Errors of every parser in this package. They are values without detail, because they are
// counted, not shown.
var (
	ErrShort   = errors.New("wire: too short")
	ErrMagic   = errors.New("wire: not a Weft frame")
	ErrVersion = errors.New("wire: version not spoken here")
	ErrKind    = errors.New("wire: unknown kind")
	ErrTag     = errors.New("wire: tag does not fit the frame")
	ErrFormat  = errors.New("wire: malformed")
)

// Outer is the outer header.
type Outer struct {
	Kind    Kind
	Flags   uint8
	Index   uint32 // the session at the receiver; 0 only in a Hello
	Counter uint64 // from 1
}

// Word returns the first of the header's two words; the second is the packet counter.
func (o Outer) Word() uint64 {
	return uint64(o.Index)<<32 | magic<<16 | uint64(o.Flags)<<8 | Version<<4 | uint64(o.Kind)
}

// Put writes the header into b[:OuterLen].
func (o Outer) Put(b []byte) {
	_ = b[OuterLen-1]
	binary.LittleEndian.PutUint64(b, o.Word())
	binary.LittleEndian.PutUint64(b[8:], o.Counter)
}

// ParseNext reads the outer header of a frame of an open session. The caller knows the first word
// of such a header except for the kind, and on a sealed link except for the flags phase and
// clear. ok is false for every other frame, good or not; ParseOuter tells what it is.
func ParseNext(frame []byte, word uint64) (o Outer, ok bool) {
	if len(frame) < OuterLen {
		return o, false
	}
	first := binary.LittleEndian.Uint64(frame)
	differs, sealed := first^word, word&(uint64(FlagSealed)<<8) != 0
	if sealed {
		differs &^= varying
	}
	k := Kind(differs)
	o = Outer{
		Kind: k, Flags: uint8(first >> 8), Index: uint32(word >> 32), Counter: binary.LittleEndian.Uint64(frame[8:]),
	}
	if sealed {
		ok = k.ofSession() && (o.Flags&FlagClear == 0 || k == KindData)
	} else {
		ok = k >= KindHelloAck && k <= KindDatagram
	}
	return o, ok && differs <= 0x0f && o.Counter != 0
}

// ParseOuter reads the outer header of a frame and returns it with the bytes behind it: the body,
// then the tag if flagged. A Hello of another version parses: the code that handles hellos judges
// its range of versions.
//
// Nothing in the header can be trusted before Open has accepted the tag, FlagTagged included: on
// a link that needs tags, the caller drops a frame without one.
func ParseOuter(frame []byte) (o Outer, rest []byte, err error) {
	if len(frame) < OuterLen {
		return o, nil, ErrShort
	}
	if binary.LittleEndian.Uint16(frame[2:]) != magic {
		return o, nil, ErrMagic
	}
	version, kind, flags := frame[0]>>4, Kind(frame[0]&0x0f), frame[1]
	if version != Version {
		if kind != KindHello && kind != KindHelloAck {
			return o, nil, ErrVersion
		}
		flags &= FlagTagged | FlagSealed // a later version may have new flags in its Hello
	}
	if kind < KindHello || kind > lastKind {
		return o, nil, ErrKind
	}
	h := Outer{
		Kind: kind, Flags: flags, Index: binary.LittleEndian.Uint32(frame[4:]),
		Counter: binary.LittleEndian.Uint64(frame[8:]),
	}
	if !flagsOK(kind, flags) || h.Counter == 0 || (h.Index == 0) != (kind == KindHello) {
		return o, nil, ErrFormat
	}
	return h, frame[OuterLen:], nil
}

// flagsOK reports whether frames of kind k may have the flags.
func flagsOK(k Kind, flags uint8) bool {
	switch {
	case flags&FlagSealed == 0:
		return flags&^FlagTagged == 0 && k <= KindDatagram
	case !k.ofSession():
		return flags == FlagSealed
	case k == KindData:
		return flags&^(FlagSealed|FlagPhase|FlagClear) == 0
	}
	return flags&^(FlagSealed|FlagPhase) == 0
}
