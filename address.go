package weft

import (
	"fmt"

	"github.com/weftnet/weft/internal/nicid"
	"github.com/weftnet/weft/internal/proc"
)

// NICID is the id of a NIC, written as eight decimal octets: 0:0:0:96:221:127:255:140. No NIC has the
// zero NICID.
type NICID uint64

// ParseNICID reads eight decimal octets. It fails with [ErrBadArgument].
func ParseNICID(s string) (NICID, error) {
	id, err := nicid.Parse(s)
	if err != nil {
		return 0, argument(fmt.Errorf("weft: %w", err))
	}
	return NICID(id), nil
}

// String returns the id as eight decimal octets.
func (id NICID) String() string { return nicid.ID(id).String() }

// MarshalText returns the text of String.
func (id NICID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// UnmarshalText is [ParseNICID].
func (id *NICID) UnmarshalText(b []byte) (err error) {
	*id, err = ParseNICID(string(b))
	return err
}

// Address is one process in one life: its NIC, its slot there, and the slot's generation, which
// differs for the next process in the slot.
type Address struct {
	NIC        NICID
	Slot       uint16
	Generation uint32
}

// String returns the three parts in one line.
func (a Address) String() string {
	return fmt.Sprintf("%v slot %d generation %d", a.NIC, a.Slot, a.Generation)
}

// dest returns the process as the NIC knows it.
func (a Address) dest(op string) (proc.Dest, error) {
	if a.NIC == 0 || a.Generation == 0 {
		return proc.Dest{}, &OpError{Op: op, Err: fmt.Errorf("%w: address %v; expected that of a process, as WaitName and Message.Addr have", ErrBadArgument, a)}
	}
	return proc.Dest{NIC: uint64(a.NIC), Slot: a.Slot, Gen: a.Generation}, nil
}
