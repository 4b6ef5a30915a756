package stream

import (
	"encoding/binary"

	"github.com/weftnet/weft"
)

// port is the port that the streams of a process share.
const port uint16 = 0xff01

// kind is what a message says.
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
	dataBytes    = 512 << 10 // of a stream in one message, at most: a part of a common length, so that no crumb is left for one more
	serviceBytes = 255       // of a service's name, at most
	mostBytes    = headBytes + dataBytes
	inboxBytes   = mostBytes // half of the ring, so that the next message comes while one is read
)

const kindShift = 32 // in a tag

// refusal is why a stream was refused.
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

func tagOf(k kind, number uint32) weft.Tag { return weft.Tag(k)<<kindShift | weft.Tag(number) }

// message is one that has come.
type message struct {
	kind   kind
	number uint32 // that its receiver has given to the stream
	sender uint32 // that its sender has given to it
	offset uint64
	sent   uint64  // of window, ping and pong, and so is end
	end    ending  // at sent
	why    refusal // of refuse
	rest   []byte  // the bytes of data; the service of open
}

// parse reads a message. ok is false if no peer of this version has sent it.
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

// ending is what the sender of a state says of the end of what it sends.
type ending uint8

const (
	endsNot  ending = iota // there may be more
	endsOwn                // that was all; it goes on reading
	endsBoth               // … and it reads no more
)

// state is the body of a message that repairs what others have told before it and were lost.
func state(b *[stateBytes]byte, sender uint32, granted, sent uint64, end ending) []byte {
	binary.LittleEndian.PutUint32(b[:], sender)
	binary.LittleEndian.PutUint64(b[numberBytes:], granted)
	binary.LittleEndian.PutUint64(b[headBytes:], sent)
	b[stateBytes-1] = byte(end)
	return b[:]
}

// head is what a message with an offset begins with.
func head(b *[headBytes]byte, sender uint32, offset uint64) []byte {
	binary.LittleEndian.PutUint32(b[:], sender)
	binary.LittleEndian.PutUint64(b[numberBytes:], offset)
	return b[:]
}
