package wire

import (
	"encoding/binary"
	"fmt"
)

// RecordLen is the length of the header that every record begins with, in bytes.
const RecordLen = 4

// MaxRecord is the largest record, in bytes: its length has 16 bits.
const MaxRecord = 1<<16 - 1

// Type is the type of a record. Every record begins with this header:
//
//	0  type    1
//	1  flags   1
//	2  length  2   of the whole record, this header included
type Type uint8

const (
	// TypeVoid means nothing. It replaces a withdrawn piece, so that its segment keeps its
	// number.
	TypeVoid  Type = 1
	TypeFrag  Type = 2 // a whole short message, with its envelope
	TypeEager Type = 3 // a piece of a message sent without permission, with its envelope
	// TypeChunk is a piece of a message, PUT or GET that the receiver knows by its fragment id.
	TypeChunk Type = 4
	// TypeRequest asks for permission to send a message. It has the message's envelope, without
	// the data (QNIX-43).
	TypeRequest    Type = 5
	TypePermission Type = 6  // permits a fragment's bytes up to a limit (QNIX-42)
	TypeRefuse     Type = 7  // ends a message, PUT or GET with a reason
	TypeAccept     Type = 8  // a message or PUT has been accepted whole (decision 6)
	TypeWithdraw   Type = 9  // the sender gives up a message; its number is passed over
	TypeCredit     Type = 10 // grants, recalls or returns credits (decision 8)
	TypePut        Type = 11 // asks for permission to PUT, or carries a short PUT whole (USNIC-31)
	TypeGet        Type = 12 // asks the peer's NIC for the bytes of a region (USNIC-54)
	TypeTable      Type = 13 // a piece of the NICs' own tables (QNIX-53)
	TypeSignal     Type = 14 // one step of a collective operation, without data
	TypePiece      Type = 15 // a piece of a collective operation's data
	TypeRelay      Type = 16 // a piece of a message to several processes, to be passed on (QNIX-11)
	TypeRelayed    Type = 17 // names the receivers that a relay has missed
	TypeRun        Type = 18 // consecutive whole short messages, with one envelope
	TypeProgram    Type = 19 // a message to a program, or a piece of one (PANIC-15)
	TypeHandled    Type = 20 // returns room for such messages, and tells the outcome of one
	typeEnd        Type = 21
)

// shape holds the rules by which CheckRecords checks a record of one type.
type shape struct {
	name   string
	header int               // length of its header in bytes, the common four included
	fixed  bool              // no payload follows the header
	flags  uint8             // the allowed flags
	ok     func(Record) bool // checks that its fields are consistent; nil if they cannot be wrong
}

var shapes = [typeEnd]shape{
	TypeVoid:       {name: "void", header: RecordLen},
	TypeFrag:       {name: "frag", header: FragLen, flags: envelopeFlags},
	TypeEager:      {name: "eager", header: EagerLen, flags: envelopeFlags | FlagWhole, ok: eagerOK},
	TypeChunk:      {name: "chunk", header: ChunkLen, flags: FlagGet, ok: chunkOK},
	TypeRequest:    {name: "request", header: RequestLen, fixed: true, flags: envelopeFlags, ok: requestOK},
	TypePermission: {name: "permission", header: PermissionLen, fixed: true, flags: FlagGet, ok: permissionOK},
	TypeRefuse:     {name: "refuse", header: RefuseLen, fixed: true, flags: FlagGet},
	TypeAccept:     {name: "accept", header: AcceptLen, fixed: true, ok: acceptOK},
	TypeWithdraw:   {name: "withdraw", header: WithdrawLen, fixed: true, flags: envelopeFlags},
	TypeCredit:     {name: "credit", header: CreditLen, fixed: true, flags: FlagRecall | FlagReturn, ok: creditOK},
	TypePut:        {name: "put", header: PutLen, ok: putOK},
	TypeGet:        {name: "get", header: GetLen, fixed: true, ok: getOK},
	TypeTable:      {name: "table", header: RecordLen},
	TypeSignal:     {name: "signal", header: SignalLen, fixed: true, ok: signalOK},
	TypePiece:      {name: "piece", header: PieceLen, ok: pieceOK},
	TypeRelay:      {name: "relay", header: RelayLen, ok: relayOK},
	TypeRelayed:    {name: "relayed", header: RelayedLen, flags: FlagNone, ok: relayedOK},
	TypeRun:        {name: "run", header: RunLen, ok: runOK},
	TypeProgram:    {name: "program", header: ProgramLen, flags: FlagAccept, ok: programOK},
	TypeHandled:    {name: "handled", header: HandledLen, fixed: true, ok: handledOK},
}

func (t Type) String() string {
	if t > 0 && t < typeEnd {
		return shapes[t].name
	}
	return fmt.Sprintf("record-%d", uint8(t))
}

// HeaderLen is the length of the header of a record of type t, in bytes; 0 for an unknown type.
func (t Type) HeaderLen() int {
	if t < typeEnd {
		return shapes[t].header
	}
	return 0
}

// Record is one record in a segment: the bytes of its header and payload. Its framing has been
// checked.
type Record []byte

// Type returns the record's type.
func (r Record) Type() Type { return Type(r[0]) }

// Flags returns the record's flags. Each type gives them a meaning.
func (r Record) Flags() uint8 { return r[1] }

// Payload returns the bytes after the header of the record's type.
func (r Record) Payload() []byte { return r[shapes[r[0]].header:] }

// CheckRecords returns nil if b is a sequence of whole, well-formed records: known types and
// flags, lengths that fit the type, and consistent fields. It does not check values that a
// process chose.
func CheckRecords(b []byte) error {
	if LoneFrag(b) {
		return nil
	}
	for len(b) > 0 {
		if len(b) < RecordLen {
			return ErrShort
		}
		if b[0] == 0 || b[0] >= byte(typeEnd) {
			return ErrFormat
		}
		s := &shapes[b[0]]
		n := int(binary.LittleEndian.Uint16(b[2:]))
		if n < s.header || s.fixed && n > s.header || b[1]&^s.flags != 0 {
			return ErrFormat
		}
		if n > len(b) {
			return ErrShort
		}
		if s.ok != nil && !s.ok(Record(b[:n:n])) {
			return ErrFormat
		}
		b = b[n:]
	}
	return nil
}

// LoneFrag reports whether b is exactly one Frag that CheckRecords would accept. Most segments
// are, and this test is cheap.
func LoneFrag(b []byte) bool {
	return len(b) >= FragLen && b[0] == byte(TypeFrag) && b[1]&^envelopeFlags == 0 &&
		int(binary.LittleEndian.Uint16(b[2:])) == len(b)
}

// length returns the length that the record states, in bytes.
func (r Record) length() int { return int(binary.LittleEndian.Uint16(r[2:])) }

// NextRecord splits the first record off a non-empty sequence that CheckRecords has accepted.
func NextRecord(b []byte) (r Record, rest []byte) {
	n := Record(b).length()
	return Record(b[:n:n]), b[n:]
}

// putRecord writes the common header of a record of n bytes.
func putRecord(b []byte, t Type, flags uint8, n int) {
	b[0], b[1] = byte(t), flags
	putLength(b, n)
}

// putLength writes the length of a record of n bytes. The length of a record over MaxRecord would
// be cut to 16 bits, and the rest of its segment misread. So putLength, which every record
// passes, panics.
func putLength(b []byte, n int) {
	if uint(n) > MaxRecord {
		panic("wire: a record longer than MaxRecord does not fit the 16 bits of its length")
	}
	binary.LittleEndian.PutUint16(b[2:], uint16(n))
}
