package wire

import (
	"encoding/binary"
	"fmt"
)

// RecordLen is the length of the header that every record begins with, in bytes.
const RecordLen = 4

// MaxRecord is the largest record, in bytes: its length has 16 bits.
const MaxRecord = 1<<16 - 1

// Type is what a record is.
//
//	0  type    1
//	1  flags   1
//	2  length  2   of the whole record, this header included
type Type uint8

const (
	TypeVoid       Type = 1  // nothing: stands where a withdrawn piece was, so that its segment keeps its number
	TypeFrag       Type = 2  // a whole short message, with its envelope
	TypeEager      Type = 3  // a piece of a message sent without permission, with its envelope
	TypeChunk      Type = 4  // a piece of a message, PUT or GET that the receiver knows by its fragment id
	TypeRequest    Type = 5  // asks for permission to send a message: its envelope, without its data (QNIX-43)
	TypePermission Type = 6  // permits a fragment's bytes up to a limit (QNIX-42)
	TypeRefuse     Type = 7  // ends a message, PUT or GET with a reason
	TypeAccept     Type = 8  // a message or PUT has been accepted whole (decision 6)
	TypeWithdraw   Type = 9  // the sender gives a message up; its number is passed over
	TypeCredit     Type = 10 // hands out, recalls or returns credits (decision 8)
	TypePut        Type = 11 // asks for permission to PUT, or carries a short PUT whole (USNIC-31)
	TypeGet        Type = 12 // asks the peer's NIC for the bytes of a region (USNIC-54)
	TypeTable      Type = 13 // a piece of the NICs' own tables (QNIX-53)
	typeEnd        Type = 14
)

var typeNames = [typeEnd]string{"", "void", "frag", "eager", "chunk", "request", "permission", "refuse", "accept",
	"withdraw", "credit", "put", "get", "table"}

// headerLens has the length of each type's header, the common four bytes included; payload follows it.
var headerLens = [typeEnd]int{0, RecordLen, FragLen, EagerLen, ChunkLen, RequestLen, PermissionLen, RefuseLen, AcceptLen,
	WithdrawLen, CreditLen, PutLen, GetLen, RecordLen}

func (t Type) String() string {
	if t > 0 && t < typeEnd {
		return typeNames[t]
	}
	return fmt.Sprintf("record-%d", uint8(t))
}

// HeaderLen is the length of the header of a record of type t, in bytes; 0 for an unknown type.
func (t Type) HeaderLen() int {
	if t < typeEnd {
		return headerLens[t]
	}
	return 0
}

// Record is one record in a segment: the bytes of its header and payload, framing already checked.
type Record []byte

// Type is the record's type.
func (r Record) Type() Type { return Type(r[0]) }

// Flags are the record's flags; each type says what they mean.
func (r Record) Flags() uint8 { return r[1] }

// Payload is what lies behind the header of the record's type.
func (r Record) Payload() []byte { return r[headerLens[r[0]]:] }

// CheckRecords reports whether b is a sequence of whole records of known types, each at least as long as its header.
func CheckRecords(b []byte) error {
	for len(b) > 0 {
		if len(b) < RecordLen {
			return ErrShort
		}
		h := Type(b[0]).HeaderLen()
		n := int(binary.LittleEndian.Uint16(b[2:]))
		if h == 0 || n < h {
			return ErrFormat
		}
		if n > len(b) {
			return ErrShort
		}
		b = b[n:]
	}
	return nil
}

// NextRecord splits the first record off a non-empty sequence that CheckRecords has found good.
func NextRecord(b []byte) (r Record, rest []byte) {
	n := int(binary.LittleEndian.Uint16(b[2:]))
	return Record(b[:n:n]), b[n:]
}

// putRecord writes the common header of a record of n bytes.
func putRecord(b []byte, t Type, flags uint8, n int) {
	b[0], b[1] = byte(t), flags
	putLength(b, n)
}

// putLength writes the length of a record of n bytes. A longer one than MaxRecord would be cut to 16 bits and the rest
// of its segment misread, so it is refused here, where every record passes.
func putLength(b []byte, n int) {
	if uint(n) > MaxRecord {
		panic(fmt.Sprintf("wire: a record of %d bytes does not fit the 16 bits of its length", n))
	}
	binary.LittleEndian.PutUint16(b[2:], uint16(n))
}
