package weft

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
)

// HandleLen is the length of a marshalled Handle, in bytes.
const HandleLen = 40

// Handle permits every process that has it to PUT into a [Region] or a [Share], and to GET from it.
// It is a value: send it, in its binary form, to processes that you trust with the region. It holds
// the region's key, which no text form shows.
type Handle struct {
	owner  Address
	region uint32
	key    uint64
	length uint64
}

// Owner returns the process that has the region.
func (h Handle) Owner() Address { return h.owner }

// Len returns the length of the region in bytes.
func (h Handle) Len() int { return int(h.length) }

// String returns the region's number, length and owner. It never shows the key.
func (h Handle) String() string {
	return fmt.Sprintf("region %d of %d bytes at %v", h.region, h.length, h.owner)
}

// Format writes the text of String for every verb, so that no log shows the key.
func (h Handle) Format(s fmt.State, _ rune) { _, _ = io.WriteString(s, h.String()) }

// AppendBinary appends the handle's HandleLen bytes to b.
func (h Handle) AppendBinary(b []byte) ([]byte, error) {
	// 0 NIC id 8 · 8 slot 2, zero 2 · 12 generation 4 · 16 region 4, zero 4 · 24 key 8 · 32 length 8
	le := binary.LittleEndian
	b = le.AppendUint64(b, uint64(h.owner.NIC))
	b = le.AppendUint32(b, uint32(h.owner.Slot))
	b = le.AppendUint32(b, h.owner.Generation)
	b = le.AppendUint64(b, uint64(h.region))
	b = le.AppendUint64(b, h.key)
	return le.AppendUint64(b, h.length), nil
}

// MarshalBinary returns the handle's HandleLen bytes.
func (h Handle) MarshalBinary() ([]byte, error) { return h.AppendBinary(make([]byte, 0, HandleLen)) }

// UnmarshalBinary reads the bytes of MarshalBinary. It fails with [ErrBadArgument].
func (h *Handle) UnmarshalBinary(b []byte) error {
	le := binary.LittleEndian
	if len(b) != HandleLen {
		return argument(fmt.Errorf("weft: handle of %d bytes; expected %d", len(b), HandleLen))
	}
	if le.Uint16(b[10:]) != 0 || le.Uint32(b[20:]) != 0 || le.Uint64(b) == 0 || le.Uint64(b[32:]) > math.MaxInt64 {
		return argument(fmt.Errorf("weft: %d bytes that are no handle; expected those of Handle.MarshalBinary", len(b)))
	}
	*h = Handle{
		owner:  Address{NICID(le.Uint64(b)), le.Uint16(b[8:]), le.Uint32(b[12:])},
		region: le.Uint32(b[16:]), key: le.Uint64(b[24:]), length: le.Uint64(b[32:]),
	}
	return nil
}
