package weft

import (
	"fmt"

	"github.com/weftnet/weft/internal/vni"
)

// Name is the name of a process: an application and an index, written "app/3". At most one live
// process of the fabric has a given name. The zero Name is [AnyProcess].
type Name struct {
	App   string // 1 to 24 bytes of a–z, 0–9, '.', '_' and '-'; "nic" and "program" are reserved for NICs
	Index uint32 // tells the processes of an application apart
}

// AnyProcess matches every sender. Only receives take it.
var AnyProcess Name

// ParseName reads the text of a name, such as "app/3". It fails with [ErrBadArgument] if the text
// is malformed.
func ParseName(s string) (Name, error) {
	n, err := vni.ParseName(s)
	if err != nil {
		return Name{}, argument(fmt.Errorf("weft: %w", err))
	}
	return nameOf(n), nil
}

// String returns the name as "app/3", or "any" for AnyProcess.
func (n Name) String() string {
	if n == AnyProcess {
		return "any"
	}
	return fmt.Sprintf("%s/%d", n.App, n.Index)
}

// MarshalText returns the text of String.
func (n Name) MarshalText() ([]byte, error) { return []byte(n.String()), nil }

// UnmarshalText reads the text of MarshalText. It fails with [ErrBadArgument].
func (n *Name) UnmarshalText(b []byte) (err error) {
	if string(b) == AnyProcess.String() {
		*n = AnyProcess
		return nil
	}
	*n, err = ParseName(string(b))
	return err
}

// vni returns the name as the NIC knows it. It fails with ErrBadArgument.
func (n Name) vni() (vni.Name, error) {
	if n == AnyProcess {
		return vni.AnyProcess, nil
	}
	vn, err := vni.MakeName(n.App, n.Index)
	if err != nil {
		err = fmt.Errorf("%w: %v", ErrBadArgument, err)
	}
	return vn, err
}

func nameOf(n vni.Name) Name {
	if n.IsZero() {
		return AnyProcess
	}
	k := 0
	for k < len(n.App) && n.App[k] != 0 {
		k++
	}
	return Name{App: string(n.App[:k]), Index: n.Index}
}
