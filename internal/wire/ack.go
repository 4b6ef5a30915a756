package wire

import "encoding/binary"

// MaxAckWords bounds the selective bits of one space: 64 × 64 = 4096, the window (USNIC-41).
const MaxAckWords = 64

const ackFixedLen = 32

// Ack is the body of a frame that only acknowledges. Selective bits are here and nowhere else: every 16 bytes in a data
// frame cost one per cent of the bandwidth.
//
//	 0  flags                       1   AckCommand, AckData
//	 1  reason                      1   why now: see AckReason
//	 2  selective words: command    1
//	 3  selective words: data       1
//	 4  ack, command space          4
//	 8  ack, data space             4
//	12  delay                       4   ns since the echoed frame came
//	16  echoed packet counter       8   of the newest frame that came; 0 if none
//	24  zero                        8
//	32  words                       8 each: bit i of word w is segment ack + 2 + 64·w + i of the space; command's first
type Ack struct {
	Flags       uint8
	Reason      AckReason
	Words       [Spaces]int
	Ack         [Spaces]Seq
	DelayNanos  uint32
	EchoCounter uint64
	Selective   [Spaces][MaxAckWords]uint64
}

// AckReason says what made the receiver send an acknowledgement by itself.
type AckReason uint8

const (
	AckDelayed   AckReason = 0 // its 50 µs were over (USNIC-48)
	AckDuplicate AckReason = 1 // a segment came again: an ACK was lost (USNIC-49)
	AckGap       AckReason = 2 // a segment is missing: asks for it (USNIC-50)
	AckLast      AckReason = 3 // the last chunk of a fragment came
	AckAsked     AckReason = 4 // the window is filling
)

// Len is the length of the body in bytes.
func (a *Ack) Len() int { return ackFixedLen + 8*(a.Words[Command]+a.Words[Data]) }

// Put writes the body into b[:a.Len()].
func (a *Ack) Put(b []byte) {
	_ = b[a.Len()-1]
	le := binary.LittleEndian
	b[0], b[1], b[2], b[3] = a.Flags, byte(a.Reason), byte(a.Words[Command]), byte(a.Words[Data])
	le.PutUint32(b[4:], uint32(a.Ack[Command]))
	le.PutUint32(b[8:], uint32(a.Ack[Data]))
	le.PutUint32(b[12:], a.DelayNanos)
	le.PutUint64(b[16:], a.EchoCounter)
	le.PutUint64(b[24:], 0)
	b = b[ackFixedLen:]
	for s := range a.Selective {
		for _, w := range a.Selective[s][:a.Words[s]] {
			le.PutUint64(b, w)
			b = b[8:]
		}
	}
}

// Parse reads a body into a, in place, since an Ack is too large to copy about.
func (a *Ack) Parse(b []byte) error {
	if len(b) < ackFixedLen {
		return ErrShort
	}
	le := binary.LittleEndian
	a.Flags, a.Reason = b[0], AckReason(b[1])
	a.Words[Command], a.Words[Data] = int(b[2]), int(b[3])
	if a.Flags&^(AckCommand|AckData) != 0 || a.Words[Command] > MaxAckWords || a.Words[Data] > MaxAckWords {
		return ErrFormat
	}
	if len(b) < a.Len() {
		return ErrShort
	}
	a.Ack[Command] = Seq(le.Uint32(b[4:]))
	a.Ack[Data] = Seq(le.Uint32(b[8:]))
	a.DelayNanos = le.Uint32(b[12:])
	a.EchoCounter = le.Uint64(b[16:])
	b = b[ackFixedLen:]
	for s := range a.Selective {
		for i := range a.Selective[s][:a.Words[s]] {
			a.Selective[s][i] = le.Uint64(b)
			b = b[8:]
		}
	}
	return nil
}
