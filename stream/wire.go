package stream

import (
	"encoding/binary"

	"github.com/weftnet/weft"
)

// docs/stream.md shows the format of each message.

// port is the port that the streams of a process share.
const port uint16 = 0xff01

// kind is the type of a message.
type kind uint8

const (
	kindOpen kind = iota + 1
	kindAccept
	kindRefuse
	kindData
	kindWindow
	kindFin
	kindClose
	kindReset
	kindPing
	kindPong
)

// Lengths, in bytes.
const (
	numberBytes  = 4
	headBytes    = numberBytes + 8
	stateBytes   = headBytes + 8 + 1
	dataBytes    = 512 << 10             // of the stream in the longest message; divides common Write lengths
	serviceBytes = 255                   // of the longest name of a service
	mostBytes    = headBytes + dataBytes // of the longest message
	inboxBytes   = mostBytes             // half of the ring: one message is read while the next arrives
)

// kindShift is the position of the kind in a tag.
const kindShift = 32

// refusal is the reason why a process refuses a stream.
type refusal uint8

const (
	refusedNoListener refusal = iota + 1
	refusedBacklog
)

func (r refusal) Error() string {
	switch r {
	case refusedNoListener:
		return "nothing listens there"
	case refusedBacklog:
		return "its backlog is full"
	}
	return "refused"
}

// tagOf returns the tag of a message of kind k for the receiver's stream number.
func tagOf(k kind, number uint32) weft.Tag { return weft.Tag(k)<<kindShift | weft.Tag(number) }

// message is a received message.
type message struct {
	kind   kind
	number uint32  // the receiver's number of the stream
	sender uint32  // the sender's number of the stream
	offset uint64  // all kinds but reset and refuse
	sent   uint64  // window, ping, pong
	end    ending  // window, ping, pong: what ends at sent
	why    refusal // refuse
	rest   []byte  // data: the bytes; open: the service
}

// parse reads a message. ok is false if the message is malformed.
func parse(tag weft.Tag, b []byte) (m message, ok bool) {
	k := tag >> kindShift
	if k == 0 || k > weft.Tag(kindPong) || len(b) < numberBytes {
		return m, false
	}
	m.kind, m.number, m.sender = kind(k), uint32(tag), binary.LittleEndian.Uint32(b)
	switch b = b[numberBytes:]; m.kind {
	case kindReset:
		return m, len(b) == 0
	case kindRefuse:
		if len(b) != 1 {
			return m, false
		}
		m.why = refusal(b[0])
		return m, true
	}
	if len(b) < headBytes-numberBytes {
		return m, false
	}
	m.offset, m.rest = binary.LittleEndian.Uint64(b), b[headBytes-numberBytes:]
	switch m.kind {
	case kindWindow, kindPing, kindPong:
		if len(b) != stateBytes-numberBytes {
			return m, false
		}
		m.sent, m.end, m.rest = binary.LittleEndian.Uint64(m.rest), ending(m.rest[8]), nil
		return m, m.end <= endsBoth
	case kindData:
		return m, len(m.rest) > 0 && m.offset+uint64(len(m.rest)) > m.offset
	case kindOpen:
		return m, len(m.rest) > 0 && len(m.rest) <= serviceBytes
	}
	return m, len(m.rest) == 0
}

// ending says whether the sender of a state has ended its direction.
type ending uint8

const (
	endsNot  ending = iota // more bytes may follow
	endsOwn                // no bytes follow; the sender still reads
	endsBoth               // no bytes follow; the sender reads no more
)

// state returns the body of window, ping and pong. In case an earlier message was lost, the body
// repeats everything that earlier messages reported, except bytes.
func state(b *[stateBytes]byte, sender uint32, granted, sent uint64, end ending) []byte {
	binary.LittleEndian.PutUint32(b[:], sender)
	binary.LittleEndian.PutUint64(b[numberBytes:], granted)
	binary.LittleEndian.PutUint64(b[headBytes:], sent)
	b[stateBytes-1] = byte(end)
	return b[:]
}

// head returns the first bytes of a message with an offset.
func head(b *[headBytes]byte, sender uint32, offset uint64) []byte {
	binary.LittleEndian.PutUint32(b[:], sender)
	binary.LittleEndian.PutUint64(b[numberBytes:], offset)
	return b[:]
}
