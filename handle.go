package weft

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"unique"
)

// HandleLen is the length of the binary form of a Handle, in bytes.
const HandleLen = 40

// Handle names a [Region] or a [Share]. Every process that has the Handle may PUT into the memory
// and GET from it, as far as the region or the share permits. A Handle is a value. Send it in its
// binary form to processes that you trust with the region. The Handle contains the key of the
// region, but no text form of the Handle shows the key.
type Handle struct {
	owner  Address
	region uint32
	key    hiddenKey
	length uint64
}

// Owner returns the address of the process that owns the region.
func (h Handle) Owner() Address { return h.owner }

// Len returns the length of the region in bytes.
func (h Handle) Len() int { return int(h.length) }

// String returns the number, the length and the owner of the region. The text never contains the
// key.
func (h Handle) String() string {
	return fmt.Sprintf("region %d of %d bytes at %v", h.region, h.length, h.owner)
}

// Format writes the text of [Handle.String] for every verb, so that no log shows the key.
func (h Handle) Format(s fmt.State, _ rune) { _, _ = io.WriteString(s, h.String()) }

// AppendBinary appends the binary form of the handle to b. The binary form has HandleLen bytes.
func (h Handle) AppendBinary(b []byte) ([]byte, error) {
	// 0 NIC id 8 · 8 slot 2, zero 2 · 12 generation 4 · 16 region 4, zero 4 · 24 key 8 ·
	// 32 length 8
	le := binary.LittleEndian
	b = le.AppendUint64(b, uint64(h.owner.NIC))
	b = le.AppendUint32(b, uint32(h.owner.Slot))
	b = le.AppendUint32(b, h.owner.Generation)
	b = le.AppendUint64(b, uint64(h.region))
	b = le.AppendUint64(b, h.key.value())
	return le.AppendUint64(b, h.length), nil
}

// MarshalBinary returns the binary form of the handle, which has HandleLen bytes.
func (h Handle) MarshalBinary() ([]byte, error) { return h.AppendBinary(make([]byte, 0, HandleLen)) }

// UnmarshalBinary reads the binary form of a handle. It fails with [ErrBadArgument] if b is
// malformed.
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
		region: le.Uint32(b[16:]), key: hide(le.Uint64(b[24:])), length: le.Uint64(b[32:]),
	}
	return nil
}

// hiddenKey holds the key of a region behind a pointer. If a Handle lies in an unexported field,
// package fmt calls none of the methods of the Handle and prints its fields. With the pointer it
// does not print the key. Equal keys have equal hiddenKeys.
type hiddenKey struct{ at unique.Handle[uint64] }

func hide(key uint64) hiddenKey { return hiddenKey{unique.Make(key)} }

// value returns the key. It returns 0 for the zero hiddenKey, which the zero Handle contains.
func (k hiddenKey) value() uint64 {
	if k == (hiddenKey{}) {
		return 0
	}
	return k.at.Value()
}
