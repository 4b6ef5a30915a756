package wire

import (
	"encoding/binary"
	"fmt"
)

// Position is the place of a NIC on a torus of Width by Height (QNIX-52). A Width of 0 means no
// position. In records it is these four numbers in this order, 2 bytes each.
type Position struct{ X, Y, Width, Height uint16 }

// PositionLen is the length of a position in records, in bytes.
const PositionLen = 8

// Valid reports whether p is a position on its torus, or none at all.
func (p Position) Valid() bool {
	if p.Width == 0 {
		return p == Position{}
	}
	return p.X < p.Width && p.Y < p.Height
}

func (p Position) String() string {
	if p.Width == 0 {
		return "none"
	}
	return fmt.Sprintf("%d,%d", p.X, p.Y)
}

// Put writes p to the first PositionLen bytes of b.
func (p Position) Put(b []byte) {
	for i, v := range [...]uint16{p.X, p.Y, p.Width, p.Height} {
		binary.LittleEndian.PutUint16(b[2*i:], v)
	}
}

// ParsePosition reads the output of Put. The result may be invalid; see Valid.
func ParsePosition(b []byte) Position {
	le := binary.LittleEndian
	return Position{le.Uint16(b), le.Uint16(b[2:]), le.Uint16(b[4:]), le.Uint16(b[6:])}
}
