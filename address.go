package weft

import (
	"fmt"

	"github.com/weftnet/weft/internal/nicid"
	"github.com/weftnet/weft/internal/proc"
)

// NICID is the id of a NIC. Its text form is eight decimal octets, such as
// 0:0:0:96:221:127:255:140. No NIC has the zero NICID.
type NICID uint64

// ParseNICID reads the text form of a NICID. It fails with [ErrBadArgument] if the text is
// malformed.
func ParseNICID(text string) (NICID, error) {
	id, err := nicid.Parse(text)
	if err != nil {
		return 0, argument(fmt.Errorf("weft: %w", err))
	}
	return NICID(id), nil
}

// String returns the id as eight decimal octets.
func (id NICID) String() string { return nicid.ID(id).String() }

// MarshalText returns the text that [NICID.String] returns.
func (id NICID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// UnmarshalText reads a text that [NICID.MarshalText] returned, including the text of the zero
// NICID. UnmarshalText fails with [ErrBadArgument] if the text is malformed.
func (id *NICID) UnmarshalText(b []byte) (err error) {
	if *id = 0; string(b) == id.String() {
		return nil
	}
	*id, err = ParseNICID(string(b))
	return err
}

// Address identifies one process from its start to its end. Every later process has a different
// Address, even if that process has the same name.
type Address struct {
	NIC        NICID  // the NIC of the process
	Slot       uint16 // the number of the process's place in that NIC
	Generation uint32 // differs for each process that uses the slot; never 0
}

// String returns the NIC, the slot and the generation in one line.
func (a Address) String() string {
	return fmt.Sprintf("%v slot %d generation %d", a.NIC, a.Slot, a.Generation)
}

// dest returns the process as the NIC knows it.
func (a Address) dest(op string) (proc.Dest, error) {
	if a.NIC == 0 || a.Generation == 0 {
		return proc.Dest{}, &OpError{Op: op, Err: fmt.Errorf(
			"%w: address %v; expected the address of a process, from WaitName or Message.Addr", ErrBadArgument, a)}
	}
	return proc.Dest{NIC: uint64(a.NIC), Slot: a.Slot, Gen: a.Generation}, nil
}
