package prog

import (
	"crypto/sha256"
	"encoding/binary"
)

// The encoding is little-endian. A count precedes every list:
//
//	"WPDL" u16 version · name · u32 data words · u32 init
//	u16 triggers { u32 number, u32 entry } · u16 names { u8 kind, name }
//	u16 variables { u8 array, name, u32 base, u32 words } · u32 lines { u32 pc, u32 line }
//	u32 words { u64 } · 32 bytes SHA-256 of all before
//
// A name is one byte of length, followed by its bytes.
const (
	magic = "WPDL"

	// Version is the common version of the format and of the instruction set.
	Version = 2
)

// Encode returns the encoded module. If Decode accepts an encoding, Encode returns the same
// bytes again.
func (m *Module) Encode() []byte {
	b := m.body()
	sum := sha256.Sum256(b)
	return append(b, sum[:]...)
}

func (m *Module) body() []byte {
	b := make([]byte, 0, 64+len(m.Name)+8*len(m.Triggers)+16*len(m.Names)+
		24*len(m.Variables)+8*len(m.Lines)+8*len(m.Code)+sha256.Size)
	b = append(b, magic...)
	b = binary.LittleEndian.AppendUint16(b, Version)
	b = appendName(b, m.Name)
	b = append32(b, m.DataWords, m.Init)
	b = binary.LittleEndian.AppendUint16(b, uint16(len(m.Triggers)))
	for _, t := range m.Triggers {
		b = append32(b, int(t.Number), t.Entry)
	}
	b = binary.LittleEndian.AppendUint16(b, uint16(len(m.Names)))
	for _, s := range m.Names {
		b = appendName(append(b, byte(s.Of)), s.Name)
	}
	b = binary.LittleEndian.AppendUint16(b, uint16(len(m.Variables)))
	for _, v := range m.Variables {
		array := byte(0)
		if v.Array {
			array = 1
		}
		b = append32(appendName(append(b, array), v.Name), v.Base, v.Len)
	}
	b = append32(b, len(m.Lines))
	for _, l := range m.Lines {
		b = append32(b, l.PC, l.Line)
	}
	b = append32(b, len(m.Code))
	for _, w := range m.Code {
		b = binary.LittleEndian.AppendUint64(b, uint64(w))
	}
	return b
}

func appendName(b []byte, name string) []byte { return append(append(b, byte(len(name))), name...) }

func append32(b []byte, numbers ...int) []byte {
	for _, n := range numbers {
		b = binary.LittleEndian.AppendUint32(b, uint32(n))
	}
	return b
}
