package vni

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"

	"github.com/weftnet/weft/internal/limits"
)

// Name is the name of a process: its application and its index there, "app/3" (QNIX-55). The zero
// Name names no process; as the sender of a receive it is Any_Proc (QNIX-20).
type Name struct {
	// This makes a Name 32 bytes long. A copy of 28 bytes consists of two overlapping halves, and
	// a copy of that copy stalls.
	_     [0]uint64
	App   [limits.NameBytes]byte // a–z, 0–9, '.', '_', '-'; at least one; zeros after it
	Index uint32
}

// Address identifies one process of the fabric in one life. Names resolve to addresses.
type Address struct {
	NIC  uint64
	Slot uint16
	Gen  uint32
}

// AnyProcess in a receive matches every sender.
var AnyProcess Name

// MakeName returns the name of process index of an application. The application has 1 to 24 bytes
// of a–z, 0–9, '.', '_', '-'.
func MakeName(app string, index uint32) (Name, error) {
	n := Name{Index: index}
	if len(app) > len(n.App) {
		return Name{}, fmt.Errorf("process name %.80q: the application has %d bytes; expected at most %d", app,
			len(app), len(n.App))
	}
	copy(n.App[:], app)
	if !n.Valid() || len(app) != n.appLen() {
		return Name{}, fmt.Errorf(
			"process name %q: expected an application of 1 to %d bytes of a-z, 0-9, '.', '_' or '-'", app, len(n.App))
	}
	return n, nil
}

// ParseName parses the format of String.
func ParseName(s string) (Name, error) {
	app, index, ok := strings.Cut(s, "/")
	if !ok {
		return Name{}, fmt.Errorf("process name %.80q: expected APPLICATION/INDEX, as in app/3", s)
	}
	i, err := strconv.ParseUint(index, 10, 32)
	if err != nil || strconv.FormatUint(i, 10) != index {
		return Name{}, fmt.Errorf("process name %.80q: expected a decimal index below 2^32 without leading zeros", s)
	}
	return MakeName(app, uint32(i))
}

// String returns the name as "app/3", or "any" for the zero Name.
func (n Name) String() string {
	if n.IsZero() {
		return "any"
	}
	return n.Application() + "/" + strconv.FormatUint(uint64(n.Index), 10)
}

// Application returns the part before the index.
func (n Name) Application() string { return string(n.App[:n.appLen()]) }

// IsZero reports whether n is AnyProcess.
func (n *Name) IsZero() bool { return n.Is(&AnyProcess) }

// Is reports whether *n == *m, by words. The == operator compiles to a call of the runtime, which
// compares the end of a name byte by byte; names are compared several times for each message.
func (n *Name) Is(m *Name) bool {
	return n.word(0) == m.word(0) && n.word(1) == m.word(1) && n.word(2) == m.word(2) && n.Index == m.Index
}

var _ = [1]struct{}{}[limits.NameBytes-24] // Is compares 24 bytes

func (n *Name) word(i int) uint64 { return binary.NativeEndian.Uint64(n.App[8*i:]) }

// Valid reports whether n could have come from MakeName. The zero Name is not valid. Both halves
// call it for every message, so it uses a table.
func (n Name) Valid() bool {
	k := 0
	for k < len(n.App) && appByte[n.App[k]] {
		k++
	}
	return k > 0 && bytes.Equal(n.App[k:], noApp[k:])
}

var (
	noApp   [limits.NameBytes]byte
	appByte = func() (t [256]bool) {
		for _, c := range "abcdefghijklmnopqrstuvwxyz0123456789._-" {
			t[c] = true
		}
		return t
	}()
)

// Compare orders names by application, then index.
func (n Name) Compare(m Name) int {
	if c := bytes.Compare(n.App[:], m.App[:]); c != 0 {
		return c
	}
	switch {
	case n.Index < m.Index:
		return -1
	case n.Index > m.Index:
		return 1
	}
	return 0
}

func (n Name) appLen() int {
	for i, c := range n.App {
		if c == 0 {
			return i
		}
	}
	return len(n.App)
}

// appWords is an application in shared memory: words, so that each is loaded once and whole.
type appWords = [limits.NameBytes / 8]uint64

func (n *Name) words() (w appWords) {
	for i := range w {
		w[i] = n.word(i)
	}
	return w
}

func (n *Name) setWords(w appWords) {
	for i := range w {
		binary.NativeEndian.PutUint64(n.App[8*i:], w[i])
	}
}
