package wire

import (
	"encoding/binary"
	"fmt"
)

// MaxAckWords bounds the selective bits of one space: 64 × 64 = 4096, the window (USNIC-41).
const MaxAckWords = 64

const ackFixedLen = 32

// MaxAckLen is the length of the longest Ack, both windows full of selective bits, in bytes.
const MaxAckLen = ackFixedLen + Spaces*8*MaxAckWords

// Ack is the body of a frame that only acknowledges. Selective bits are here and nowhere else: 16
// bytes in every data frame would cost one per cent of the bandwidth.
//
//	 0  flags                       1   AckCommand, AckData
//	 1  reason                      1   why now: see AckReason
//	 2  words, command space        1   selective words that follow, at most 64; 0 if the space
//	                                    is not acknowledged
//	 3  words, data space           1
//	 4  ack, command space          4
//	 8  ack, data space             4
//	12  delay                       4   ns since the echoed frame arrived, all ones if longer
//	16  echo counter                8   packet counter of the newest frame received; 0 if none
//	24  zero                        8
//	32  selective bits              8 a word, command's first
//
// Bit i of word w stands for segment ack + 2 + 64·w + i of the space: ack + 1 is the first
// missing segment, or there would be no gap.
type Ack struct {
	Flags       uint8
	Reason      AckReason
	Words       [Spaces]int
	Ack         [Spaces]Seq
	DelayNanos  uint32
	EchoCounter uint64
	Selective   [Spaces][MaxAckWords]uint64
}

// AckReason is why the receiver sends an acknowledgement by itself.
type AckReason uint8

const (
	AckDelayed   AckReason = 0 // the delay of 50 µs has passed (USNIC-48)
	AckDuplicate AckReason = 1 // a segment arrived twice: an ACK was lost (USNIC-49)
	AckGap       AckReason = 2 // a segment is missing; the sender should retransmit it (USNIC-50)
	AckLast      AckReason = 3 // the last chunk of a fragment arrived
	AckAsked     AckReason = 4 // the window is filling
	ackReasons             = 5
)

var ackReasonNames = [ackReasons]string{"delayed", "duplicate", "gap", "last", "asked"}

func (r AckReason) String() string {
	if r < ackReasons {
		return ackReasonNames[r]
	}
	return fmt.Sprintf("ack-reason-%d", uint8(r))
}

// Len returns the length of the body in bytes.
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

// Parse reads a body into a, in place, since an Ack is expensive to copy. Selective words beyond
// the counted ones keep their old values. After an error the contents of a are undefined.
func (a *Ack) Parse(b []byte) error {
	if len(b) < ackFixedLen {
		return ErrShort
	}
	le := binary.LittleEndian
	a.Flags, a.Reason = b[0], AckReason(b[1])
	a.Words[Command], a.Words[Data] = int(b[2]), int(b[3])
	if a.Flags&^(AckCommand|AckData) != 0 || a.Reason >= ackReasons || le.Uint64(b[24:]) != 0 {
		return ErrFormat
	}
	for s, n := range a.Words {
		if n > MaxAckWords || n > 0 && a.Flags&(AckCommand<<s) == 0 {
			return ErrFormat
		}
	}
	if len(b) < a.Len() {
		return ErrShort
	}
	if len(b) > a.Len() {
		return ErrFormat
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
