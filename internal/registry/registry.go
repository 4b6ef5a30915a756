// Package registry lists the existing NICs and their addresses. It does not list processes: the
// NICs themselves spread their names (decision 15).
//
//	Registry ──── Nodes() ───► daemon ───► Engine.AddNode
//	         ──── Watch ─────►        ───► Engine.AddNode, RemoveNode
//
// A Static list never changes. A List changes when its owner sets another one, and gossip by
// itself.
package registry

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/trust"
)

// DefaultPort is the default UDP port of a daemon's link.
const DefaultPort = 7700

// Node is a NIC and its address.
type Node struct {
	ID   NICID          // 0: unknown; the first NIC to answer at the address tells it
	Addr netip.AddrPort // of its link
	At   Position
	Name string          // a name for programs and tools; empty: none
	Key  trust.PublicKey // its static key, if the list binds one to ID; else zeros

	// Others holds further addresses of its host at which the NIC may be as well. The first
	// invalid one ends them.
	Others [limits.NodeAddresses - 1]netip.AddrPort
}

// Addrs returns all addresses at which the NIC may be, in the order in which they should be
// tried.
func (n Node) Addrs() []netip.AddrPort {
	all := []netip.AddrPort{n.Addr}
	for _, a := range n.Others {
		if !a.IsValid() {
			break
		}
		all = append(all, a)
	}
	return all
}

// maxName is the longest name of a node, in bytes: the limit of names in a program.
const maxName = 63

// CheckName returns an error if a node cannot have this name. A name must differ from an id, and
// must fit the quotes of a program.
func CheckName(name string) error {
	if _, err := ParseNICID(name); err == nil {
		return fmt.Errorf("name %q: it is the id of a NIC; expected another name", name)
	}
	if name == "" || len(name) > maxName ||
		strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r > '~' || r == '"' }) {
		return fmt.Errorf("name %q: expected 1 to %d printable ASCII characters without blanks and quotes",
			name, maxName)
	}
	return nil
}

// Position is the place of a NIC on a torus (QNIX-52). The zero value means that it has none, or
// that it is unknown.
type Position struct {
	Known bool
	X, Y  int
}

// Torus is the size of the torus of positions; zero if a fabric has none.
type Torus struct{ Width, Height int }

// ParseTorus parses [WIDTH, HEIGHT]. An empty list means no torus.
func ParseTorus(v []int) (Torus, error) {
	switch {
	case len(v) == 0:
		return Torus{}, nil
	case len(v) != 2 || min(v[0], v[1]) < 1 || max(v[0], v[1]) > limits.TorusSide:
		return Torus{}, fmt.Errorf("torus %v: expected [WIDTH, HEIGHT], 1 to %d each", v, limits.TorusSide)
	}
	return Torus{v[0], v[1]}, nil
}

// ParsePosition parses [X, Y]. An empty list means no position.
func (t Torus) ParsePosition(v []int) (Position, error) {
	switch {
	case len(v) == 0:
		return Position{}, nil
	case t == Torus{}:
		return Position{}, fmt.Errorf("position %v: expected torus = [WIDTH, HEIGHT] beside it", v)
	case len(v) != 2 || min(v[0], v[1]) < 0 || v[0] >= t.Width || v[1] >= t.Height:
		return Position{}, fmt.Errorf("position %v: expected [X, Y] on a torus of %d by %d", v, t.Width, t.Height)
	}
	return Position{true, v[0], v[1]}, nil
}

func (n Node) String() string {
	at := n.Addr.String()
	for _, a := range n.Addrs()[1:] {
		at += " or " + a.String()
	}
	if n.ID == 0 {
		return at
	}
	return n.ID.String() + " at " + at
}

// Registry knows the NICs of a fabric, possibly including this one. It is safe for concurrent
// use.
type Registry interface {
	// Nodes returns the current list. The caller may keep it.
	Nodes() []Node
	// Watch calls changed with the whole list after each change, one call at a time, until ctx is
	// done. It may begin with the current list, so that a change just before the call is not
	// missed. It returns nil at the end, or earlier the reason why the registry can no longer be
	// watched.
	Watch(ctx context.Context, changed func([]Node)) error
}

// Static is a list that never changes.
type Static struct{ nodes []Node }

// NewStatic checks the list: each address must be usable, and each address and id must be unique.
func NewStatic(nodes []Node) (*Static, error) {
	ids, addrs, places := map[NICID]netip.AddrPort{}, map[netip.AddrPort]bool{}, map[Position]netip.AddrPort{}
	names := map[string]netip.AddrPort{}
	var errs []error
	for _, n := range nodes {
		switch first, taken := ids[n.ID]; {
		case !n.Addr.IsValid() || n.Addr.Port() == 0 || n.Addr.Addr().IsUnspecified():
			errs = append(errs, fmt.Errorf(
				"registry: node %v: expected an address that others can be reached at, such as 10.0.0.2:7700", n))
		case addrs[n.Addr]:
			errs = append(errs, fmt.Errorf("registry: address %v stands twice in the list", n.Addr))
		case n.ID != 0 && taken:
			errs = append(errs, fmt.Errorf("registry: NIC %v stands twice in the list, at %v and %v",
				n.ID, first, n.Addr))
		case n.At.Known && places[n.At].IsValid():
			errs = append(errs, fmt.Errorf("registry: nodes %v and %v are both at position %d,%d",
				places[n.At], n.Addr, n.At.X, n.At.Y))
		// Case does not matter, as in programs.
		case n.Name != "" && names[strings.ToLower(n.Name)].IsValid():
			errs = append(errs, fmt.Errorf("registry: nodes %v and %v are both called %q",
				names[strings.ToLower(n.Name)], n.Addr, n.Name))
		}
		places[n.At], names[strings.ToLower(n.Name)] = n.Addr, n.Addr
		ids[n.ID], addrs[n.Addr] = n.Addr, true
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return &Static{append([]Node(nil), nodes...)}, nil
}

// Nodes returns the list.
func (s *Static) Nodes() []Node { return append([]Node(nil), s.nodes...) }

// Watch waits for the end of ctx: there are no changes.
func (s *Static) Watch(ctx context.Context, _ func([]Node)) error {
	<-ctx.Done()
	return nil
}

// ParseNode parses "ADDRESS" or "ID@ADDRESS", the form of flags and lists: "10.0.0.2:7700",
// "0:0:0:96:221:127:255:140@[fe80::2]:7700".
func ParseNode(s string) (Node, error) {
	var n Node
	addr := s
	for i := range len(s) {
		if s[i] == '@' {
			id, err := ParseNICID(s[:i])
			if err != nil {
				return Node{}, fmt.Errorf("node %q: %w", s, err)
			}
			n.ID, addr = id, s[i+1:]
			break
		}
	}
	a, err := ParseAddr(addr)
	if err != nil {
		return Node{}, fmt.Errorf("node %q: %w", s, err)
	}
	n.Addr = a
	return n, nil
}

// ParseAddr parses an address with its port. It accepts no host name; Resolve does.
func ParseAddr(s string) (netip.AddrPort, error) {
	a, err := netip.ParseAddrPort(s)
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("address %q: expected IP:PORT, such as 10.0.0.2:7700 or [fe80::2]:7700", s)
	}
	return netip.AddrPortFrom(a.Addr().Unmap(), a.Port()), nil
}
