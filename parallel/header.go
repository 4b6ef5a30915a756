package parallel

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"
)

// A message between ranks. All numbers are little-endian.
//
//	 0  epoch of the machine         u32      32  total length of the data   u64
//	 4  rank of the sender           u32      40  description of the operation  64 bytes
//	 8  number of the operation      u64     104  data: the bytes from the offset on
//	16  phase in the operation       u32
//	20  kind: data, check or fault   u32
//	24  offset of the data           u64
//
// Longer data goes in several messages.
const (
	headerLen   = 40 + describeLen
	describeLen = 64

	// maxMessage is the minimum size of an Inbox, so the Inbox's ring stays small.
	maxMessage = 256 << 10
	maxData    = (maxMessage - headerLen) &^ 63

	// shortBytes is the length up to which the data of a message can wait at the receiver's NIC,
	// together with the header.
	shortBytes = (16<<10 - headerLen) &^ 7
)

const (
	kindData  = 1 // data of an exchange
	kindCheck = 2 // no data: only the number and the description of the sender's operation
	kindFault = 3 // the data is a fault
)

type header struct {
	epoch  uint32
	rank   uint32
	seq    uint64
	phase  uint32
	kind   uint32
	offset uint64
	total  uint64
	what   description
}

func (h *header) put(b *[headerLen]byte) {
	binary.LittleEndian.PutUint32(b[0:], h.epoch)
	binary.LittleEndian.PutUint32(b[4:], h.rank)
	binary.LittleEndian.PutUint64(b[8:], h.seq)
	binary.LittleEndian.PutUint32(b[16:], h.phase)
	binary.LittleEndian.PutUint32(b[20:], h.kind)
	binary.LittleEndian.PutUint64(b[24:], h.offset)
	binary.LittleEndian.PutUint64(b[32:], h.total)
	copy(b[40:], h.what[:])
}

// parse reads a message. It reports false if the message is malformed.
func (h *header) parse(b []byte) (data []byte, ok bool) {
	if len(b) < headerLen {
		return nil, false
	}
	data = b[headerLen:]
	h.epoch = binary.LittleEndian.Uint32(b[0:])
	h.rank = binary.LittleEndian.Uint32(b[4:])
	h.seq = binary.LittleEndian.Uint64(b[8:])
	h.phase = binary.LittleEndian.Uint32(b[16:])
	h.kind = binary.LittleEndian.Uint32(b[20:])
	h.offset = binary.LittleEndian.Uint64(b[24:])
	h.total = binary.LittleEndian.Uint64(b[32:])
	copy(h.what[:], b[40:])
	fits := h.offset <= h.total && uint64(len(data)) <= h.total-h.offset
	return data, fits && h.kind >= kindData && h.kind <= kindFault
}

// A description identifies the operation that a rank has called, in 64 bytes. Two ranks have
// called the same operation if their descriptions are equal.
//
//	0  code   1  axis + 1   2  flags   4  element size u32   8  shape u32   12  other shape u32
//	    or a hash of the value beyond a border
//	16  argument i64   24  operator [12]   36  element type [28]
type description [describeLen]byte

// The codes of operations.
const (
	opShape = iota + 1
	opReduce
	opReduceAxis
	opScan
	opSpread
	opShift
	opHalo
	opGet
	opSend
	opRank
	opSort
	opGather
	opScatter
	opSave
	opLoad
	opBarrier
	opClose
	opTranspose
)

var opNames = [...]string{
	opShape: "NewShape", opReduce: "Reduce", opReduceAxis: "ReduceAxis", opScan: "Scan", opSpread: "Spread",
	opShift: "Shift", opHalo: "StartHalo", opGet: "Get", opSend: "Send", opRank: "Rank", opSort: "Sort",
	opGather: "Gather", opScatter: "Scatter", opSave: "Save", opLoad: "Load", opBarrier: "Barrier", opClose: "Close",
	opTranspose: "Transpose",
}

// The flags of a description.
const (
	flagExclusive = 1 << iota
	flagReverse
	flagSegments
	flagTorus
	flagKeep
)

const noAxis = -1

func describe(code byte, axis int, flags byte, arg int64) (d description) {
	d[0], d[1], d[2] = code, byte(axis+1), flags
	binary.LittleEndian.PutUint64(d[16:], uint64(arg))
	return d
}

// of adds the element type and the number of the shape of a variable.
func (d description) of(v *varInfo) description {
	binary.LittleEndian.PutUint32(d[4:], uint32(v.size))
	binary.LittleEndian.PutUint32(d[8:], v.s.number)
	copy(d[36:], v.typeName[:])
	return d
}

// other adds the number of another shape.
func (d description) other(s *Shape) description {
	binary.LittleEndian.PutUint32(d[12:], s.number)
	return d
}

// by adds the name of an operator.
func (d description) by(operator string) description {
	copy(d[24:36], operator)
	return d
}

// name returns the name of the operation.
func (d *description) name() string {
	if int(d[0]) < len(opNames) && opNames[d[0]] != "" {
		return opNames[d[0]]
	}
	return fmt.Sprintf("operation-%d", d[0])
}

func text(b []byte) string {
	b, _, _ = bytes.Cut(b, []byte{0})
	return strings.ToValidUTF8(string(b), "?")
}

// String returns the operation with its arguments, such as "Reduce of float64 on shape 1 by sum".
func (d *description) String() string {
	s := d.name()
	typ, arg := text(d[36:64]), int64(binary.LittleEndian.Uint64(d[16:]))
	switch d[0] {
	case opShape:
		return s + " of " + text(d[24:64])
	case opSave, opLoad:
		return s + fmt.Sprintf(" (%016x) of %s", uint64(arg), text(d[24:64]))
	}
	if typ != "" {
		s += " of " + typ
	}
	if n := binary.LittleEndian.Uint32(d[8:]); n != 0 {
		s += fmt.Sprintf(" on shape %d", n)
	}
	if n := binary.LittleEndian.Uint32(d[12:]); n != 0 && (d[0] == opGet || d[0] == opSend) {
		s += fmt.Sprintf(" and shape %d", n)
	}
	if op := text(d[24:36]); op != "" {
		s += " by " + op
	}
	if d[1] != 0 {
		s += fmt.Sprintf(" along axis %d", int(d[1])-1)
	}
	for i, word := range [...]string{", exclusive", ", reverse", ", segmented", ", torus", ", keeping the border"} {
		if d[2]&(1<<i) != 0 {
			s += word
		}
	}
	if hash := binary.LittleEndian.Uint32(d[12:]); hash != 0 && (d[0] == opShift || d[0] == opHalo) {
		s += fmt.Sprintf(", border value with hash %08x", hash)
	}
	switch d[0] {
	case opShift:
		s += fmt.Sprintf(" by %d positions", arg)
	case opSpread:
		s += fmt.Sprintf(" from coordinate %d", arg)
	case opGather, opScatter:
		s += fmt.Sprintf(" with root %d", arg)
	}
	return s
}
