package wire

import "encoding/binary"

// ProgramLen is the length of a Program's header, in bytes.
const ProgramLen = 24

// MaxProgram is the longest message to a program, in bytes. It also fits a datagram.
const MaxProgram = 16 << 10

// Program is the header of a record with a message to a program, or with a piece of one
// (PANIC-15, PANIC-17).
//
//	 4  program     4   the destination
//	 8  trigger     4
//	12  from        4   the sending program; 0: a process
//	16  message id  4   chosen by the sending NIC
//	20  offset      2   of the payload
//	22  length      2   of the whole message
//	24  payload
type Program struct {
	Flags   uint8 // FlagAccept: the sender wants to know the outcome
	Program uint32
	Trigger uint32
	From    uint32
	ID      uint32
	Offset  uint16
	Length  uint16
}

// Put writes the header of a Program of n payload bytes into b[:ProgramLen].
func (p *Program) Put(b []byte, n int) {
	_ = b[ProgramLen-1]
	putRecord(b, TypeProgram, p.Flags, ProgramLen+n)
	le := binary.LittleEndian
	le.PutUint32(b[4:], p.Program)
	le.PutUint32(b[8:], p.Trigger)
	le.PutUint32(b[12:], p.From)
	le.PutUint32(b[16:], p.ID)
	le.PutUint16(b[20:], p.Offset)
	le.PutUint16(b[22:], p.Length)
}

// Program reads the header of a Program.
func (r Record) Program() Program {
	_ = r[ProgramLen-1]
	le := binary.LittleEndian
	return Program{
		Flags: r.Flags(), Program: le.Uint32(r[4:]), Trigger: le.Uint32(r[8:]), From: le.Uint32(r[12:]),
		ID: le.Uint32(r[16:]), Offset: le.Uint16(r[20:]), Length: le.Uint16(r[22:]),
	}
}

// programOK reports whether a Program lies within its message. Only an empty message has a record
// without payload.
func programOK(r Record) bool {
	p, n := r.Program(), len(r)-ProgramLen
	return p.Program != 0 && p.ID != 0 && p.Length <= MaxProgram &&
		int(p.Offset)+n <= int(p.Length) && (n > 0 || p.Length == 0)
}

// HandledLen is the length of a Handled, in bytes.
const HandledLen = 16

// Handled returns window room for messages to programs, and tells the outcome of one of them, if
// its sender wants to know.
//
//	 4  message id  4   of that message; 0: none
//	 8  bytes       4   of room
//	12  outcome     1   of that message
//	13  zero        3
type Handled struct {
	ID      uint32
	Bytes   uint32
	Outcome uint8
}

// Put writes a Handled into b[:HandledLen].
func (h *Handled) Put(b []byte) {
	_ = b[HandledLen-1]
	putRecord(b, TypeHandled, 0, HandledLen)
	binary.LittleEndian.PutUint32(b[4:], h.ID)
	binary.LittleEndian.PutUint32(b[8:], h.Bytes)
	binary.LittleEndian.PutUint32(b[12:], uint32(h.Outcome))
}

// Handled reads a Handled.
func (r Record) Handled() Handled {
	_ = r[HandledLen-1]
	return Handled{ID: binary.LittleEndian.Uint32(r[4:]), Bytes: binary.LittleEndian.Uint32(r[8:]), Outcome: r[12]}
}

func handledOK(r Record) bool { return r[13]|r[14]|r[15] == 0 }

// ServiceProgram is the service of datagrams to resident programs.
const ServiceProgram uint8 = 2

// ProgramDatagramLen is the length of a ProgramDatagram, in bytes.
const ProgramDatagramLen = 12

// ProgramDatagram is the head of the payload of a datagram to a program, which may be lost. The
// message follows it.
//
//	0  program  4
//	4  trigger  4
//	 8  from     4   the sending program; 0: a process
type ProgramDatagram struct {
	Program uint32
	Trigger uint32
	From    uint32
}

// Put writes it into b[:ProgramDatagramLen].
func (d *ProgramDatagram) Put(b []byte) {
	_ = b[ProgramDatagramLen-1]
	binary.LittleEndian.PutUint32(b, d.Program)
	binary.LittleEndian.PutUint32(b[4:], d.Trigger)
	binary.LittleEndian.PutUint32(b[8:], d.From)
}

// ParseProgramDatagram reads the payload of a datagram to a program.
func ParseProgramDatagram(b []byte) (d ProgramDatagram, message []byte, err error) {
	if len(b) < ProgramDatagramLen {
		return d, nil, ErrShort
	}
	d = ProgramDatagram{
		Program: binary.LittleEndian.Uint32(b), Trigger: binary.LittleEndian.Uint32(b[4:]),
		From: binary.LittleEndian.Uint32(b[8:]),
	}
	if d.Program == 0 {
		return d, nil, ErrFormat
	}
	return d, b[ProgramDatagramLen:], nil
}
