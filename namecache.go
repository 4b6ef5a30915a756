package weft

import (
	"sync/atomic"

	"github.com/weftnet/weft/internal/proc"
	"github.com/weftnet/weft/internal/vni"
)

// nameCache remembers the names of receivers and senders, so that later messages check no name and
// allocate no string. Each name has one place. The name of a sender replaces the name there; a name
// given to Peer only fills an empty place.
type nameCache [64]atomic.Pointer[knownName]

// knownName is a name that was checked.
type knownName struct {
	name  Name
	dest  proc.Dest               // by the same name; the zero Dest for AnyProcess
	named bool                    // it is the name of a process
	bad   error                   // why no process can have the name; such a name is not remembered
	at    atomic.Pointer[Address] // an address that the name had; nil: not asked yet
}

var anyName knownName

func (c *nameCache) at(first byte, index uint32) *atomic.Pointer[knownName] {
	return &c[(uint32(first)+index)%uint32(len(c))]
}

// find returns a name that was checked, now or earlier.
func (c *nameCache) find(n *Name) *knownName {
	if k := c.known(n); k != nil {
		return k
	}
	return c.learn(*n)
}

// known returns a name that was learnt, or nil.
func (c *nameCache) known(n *Name) *knownName {
	if n.App == "" {
		return nil
	}
	if k := c.at(n.App[0], n.Index).Load(); k != nil && k.name.Index == n.Index && k.name.App == n.App {
		return k
	}
	return nil
}

// learn checks a name and remembers it if its place is empty.
func (c *nameCache) learn(n Name) *knownName {
	if n == AnyProcess {
		return &anyName
	}
	vn, err := n.vni()
	if err != nil {
		return &knownName{name: n, bad: err}
	}
	k := &knownName{name: n, dest: proc.To(vn), named: true}
	c.at(vn.App[0], vn.Index).CompareAndSwap(nil, k)
	return k
}

// name returns the public form of a name, and remembers it.
func (c *nameCache) name(vn *vni.Name) Name {
	if vn.IsZero() {
		return AnyProcess
	}
	at := c.at(vn.App[0], vn.Index)
	k := at.Load()
	if k == nil || !k.dest.Name.Is(vn) {
		k = &knownName{name: nameOf(*vn), dest: proc.To(*vn), named: true}
		at.Store(k)
	}
	return k.name
}
