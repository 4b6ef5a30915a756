package wire

import "encoding/binary"

// HelloLen is the length of a Hello's body, in bytes.
const HelloLen = 96

// leastMTU is the smallest MTU that a Hello may state: a NIC that sends a Hello can surely
// receive one.
const leastMTU = OuterLen + HelloLen + TagLen

// Hello opens a pair of NICs, and answers the opening (decision 3). A HelloAck has the same body.
// Its Echo fields tell which Hello it answers; in a Hello they are zero.
//
//	 0  lowest version                  1
//	 1  highest version                 1
//	 2  zero                            2
//	 4  index                           4   what the peer must put into its frames to this NIC
//	 8  NIC id                          8
//	16  incarnation                     8   larger in every life of the NIC
//	24  cookie                          8   what the peer must put into the tags of its frames
//	32  MTU, command queue              4   largest frame accepted, in bytes, at least 128
//	36  MTU, data queue                 4
//	40  window, command space           4   segments accepted from the first missing; at least 1
//	44  window, data space              4
//	48  receive capacity                8   bytes of frames that may be in flight to this NIC
//	56  ack delay                       4   longest time that this NIC holds back an ACK, in µs
//	60  first sequence, command space   4   of the segments this NIC will send
//	64  first sequence, data space      4
//	68  zero                            4
//	72  capabilities                    8   bit set, see CapReliable; unknown ones are ignored
//	80  echo incarnation                8   the peer's
//	88  echo counter                    8   packet counter of the answered Hello: unambiguous RTT
//
// These 96 bytes keep their places in every version, so that NICs of any two versions can tell
// each other their versions.
type Hello struct {
	MinVersion, MaxVersion  uint8
	Index                   uint32
	NIC                     uint64
	Incarnation             uint64
	Cookie                  uint64
	MTUCommand, MTUData     uint32
	WinCommand, WinData     uint32
	ReceiveCapacity         uint64
	AckDelayMicros          uint32
	FirstCommand, FirstData Seq
	Capabilities            uint64
	EchoIncarnation         uint64
	EchoCounter             uint64
}

// CapAES says that the NIC seals fast with AES. Unless both NICs say so, the pair uses
// ChaCha20-Poly1305.
const CapAES uint64 = 1 << 1

// CapPlainPrograms says that the NIC allows unsealed datagrams of programs on a sealed link, so
// that programs in drivers can handle them. Both NICs must say so.
const CapPlainPrograms uint64 = 1 << 2

// CapReliable says that the NIC's link neither loses nor reorders frames. If both NICs say so,
// they neither acknowledge segments nor retransmit them.
const CapReliable uint64 = 1 << 0

// Put writes the body into b[:HelloLen].
func (h *Hello) Put(b []byte) {
	_ = b[HelloLen-1]
	le := binary.LittleEndian
	b[0], b[1], b[2], b[3] = h.MinVersion, h.MaxVersion, 0, 0
	le.PutUint32(b[4:], h.Index)
	le.PutUint64(b[8:], h.NIC)
	le.PutUint64(b[16:], h.Incarnation)
	le.PutUint64(b[24:], h.Cookie)
	le.PutUint32(b[32:], h.MTUCommand)
	le.PutUint32(b[36:], h.MTUData)
	le.PutUint32(b[40:], h.WinCommand)
	le.PutUint32(b[44:], h.WinData)
	le.PutUint64(b[48:], h.ReceiveCapacity)
	le.PutUint32(b[56:], h.AckDelayMicros)
	le.PutUint32(b[60:], uint32(h.FirstCommand))
	le.PutUint32(b[64:], uint32(h.FirstData))
	le.PutUint32(b[68:], 0)
	le.PutUint64(b[72:], h.Capabilities)
	le.PutUint64(b[80:], h.EchoIncarnation)
	le.PutUint64(b[88:], h.EchoCounter)
}

// ParseHello reads a body. It accepts a longer body and ignores its end, and also ignores the
// places that should be zero: a later version may use them.
func ParseHello(b []byte) (h Hello, err error) {
	if len(b) < HelloLen {
		return h, ErrShort
	}
	le := binary.LittleEndian
	h = Hello{
		MinVersion: b[0], MaxVersion: b[1],
		Index: le.Uint32(b[4:]), NIC: le.Uint64(b[8:]), Incarnation: le.Uint64(b[16:]), Cookie: le.Uint64(b[24:]),
		MTUCommand: le.Uint32(b[32:]), MTUData: le.Uint32(b[36:]),
		WinCommand: le.Uint32(b[40:]), WinData: le.Uint32(b[44:]),
		ReceiveCapacity: le.Uint64(b[48:]), AckDelayMicros: le.Uint32(b[56:]),
		FirstCommand: Seq(le.Uint32(b[60:])), FirstData: Seq(le.Uint32(b[64:])),
		Capabilities: le.Uint64(b[72:]), EchoIncarnation: le.Uint64(b[80:]), EchoCounter: le.Uint64(b[88:]),
	}
	if !h.valid() {
		return Hello{}, ErrFormat
	}
	return h, nil
}

// valid reports whether h is good enough to talk to its sender at all. Package rel decides
// whether the peer is wanted.
func (h *Hello) valid() bool {
	return h.MinVersion >= 1 && h.MinVersion <= h.MaxVersion && h.NIC != 0 && h.Index != 0 &&
		h.MTUCommand >= leastMTU && h.MTUData >= leastMTU && h.WinCommand >= 1 && h.WinData >= 1
}
