package wire

import "encoding/binary"

// GroupHeader is the header of every record about a group: the receiving member, and the
// operation of one life of the group.
//
//	 4  group      4   the receiving member, by the number that its NIC has given it
//	 8  epoch      4   of the group
//	12  operation  4   counts the operations of the group, from 0
//	16  rank       4   of the sending member
type GroupHeader struct {
	Group, Epoch, Operation, Rank uint32
}

const groupHeaderLen = 16

func (h *GroupHeader) put(b []byte) {
	_ = b[groupHeaderLen-1]
	le := binary.LittleEndian
	le.PutUint32(b, h.Group)
	le.PutUint32(b[4:], h.Epoch)
	le.PutUint32(b[8:], h.Operation)
	le.PutUint32(b[12:], h.Rank)
}

func parseGroupHeader(b []byte) GroupHeader {
	_ = b[groupHeaderLen-1]
	le := binary.LittleEndian
	return GroupHeader{
		Group: le.Uint32(b), Epoch: le.Uint32(b[4:]), Operation: le.Uint32(b[8:]), Rank: le.Uint32(b[12:]),
	}
}

// SignalLen is the length of a Signal, in bytes.
const SignalLen = RecordLen + groupHeaderLen + 12

// Signal is one step of a collective operation without data.
//
//	 4  group header  16
//	20  what          1   of internal/nic's making
//	21  round         1
//	22  zero          2
//	24  value         8   by what it is
type Signal struct {
	GroupHeader
	What, Round uint8
	Value       uint64
}

// Put writes the record into b[:SignalLen].
func (s *Signal) Put(b []byte) {
	_ = b[SignalLen-1]
	putRecord(b, TypeSignal, 0, SignalLen)
	s.GroupHeader.put(b[RecordLen:])
	b[20], b[21], b[22], b[23] = s.What, s.Round, 0, 0
	binary.LittleEndian.PutUint64(b[24:], s.Value)
}

// Signal reads a Signal.
func (r Record) Signal() Signal {
	_ = r[SignalLen-1]
	return Signal{
		GroupHeader: parseGroupHeader(r[RecordLen:]), What: r[20], Round: r[21],
		Value: binary.LittleEndian.Uint64(r[24:]),
	}
}

func signalOK(r Record) bool {
	s := r.Signal()
	return s.Group != 0 && r[22]|r[23] == 0
}

// PieceLen is the length of a Piece's header, in bytes.
const PieceLen = RecordLen + groupHeaderLen + 16

// Piece is a piece of the data of a collective operation.
//
//	 4  group header  16
//	20  root          4   rank of the member that the data comes from, or goes to
//	24  offset        4   of the payload
//	28  length        4   of all the data
//	32  what          1   of internal/nic's making
//	33  operator      1   of a reduction
//	34  zero          2
//	36  payload
type Piece struct {
	GroupHeader
	Root, Offset, Length uint32
	What, Operator       uint8
}

// Put writes the header of a Piece of n payload bytes into b[:PieceLen].
func (p *Piece) Put(b []byte, n int) {
	_ = b[PieceLen-1]
	putRecord(b, TypePiece, 0, PieceLen+n)
	p.GroupHeader.put(b[RecordLen:])
	le := binary.LittleEndian
	le.PutUint32(b[20:], p.Root)
	le.PutUint32(b[24:], p.Offset)
	le.PutUint32(b[28:], p.Length)
	b[32], b[33], b[34], b[35] = p.What, p.Operator, 0, 0
}

// Piece reads the header of a Piece.
func (r Record) Piece() Piece {
	_ = r[PieceLen-1]
	le := binary.LittleEndian
	return Piece{GroupHeader: parseGroupHeader(r[RecordLen:]), Root: le.Uint32(r[20:]), Offset: le.Uint32(r[24:]),
		Length: le.Uint32(r[28:]), What: r[32], Operator: r[33]}
}

// pieceOK reports whether a Piece names a member and lies within its data.
func pieceOK(r Record) bool {
	p := r.Piece()
	return p.Group != 0 && r[34]|r[35] == 0 && uint64(p.Offset)+uint64(len(r)-PieceLen) <= uint64(p.Length)
}
