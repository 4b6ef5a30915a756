package weft

import (
	"fmt"

	"github.com/weftnet/weft/internal/vni"
)

// Name is the name of a process: an application and an index, written "app/3". At most one live
// process of the fabric has a given name. The zero Name is [AnyProcess].
type Name struct {
	App   string // 1 to 24 characters: a–z, 0–9, '.', '_', '-'; not "nic" or "program"
	Index uint32 // distinguishes the processes of an application
}

// In a receive, AnyProcess matches every sender. No message can be sent to AnyProcess.
var AnyProcess Name

// ParseName reads the text of a name, such as "app/3". It fails with [ErrBadArgument] if the text
// is malformed.
func ParseName(text string) (Name, error) {
	n, err := vni.ParseName(text)
	if err != nil {
		return Name{}, argument(fmt.Errorf("weft: %w", err))
	}
	return nameOf(n), nil
}

// String returns the text of the name, such as "app/3". It returns "any" for [AnyProcess].
func (n Name) String() string {
	if n == AnyProcess {
		return "any"
	}
	return fmt.Sprintf("%s/%d", n.App, n.Index)
}

// MarshalText returns the text that [Name.String] returns.
func (n Name) MarshalText() ([]byte, error) { return []byte(n.String()), nil }

// UnmarshalText reads a text that [Name.MarshalText] returned. It fails with [ErrBadArgument] if
// the text is malformed.
func (n *Name) UnmarshalText(b []byte) (err error) {
	if string(b) == AnyProcess.String() {
		*n = AnyProcess
		return nil
	}
	*n, err = ParseName(string(b))
	return err
}

// vni returns the name as the NIC knows it. It fails with ErrBadArgument if the name is malformed.
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
