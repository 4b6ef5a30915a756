package wire

import (
	"encoding/binary"
	"fmt"
	"math"
)

// RequestLen is the length of a Request, in bytes.
const RequestLen = 32 + EnvelopeLen

// Request asks for permission to send (QNIX-43): destination, source and tag are in the envelope.
//
//	 4  fragment id    4
//	 8  length         8   of the message in bytes
//	16  packets        4   of the message
//	20  packet length  4   bytes of the message in each but the last
//	24  ready          8   bytes of it that can leave as soon as they are permitted
//	32  envelope       28
//
// Packets and packet length help the receiver to plan; it relies on the length alone. If its
// process describes a message piece by piece, the message is not ready at once. Its Request then
// comes again, with only ready changed, whenever there is more. The largest ready that has
// arrived counts.
type Request struct {
	ID        FragmentID
	Length    uint64
	Packets   uint32
	PacketLen uint32
	Ready     uint64
	Envelope  Envelope
}

// Put writes the record into b[:RequestLen].
func (q *Request) Put(b []byte) {
	_ = b[RequestLen-1]
	putRecord(b, TypeRequest, q.Envelope.Flags, RequestLen)
	le := binary.LittleEndian
	le.PutUint32(b[4:], uint32(q.ID))
	le.PutUint64(b[8:], q.Length)
	le.PutUint32(b[16:], q.Packets)
	le.PutUint32(b[20:], q.PacketLen)
	le.PutUint64(b[24:], q.Ready)
	q.Envelope.put(b[32:])
}

// Request reads a Request.
func (r Record) Request() Request {
	_ = r[RequestLen-1]
	le := binary.LittleEndian
	return Request{
		ID: FragmentID(le.Uint32(r[4:])), Length: le.Uint64(r[8:]), Packets: le.Uint32(r[16:]),
		PacketLen: le.Uint32(r[20:]), Ready: le.Uint64(r[24:]), Envelope: parseEnvelope(r[1], r[32:]),
	}
}

// requestOK reports whether a Request names a fragment, has a length that a signed 64-bit number
// can hold, and has no more bytes ready than that.
func requestOK(r Record) bool {
	q := r.Request()
	return q.ID != 0 && q.Length <= math.MaxInt64 && q.Ready <= q.Length
}

// PermissionLen is the length of a Permission, in bytes.
const PermissionLen = 16

// PutPermission writes a Permission into b[:PermissionLen]: the fragment's bytes below limit may
// be sent. Limits only grow, so a Permission that overtakes another does no harm. With FlagGet,
// the receiving NIC has asked for the fragment.
//
//	4  fragment id  4
//	8  limit        8
func PutPermission(b []byte, flags uint8, id FragmentID, limit uint64) {
	_ = b[PermissionLen-1]
	putRecord(b, TypePermission, flags, PermissionLen)
	binary.LittleEndian.PutUint32(b[4:], uint32(id))
	binary.LittleEndian.PutUint64(b[8:], limit)
}

// Permission reads a Permission.
func (r Record) Permission() (id FragmentID, limit uint64) {
	return FragmentID(binary.LittleEndian.Uint32(r[4:])), binary.LittleEndian.Uint64(r[8:])
}

func permissionOK(r Record) bool {
	id, _ := r.Permission()
	return id != 0
}

// Reason is why a message, PUT or GET was refused. A reason that the receiver does not know ends
// the operation all the same.
type Reason uint16

const (
	ReasonNone            Reason = 0
	ReasonProcessGone     Reason = 1 // the slot has no process, or it is leaving
	ReasonStaleGeneration Reason = 2 // the slot has a newer process
	ReasonRegion          Reason = 3 // no such region, or not its key
	ReasonRange           Reason = 4 // bytes beyond the end of the region
	ReasonCancelled       Reason = 5 // the asker withdrew
	// ReasonTruncated: the message was delivered, but the receiver's buffer was shorter.
	ReasonTruncated Reason = 6
	ReasonFiltered  Reason = 7 // a filter in front of the receiver dropped the message
	// ReasonNoReceiver: the message was for a library's port on which its receiver has never
	// received.
	ReasonNoReceiver Reason = 8
	reasons          Reason = 9
)

var reasonNames = [reasons]string{
	"none", "process-gone", "stale-generation", "region", "range", "cancelled", "truncated", "filtered", "no-receiver",
}

func (r Reason) String() string {
	if r < reasons {
		return reasonNames[r]
	}
	return fmt.Sprintf("reason-%d", uint16(r))
}

// RefuseLen is the length of a Refuse, in bytes.
const RefuseLen = 16

// PutRefuse writes a Refuse into b[:RefuseLen]: the operation with this token of the process at
// slot has failed. With FlagGet it goes in the other direction: the asker of the GET gives it up,
// and the fragment id names it.
//
//	 4  fragment id  4   its fragment, 0 if it has none
//	 8  token        4
//	12  reason       2
//	14  slot         2   of the process whose operation it is
func PutRefuse(b []byte, flags uint8, id FragmentID, slot uint16, token uint32, why Reason) {
	_ = b[RefuseLen-1]
	putRecord(b, TypeRefuse, flags, RefuseLen)
	le := binary.LittleEndian
	le.PutUint32(b[4:], uint32(id))
	le.PutUint32(b[8:], token)
	le.PutUint16(b[12:], uint16(why))
	le.PutUint16(b[14:], slot)
}

// Refuse reads a Refuse.
func (r Record) Refuse() (id FragmentID, slot uint16, token uint32, why Reason) {
	le := binary.LittleEndian
	return FragmentID(le.Uint32(r[4:])), le.Uint16(r[14:]), le.Uint32(r[8:]), Reason(le.Uint16(r[12:]))
}

// AcceptLen is the length of an Accept, in bytes.
const AcceptLen = 12

// PutAccept writes an Accept into b[:AcceptLen]: the operation with this token of the process at
// slot is accepted whole.
//
//	 4  token  4
//	 8  slot   2
//	10  zero   2
func PutAccept(b []byte, slot uint16, token uint32) {
	putRecord(b, TypeAccept, 0, AcceptLen)
	binary.LittleEndian.PutUint32(b[4:], token)
	binary.LittleEndian.PutUint16(b[8:], slot)
	binary.LittleEndian.PutUint16(b[10:], 0)
}

// Accept reads an Accept.
func (r Record) Accept() (slot uint16, token uint32) {
	return binary.LittleEndian.Uint16(r[8:]), binary.LittleEndian.Uint32(r[4:])
}

func acceptOK(r Record) bool { return r[10]|r[11] == 0 }

// CreditLen is the length of a Credit, in bytes.
const CreditLen = 20

// Flags of a Credit: its action; at most one is set. Without a flag it grants credit.
const (
	FlagRecall uint8 = 1 << 0 // the receiver wants unused credit back
	FlagReturn uint8 = 1 << 1 // the sender returns credit: Bytes is its new total
)

// Credit is about the bytes that a NIC may send to one process without permission (decision 8).
// Totals count from the start of the session and only grow, so records may arrive in any order.
//
//	 4  slot        2
//	 6  zero        2
//	 8  generation  4
//	12  bytes       8   granted so far, or used and returned so far
type Credit struct {
	Flags uint8
	Slot  uint16
	Gen   uint32
	Bytes uint64
}

// Put writes the record into b[:CreditLen].
func (c Credit) Put(b []byte) {
	_ = b[CreditLen-1]
	putRecord(b, TypeCredit, c.Flags, CreditLen)
	le := binary.LittleEndian
	le.PutUint16(b[4:], c.Slot)
	le.PutUint16(b[6:], 0)
	le.PutUint32(b[8:], c.Gen)
	le.PutUint64(b[12:], c.Bytes)
}

// Credit reads a Credit.
func (r Record) Credit() Credit {
	le := binary.LittleEndian
	return Credit{Flags: r[1], Slot: le.Uint16(r[4:]), Gen: le.Uint32(r[8:]), Bytes: le.Uint64(r[12:])}
}

func creditOK(r Record) bool { return r[6]|r[7] == 0 && r[1] != FlagRecall|FlagReturn }
