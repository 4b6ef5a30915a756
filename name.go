package weft

import (
	"encoding/binary"
	"fmt"
	"math"
	"sync/atomic"

	"github.com/weftnet/weft/internal/proc"
	"github.com/weftnet/weft/internal/registry"
	"github.com/weftnet/weft/internal/vni"
)

// NICID is the id of a NIC, written as eight decimal octets: 0:0:0:96:221:127:255:140. The zero NICID is no NIC's.
type NICID = registry.NICID

// ParseNICID reads the notation of eight decimal octets.
func ParseNICID(s string) (NICID, error) { return registry.ParseNICID(s) }

// Name is what a process is called: its application, 1 to 24 bytes of a–z, 0–9, '.', '_' and '-', and its index there
// (QNIX-55). A name belongs to one process of the fabric at a time. The applications nic and program are the NICs' own. The zero Name is
// [AnyProcess].
type Name struct {
	App   string
	Index uint32
}

// AnyProcess, as the source of a receive, matches every sender (QNIX-20).
var AnyProcess Name

// ParseName reads what String writes of a process: "app/3".
func ParseName(s string) (Name, error) {
	n, err := vni.ParseName(s)
	return nameOf(n), err
}

// String returns the name as "app/3", or "any" for AnyProcess.
func (n Name) String() string {
	if n == AnyProcess {
		return "any"
	}
	return fmt.Sprintf("%s/%d", n.App, n.Index)
}

// MarshalText writes the name as "app/3", and AnyProcess as "any".
func (n Name) MarshalText() ([]byte, error) { return []byte(n.String()), nil }

// UnmarshalText reads what MarshalText writes.
func (n *Name) UnmarshalText(b []byte) (err error) {
	if string(b) == AnyProcess.String() {
		*n = AnyProcess
		return nil
	}
	*n, err = ParseName(string(b))
	return err
}

// vni returns the name as the NIC knows it.
func (n Name) vni() (vni.Name, error) {
	if n == AnyProcess {
		return vni.AnyProcess, nil
	}
	return vni.MakeName(n.App, n.Index)
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

// nameCache remembers the processes that messages go to and come from, so that the next message checks no name and
// allocates no string. The names of senders that share a place replace one another there; a name
// that a call is given takes only an empty place, so it replaces none.
type nameCache [64]atomic.Pointer[knownName]

type knownName struct {
	name Name
	dest proc.Dest // by the same name
}

func (c *nameCache) at(first byte, index uint32) *atomic.Pointer[knownName] {
	return &c[(uint32(first)+index)%uint32(len(c))]
}

// known finds a name that has been learnt; nil if it has not.
func (c *nameCache) known(n *Name) *knownName {
	if n.App == "" {
		return nil
	}
	if k := c.at(n.App[0], n.Index).Load(); k != nil && k.name.Index == n.Index && k.name.App == n.App {
		return k
	}
	return nil
}

// learn makes a name known. It fails if no process can have that name.
func (c *nameCache) learn(n Name) (*knownName, error) {
	vn, err := n.vni()
	if err != nil {
		return nil, fmt.Errorf("%w: %v", ErrBadArgument, err)
	}
	k := &knownName{n, proc.To(vn)}
	c.at(vn.App[0], vn.Index).CompareAndSwap(nil, k)
	return k, nil
}

// name is nameOf.
func (c *nameCache) name(vn *vni.Name) Name {
	if vn.IsZero() {
		return AnyProcess
	}
	at := c.at(vn.App[0], vn.Index)
	k := at.Load()
	if k == nil || !k.dest.Name.Is(vn) {
		k = &knownName{nameOf(*vn), proc.To(*vn)}
		at.Store(k)
	}
	return k.name
}

// Tag is what a receive may choose messages by, of at most 48 bits. It means what the processes agree on.
type Tag uint64

const (
	// MaxTag is the largest tag. The 16 bits above it are the [Port].
	MaxTag Tag = vni.TagMask

	// AnyTag, in a receive, matches every tag of the port (QNIX-20). No message can be sent with it.
	AnyTag Tag = math.MaxUint64
)

// Address is one process in one life: the NIC, the slot that it has there, and the slot's generation, which differs for
// the next process that gets the slot.
type Address struct {
	NIC        NICID
	Slot       uint16
	Generation uint32
}

func (a Address) String() string {
	return fmt.Sprintf("%v slot %d generation %d", a.NIC, a.Slot, a.Generation)
}

// HandleLen is the length of a marshalled Handle, in bytes.
const HandleLen = 40

// Handle lets every process that has it PUT into a [Region] and GET from it (USNIC-55). It is a value to be sent to processes
// that are trusted with the region: it holds the region's key.
type Handle struct {
	owner  Address
	region uint32
	key    uint64
	length uint64
}

// Owner is the process whose region it is.
func (h Handle) Owner() Address { return h.owner }

// Len is the length of the region in bytes.
func (h Handle) Len() int { return int(h.length) }

// AppendBinary appends the handle's HandleLen bytes to b.
//
//	 0  NIC id       8
//	 8  slot         2, then 2 zero
//	12  generation   4
//	16  region       4, then 4 zero
//	24  key          8
//	32  length       8   bytes
func (h Handle) AppendBinary(b []byte) ([]byte, error) {
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

// UnmarshalBinary reads what MarshalBinary wrote.
func (h *Handle) UnmarshalBinary(b []byte) error {
	le := binary.LittleEndian
	if len(b) != HandleLen {
		return fmt.Errorf("weft: handle of %d bytes; expected %d", len(b), HandleLen)
	}
	if le.Uint16(b[10:]) != 0 || le.Uint32(b[20:]) != 0 || le.Uint64(b) == 0 || le.Uint64(b[32:]) > math.MaxInt64 {
		return fmt.Errorf("weft: %d bytes that are no handle", len(b))
	}
	*h = Handle{
		owner:  Address{NICID(le.Uint64(b)), le.Uint16(b[8:]), le.Uint32(b[12:])},
		region: le.Uint32(b[16:]), key: le.Uint64(b[24:]), length: le.Uint64(b[32:]),
	}
	return nil
}
