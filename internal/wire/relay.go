package wire

import "encoding/binary"

// RelayLen is the length of a Relay's header, in bytes.
const RelayLen = 16

// PutRelay writes the header of a Relay of n payload bytes into b[:RelayLen]. A Relay is a piece
// of a message to several processes, preceded by the list of them. The receiving NIC passes it on
// to others.
//
//	 4  relay id  4   chosen by the sending NIC
//	 8  offset    4   of the payload
//	12  length    4   of the whole relay body
//	16  payload
func PutRelay(b []byte, id, offset, length uint32, n int) {
	_ = b[RelayLen-1]
	putRecord(b, TypeRelay, 0, RelayLen+n)
	binary.LittleEndian.PutUint32(b[4:], id)
	binary.LittleEndian.PutUint32(b[8:], offset)
	binary.LittleEndian.PutUint32(b[12:], length)
}

// Relay reads the header of a Relay.
func (r Record) Relay() (id, offset, length uint32) {
	_ = r[RelayLen-1]
	return binary.LittleEndian.Uint32(r[4:]), binary.LittleEndian.Uint32(r[8:]), binary.LittleEndian.Uint32(r[12:])
}

// relayOK reports whether a Relay lies within its body.
func relayOK(r Record) bool {
	id, offset, length := r.Relay()
	return id != 0 && uint64(offset)+uint64(len(r)-RelayLen) <= uint64(length)
}

// RelayHeadLen is the length of a RelayHead, in bytes.
const RelayHeadLen = 32

// RelayHead is the head of a relay body. It is followed by each destination NIC with its
// receivers, first the NIC that the relay is sent to, and then by the message.
//
//	 0  source NIC         8
//	 8  source generation  4
//	12  source slot        2
//	14  nics               2   that are named
//	16  token              4
//	20  zero               4
//	24  tag                8
type RelayHead struct {
	NIC   uint64 // the source of the message
	Gen   uint32
	Slot  uint16
	NICs  uint16
	Token uint32
	Tag   uint64
}

// Put writes the head into b[:RelayHeadLen].
func (h *RelayHead) Put(b []byte) {
	_ = b[RelayHeadLen-1]
	le := binary.LittleEndian
	le.PutUint64(b, h.NIC)
	le.PutUint32(b[8:], h.Gen)
	le.PutUint16(b[12:], h.Slot)
	le.PutUint16(b[14:], h.NICs)
	le.PutUint32(b[16:], h.Token)
	le.PutUint32(b[20:], 0)
	le.PutUint64(b[24:], h.Tag)
}

// ParseRelayHead reads the head of a relay body and returns the rest of the body.
func ParseRelayHead(b []byte) (h RelayHead, rest []byte, err error) {
	if len(b) < RelayHeadLen {
		return h, nil, ErrShort
	}
	le := binary.LittleEndian
	h = RelayHead{
		NIC: le.Uint64(b), Gen: le.Uint32(b[8:]), Slot: le.Uint16(b[12:]), NICs: le.Uint16(b[14:]),
		Token: le.Uint32(b[16:]), Tag: le.Uint64(b[24:]),
	}
	if h.NICs == 0 || le.Uint32(b[20:]) != 0 {
		return h, nil, ErrFormat
	}
	return h, b[RelayHeadLen:], nil
}

// RelayNICLen is the length of a NIC in a relay body without its receivers, in bytes.
const RelayNICLen = 32

// RelayMACLen is the length of the MAC of a NIC in a relay body, in bytes.
const RelayMACLen = 16

// RelayNIC is one NIC of a relay body.
//
//	 0  NIC        8
//	 8  session    4   of that NIC and the source's, as both of them name it; message numbers
//	                   belong to it
//	12  receivers  2
//	14  zero       2
//	16  MAC       16   over everything that this NIC uses of the body: see RelayMACInput
type RelayNIC struct {
	NIC       uint64
	Session   uint32
	Receivers uint16
	MAC       [RelayMACLen]byte
}

// Put writes the NIC into b[:RelayNICLen].
func (n *RelayNIC) Put(b []byte) {
	_ = b[RelayNICLen-1]
	binary.LittleEndian.PutUint64(b, n.NIC)
	binary.LittleEndian.PutUint32(b[8:], n.Session)
	binary.LittleEndian.PutUint16(b[12:], n.Receivers)
	binary.LittleEndian.PutUint16(b[14:], 0)
	copy(b[16:], n.MAC[:])
}

// ParseRelayNIC reads one NIC of a relay body. It returns the NIC's receivers, and the rest of
// the body.
func ParseRelayNIC(b []byte) (n RelayNIC, receivers, rest []byte, err error) {
	if len(b) < RelayNICLen {
		return n, nil, nil, ErrShort
	}
	le := binary.LittleEndian
	n = RelayNIC{
		NIC: le.Uint64(b), Session: le.Uint32(b[8:]), Receivers: le.Uint16(b[12:]), MAC: [RelayMACLen]byte(b[16:]),
	}
	if n.Receivers == 0 || le.Uint16(b[14:]) != 0 {
		return n, nil, nil, ErrFormat
	}
	b = b[RelayNICLen:]
	most := int(n.Receivers) * RelayReceiverLen
	if len(b) < most {
		return n, nil, nil, ErrShort
	}
	return n, b[:most], b[most:], nil
}

// RelayReceiverLen is the length of a receiver in a relay body, in bytes.
const RelayReceiverLen = 12

// RelayReceiver is one receiving process.
//
//	 0  generation      4
//	 4  message number  4   of the source's messages to it
//	 8  slot            2
//	10  zero            2
type RelayReceiver struct {
	Gen, Number uint32
	Slot        uint16
}

// Put writes the receiver into b[:RelayReceiverLen].
func (v *RelayReceiver) Put(b []byte) {
	_ = b[RelayReceiverLen-1]
	binary.LittleEndian.PutUint32(b, v.Gen)
	binary.LittleEndian.PutUint32(b[4:], v.Number)
	binary.LittleEndian.PutUint16(b[8:], v.Slot)
	binary.LittleEndian.PutUint16(b[10:], 0)
}

// ParseRelayReceiver reads a receiver from b[:RelayReceiverLen].
func ParseRelayReceiver(b []byte) RelayReceiver {
	_ = b[RelayReceiverLen-1]
	return RelayReceiver{
		Gen: binary.LittleEndian.Uint32(b), Number: binary.LittleEndian.Uint32(b[4:]),
		Slot: binary.LittleEndian.Uint16(b[8:]),
	}
}

// RelayMACInputLen is the length of the MAC input before the receivers, in bytes.
const RelayMACInputLen = 40

// RelayMACInput returns the fixed part of the MAC input of a NIC. The receivers of that NIC and
// the SHA-256 of the message follow it. The number of NICs is not covered: it changes on the way.
//
//	 0  source NIC         8
//	 8  NIC                8   the receiving one: a MAC is valid in one direction
//	16  session            4
//	20  source generation  4
//	24  source slot        2
//	26  receivers          2   so the end of the list is certain
//	28  token              4
//	32  tag                8
//	40  receivers         12 each, as in the body
//	    SHA-256 of the message
func RelayMACInput(h *RelayHead, n *RelayNIC) (b [RelayMACInputLen]byte) {
	le := binary.LittleEndian
	le.PutUint64(b[0:], h.NIC)
	le.PutUint64(b[8:], n.NIC)
	le.PutUint32(b[16:], n.Session)
	le.PutUint32(b[20:], h.Gen)
	le.PutUint16(b[24:], h.Slot)
	le.PutUint16(b[26:], n.Receivers)
	le.PutUint32(b[28:], h.Token)
	le.PutUint64(b[32:], h.Tag)
	return b
}

// RelayedLen is the length of a Relayed's header, in bytes.
const RelayedLen = 8

// MaxMissed is the largest number of words of bits in a Relayed: one bit for each receiver that a
// relay can name.
const MaxMissed = 8

// FlagNone of a Relayed says that the relay was not accepted at all: it reached no receiver,
// whatever the bits say.
const FlagNone uint8 = 1 << 0

// PutRelayed writes a Relayed of len(missed) words into b[:RelayedLen+8·len(missed)]. Every
// receiver of a relay has the message, except those whose bit is set. It is sent after every NIC
// to which the message was passed on has reported.
//
//	4  relay id  4
//	 8  bits          lowest bit of the first byte: the receiver named first; words of eight bytes
func PutRelayed(b []byte, flags uint8, id uint32, missed []uint64) {
	n := RelayedLen + 8*len(missed)
	_ = b[n-1]
	putRecord(b, TypeRelayed, flags, n)
	binary.LittleEndian.PutUint32(b[4:], id)
	for i, w := range missed {
		binary.LittleEndian.PutUint64(b[RelayedLen+8*i:], w)
	}
}

// Relayed reads a Relayed. Words that the record lacks are zero.
func (r Record) Relayed() (id uint32, missed [MaxMissed]uint64) {
	id = binary.LittleEndian.Uint32(r[4:])
	for i := range (len(r) - RelayedLen) / 8 {
		missed[i] = binary.LittleEndian.Uint64(r[RelayedLen+8*i:])
	}
	return id, missed
}

func relayedOK(r Record) bool {
	id, n := binary.LittleEndian.Uint32(r[4:]), len(r)-RelayedLen
	return id != 0 && n%8 == 0 && n <= 8*MaxMissed
}
