package wire

import (
	"encoding/binary"
	"math"
)

// EnvelopeLen is the length of an envelope, in bytes.
const EnvelopeLen = 28

// Envelope is what the matcher needs to know of a message (QNIX-15). It is built once, when the
// command is detected. It precedes a short message, each piece of a message sent without
// permission, and the request for permission.
//
//	 0  destination slot        2
//	 2  source slot             2
//	 4  destination generation  4
//	 8  source generation       4
//	12  message number          4   of this source to this destination; it wraps (decision 5)
//	16  token                   4   sender's number of its operation, for Accept, Refuse and reply
//	20  tag                     8
//
// Flags travel in the flags of the record that carries the envelope.
type Envelope struct {
	Flags            uint8 // FlagReply, FlagAccept, FlagWhole
	DstSlot, SrcSlot uint16
	DstGen, SrcGen   uint32
	Number           uint32
	Token            uint32
	Tag              uint64
}

// Flags of an envelope.
const (
	// FlagReply answers a message: the tag is that message's token, and only a receive of replies
	// matches.
	FlagReply  uint8 = 1 << 1
	FlagAccept uint8 = 1 << 2 // the sender wants an Accept (SendDelivered)
	// FlagWhole is for an Eager whose process counts it as sent. So no later message has its turn
	// before all of this one has arrived.
	FlagWhole uint8 = 1 << 3

	envelopeFlags = FlagReply | FlagAccept
)

func (e *Envelope) put(b []byte) {
	_ = b[EnvelopeLen-1]
	le := binary.LittleEndian
	le.PutUint16(b, e.DstSlot)
	le.PutUint16(b[2:], e.SrcSlot)
	le.PutUint32(b[4:], e.DstGen)
	le.PutUint32(b[8:], e.SrcGen)
	le.PutUint32(b[12:], e.Number)
	le.PutUint32(b[16:], e.Token)
	le.PutUint64(b[20:], e.Tag)
}

func parseEnvelope(flags uint8, b []byte) Envelope {
	_ = b[EnvelopeLen-1]
	le := binary.LittleEndian
	return Envelope{
		Flags: flags, DstSlot: le.Uint16(b), SrcSlot: le.Uint16(b[2:]),
		DstGen: le.Uint32(b[4:]), SrcGen: le.Uint32(b[8:]),
		Number: le.Uint32(b[12:]), Token: le.Uint32(b[16:]), Tag: le.Uint64(b[20:]),
	}
}

// FragLen is the length of a Frag's header, in bytes.
const FragLen = RecordLen + EnvelopeLen

// PutFrag writes the header of a Frag of n payload bytes into b[:FragLen].
//
//	 4  envelope  28
//	32  payload
func PutFrag(b []byte, e *Envelope, n int) {
	_ = b[FragLen-1]
	putRecord(b, TypeFrag, e.Flags, FragLen+n)
	e.put(b[RecordLen:])
}

// Frag reads the envelope of a Frag.
func (r Record) Frag() Envelope { return parseEnvelope(r[1], r[RecordLen:]) }

// FragPayload is Payload for a Frag.
func (r Record) FragPayload() []byte { return r[FragLen:] }

// FragmentID is the sender's number for a fragment while the fragment is active. The receiver
// keeps it at slot id mod 2048. 0 means no fragment.
type FragmentID uint32

// ChunkLen is the length of a Chunk's header, in bytes.
const ChunkLen = 16

// FlagGet marks records about a GET. Their fragment id was chosen by the NIC that asked for the
// bytes and receives the pieces. A Refuse has the flag if the asker gives up.
const FlagGet uint8 = 1 << 0

// PutChunk writes the header of a Chunk of n payload bytes into b[:ChunkLen] (USNIC-23).
//
//	 4  fragment id  4
//	 8  offset       8   of the payload in the message
//	16  payload
func PutChunk(b []byte, flags uint8, id FragmentID, offset uint64, n int) {
	_ = b[ChunkLen-1]
	putRecord(b, TypeChunk, flags, ChunkLen+n)
	binary.LittleEndian.PutUint32(b[4:], uint32(id))
	binary.LittleEndian.PutUint64(b[8:], offset)
}

// Chunk reads the header of a Chunk, or the same fields of an Eager.
func (r Record) Chunk() (id FragmentID, offset uint64) {
	return FragmentID(binary.LittleEndian.Uint32(r[4:])), binary.LittleEndian.Uint64(r[8:])
}

// PatchPiece turns the header template in b into the header of a piece: it sets n payload bytes
// and, in a Chunk or an Eager, their offset. All else stays as PutFrag, PutEager, PutChunk or
// PutPut wrote it. So a fragment's header is built once and copied in front of each of its pieces
// (USNIC-23). A Frag or a Put has no offset and ignores it: it is whole in one piece.
func PatchPiece(b []byte, offset uint64, n int) {
	t := Type(b[0])
	putLength(b, t.HeaderLen()+n)
	switch t {
	case TypeChunk, TypeEager:
		binary.LittleEndian.PutUint64(b[8:], offset)
	case TypeFrag, TypePut:
	default:
		panic("wire: " + t.String() + " is not the header of a piece")
	}
}

// chunkOK reports whether a Chunk names a fragment and ends at an offset that a signed 64-bit
// number can hold, so that the receiver's sum cannot overflow.
func chunkOK(r Record) bool {
	id, offset := r.Chunk()
	return id != 0 && offset <= math.MaxInt64-uint64(len(r)-ChunkLen)
}

// EagerLen is the length of an Eager's header, in bytes.
const EagerLen = ChunkLen + 8 + EnvelopeLen

// PutEager writes the header of an Eager of n payload bytes into b[:EagerLen].
//
//	 4  fragment id  4
//	 8  offset       8
//	16  length       8   of the whole message
//	24  envelope     28
//	52  payload
//
// Pieces arrive in any order, so each has the envelope. That is affordable because only credit
// lets a message go this way.
func PutEager(b []byte, id FragmentID, offset, length uint64, e *Envelope, n int) {
	_ = b[EagerLen-1]
	putRecord(b, TypeEager, e.Flags, EagerLen+n)
	binary.LittleEndian.PutUint32(b[4:], uint32(id))
	binary.LittleEndian.PutUint64(b[8:], offset)
	binary.LittleEndian.PutUint64(b[ChunkLen:], length)
	e.put(b[ChunkLen+8:])
}

// Eager reads what an Eager has beyond a Chunk.
func (r Record) Eager() (length uint64, e Envelope) {
	return binary.LittleEndian.Uint64(r[ChunkLen:]), parseEnvelope(r[1], r[ChunkLen+8:])
}

// eagerOK reports whether an Eager names a fragment and lies within its message.
func eagerOK(r Record) bool {
	id, offset := r.Chunk()
	length, _ := r.Eager()
	return id != 0 && length <= math.MaxInt64 && offset <= length && uint64(len(r)-EagerLen) <= length-offset
}

// WithdrawLen is the length of a Withdraw, in bytes.
const WithdrawLen = 8 + EnvelopeLen

// PutWithdraw writes a Withdraw into b[:WithdrawLen]: the sender gives up the message with this
// envelope. The receiver knows the fragment if it knows anything of the message. The id is 0 if
// no piece or request of it has left. For a PUT the envelope is empty.
//
//	4  fragment id   4
//	8  envelope     28   its tag is the credit used by the message, in bytes: 0 if it asked
//	                     for permission
func PutWithdraw(b []byte, id FragmentID, e *Envelope) {
	_ = b[WithdrawLen-1]
	putRecord(b, TypeWithdraw, e.Flags, WithdrawLen)
	binary.LittleEndian.PutUint32(b[4:], uint32(id))
	e.put(b[8:])
}

// Withdraw reads a Withdraw.
func (r Record) Withdraw() (FragmentID, Envelope) {
	return FragmentID(binary.LittleEndian.Uint32(r[4:])), parseEnvelope(r[1], r[8:])
}
