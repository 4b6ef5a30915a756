package capture

import (
	"encoding/binary"
	"time"
)

// A file is a sequence of blocks (draft-ietf-opsawg-pcapng), here with little-endian words:
//
//	section    0x0a0d0d0a │ length │ 0x1a2b3c4d │ version 1.0 │ unknown length
//	interface  1          │ length │ link type RAW │ snap length
//	secrets    10         │ length │ secrets type │ text length │ text
//	packet     6          │ length │ interface 0 │ time │ bytes here │ true bytes │ packet
//	statistics 5          │ length │ interface 0 │ time
//
// Each block ends with its options, and its length once more. Everything is padded to four bytes.
// Times are nanoseconds since the Unix epoch, the high word first. An option is a code, a length
// and a value.
const (
	blockSection    = 0x0a0d0d0a
	blockInterface  = 1
	blockPacket     = 6
	blockStatistics = 5
	blockSecrets    = 10

	byteOrder = 0x1a2b3c4d
	bigEndian = 0x4d3c2b1a // byteOrder, read in the wrong byte order
	linkRaw   = 101        // each packet begins with its IP header

	optionComment     = 1 // of every block
	optionApplication = 4 // of a section
	optionName        = 2 // of an interface
	optionResolution  = 9
	optionFlags       = 2 // of a packet
	optionReceived    = 4 // of statistics
	optionDropped     = 5

	nanoseconds = 9 // 10^-9 s
	flagInbound = 1
	flagOutward = 2
)

// packetBytes returns the length of the block of a packet of n bytes. statisticsBytes is the
// length of the last block of a file.
func packetBytes(n int) int { return 32 + padded(n) + 12 }

const statisticsBytes = 24 + 2*12 + 4

func padded(n int) int { return (n + 3) &^ 3 }

// Blocks have little-endian words, and packets big-endian ones.
var le, be = binary.LittleEndian, binary.BigEndian

// begin appends a block's beginning to b. end completes the block that begins at an offset.
func begin(b []byte, kind uint32) []byte { return le.AppendUint32(le.AppendUint32(b, kind), 0) }

func end(b []byte, at int) []byte {
	n := uint32(len(b) - at + 4)
	le.PutUint32(b[at+4:], n)
	return le.AppendUint32(b, n)
}

func pad(b []byte) []byte {
	for len(b)%4 != 0 { // each block consists of whole words, and so does everything before it
		b = append(b, 0)
	}
	return b
}

func option(b []byte, code uint16, value string) []byte {
	b = le.AppendUint16(le.AppendUint16(b, code), uint16(len(value)))
	return pad(append(b, value...))
}

// endOptions appends the option that ends the others.
func endOptions(b []byte) []byte { return le.AppendUint32(b, 0) }

// appendHead appends the blocks at the beginning of a file. No later packet may be longer than
// snap.
func appendHead(b []byte, name string, snap int) []byte {
	at := len(b)
	b = begin(b, blockSection)
	b = le.AppendUint32(b, byteOrder)
	b = le.AppendUint16(le.AppendUint16(b, 1), 0)
	b = le.AppendUint64(b, 1<<64-1)
	b = end(endOptions(option(b, optionApplication, "weft")), at)
	at = len(b)
	b = begin(b, blockInterface)
	b = le.AppendUint32(b, linkRaw)
	b = le.AppendUint32(b, uint32(snap))
	b = option(b, optionName, name)
	return end(endOptions(option(b, optionResolution, string(rune(nanoseconds)))), at)
}

func appendTime(b []byte, at time.Time) []byte {
	ns := uint64(at.UnixNano())
	return le.AppendUint32(le.AppendUint32(b, uint32(ns>>32)), uint32(ns))
}

// appendPacket appends the block of a frame. kept is the beginning of the frame that the file
// holds.
func appendPacket(b []byte, when time.Time, f *frame, kept []byte) []byte {
	at := len(b)
	head := f.headers()
	b = begin(b, blockPacket)
	b = appendTime(le.AppendUint32(b, 0), when)
	b = le.AppendUint32(b, uint32(head+len(kept)))
	b = le.AppendUint32(b, uint32(head+f.length))
	b = appendHeaders(b, f, kept)
	b = pad(append(b, kept...))
	flags := uint32(flagInbound)
	if f.outbound {
		flags = flagOutward
	}
	b = le.AppendUint32(le.AppendUint16(le.AppendUint16(b, optionFlags), 4), flags)
	return end(endOptions(b), at)
}

// appendStatistics appends the block with an interface's counters.
func appendStatistics(b []byte, when time.Time, received, dropped uint64) []byte {
	at := len(b)
	b = begin(b, blockStatistics)
	b = appendTime(le.AppendUint32(b, 0), when)
	b = le.AppendUint64(le.AppendUint16(le.AppendUint16(b, optionReceived), 8), received)
	b = le.AppendUint64(le.AppendUint16(le.AppendUint16(b, optionDropped), 8), dropped)
	return end(endOptions(b), at)
}
