// Package registry says which NICs there are, and at which addresses. It says nothing of processes: their names are
// spread by the NICs themselves (decision 15).
//
//	Registry ──── Nodes() ───► daemon ───► Engine.AddNode
//	         ──── Watch ─────►        ───► Engine.AddNode, RemoveNode
//
// A Static one, from a list in a configuration, never changes; others may.
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

// DefaultPort is the UDP port of a daemon's link where none is said.
const DefaultPort = 7700

// Node is a NIC and where to reach it.
type Node struct {
	ID   NICID          // 0: not known; the first to answer at the address tells
	Addr netip.AddrPort // of its link
	At   Position
	Name string          // by which programs and tools may call it; empty: none
	Key  trust.PublicKey // its static key, if the list binds one to ID; else zeros

	// Others are further addresses of its host, at which the NIC may be as well. The first invalid one ends them.
	Others [limits.NodeAddresses - 1]netip.AddrPort
}

// Addrs returns all addresses at which the NIC may be, in the order in which they should be tried.
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

// maxName is how long the name of a node may be, in bytes: as long as one in a program.
const maxName = 63

// CheckName says what is wrong with the name of a node. It is no id, and can stand in the quotes of a program.
func CheckName(name string) error {
	if _, err := ParseNICID(name); err == nil {
		return fmt.Errorf("name %q: it is the id of a NIC; expected another name", name)
	}
	if name == "" || len(name) > maxName || strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r > '~' || r == '"' }) {
		return fmt.Errorf("name %q: expected 1 to %d printable ASCII characters without blanks and quotes", name, maxName)
	}
	return nil
}

// Position is where a NIC is on a torus (QNIX-52). The zero one says that it has none, or that it is not known.
type Position struct {
	Known bool
	X, Y  int
}

// Torus is the size of the torus that positions are on; nothing if a fabric has none.
type Torus struct{ Width, Height int }

// ParseTorus reads [WIDTH, HEIGHT]; nothing is no torus.
func ParseTorus(v []int) (Torus, error) {
	switch {
	case len(v) == 0:
		return Torus{}, nil
	case len(v) != 2 || min(v[0], v[1]) < 1 || max(v[0], v[1]) > limits.TorusSide:
		return Torus{}, fmt.Errorf("torus %v: expected [WIDTH, HEIGHT], 1 to %d each", v, limits.TorusSide)
	}
	return Torus{v[0], v[1]}, nil
}

// ParsePosition reads [X, Y]; nothing is no position.
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

// Registry knows the NICs of a fabric, this one possibly among them. It is safe from many goroutines.
type Registry interface {
	// Nodes is the list as it stands. The caller may keep it.
	Nodes() []Node
	// Watch calls changed with the whole list each time that it becomes another, one call at a time, until ctx is done. It
	// may begin with the list as it stands, so that a change just before the call is not missed. It returns nil at the
	// end, or earlier the reason why the registry can be watched no more.
	Watch(ctx context.Context, changed func([]Node)) error
}

// Static is a list that never changes.
type Static struct{ nodes []Node }

// NewStatic checks the list: each address is usable and stands there once, each id too.
func NewStatic(nodes []Node) (*Static, error) {
	ids, addrs, places := map[NICID]netip.AddrPort{}, map[netip.AddrPort]bool{}, map[Position]netip.AddrPort{}
	names := map[string]netip.AddrPort{}
	var errs []error
	for _, n := range nodes {
		switch first, taken := ids[n.ID]; {
		case !n.Addr.IsValid() || n.Addr.Port() == 0 || n.Addr.Addr().IsUnspecified():
			errs = append(errs, fmt.Errorf("registry: node %v: expected an address that others can be reached at, such as 10.0.0.2:7700", n))
		case addrs[n.Addr]:
			errs = append(errs, fmt.Errorf("registry: address %v stands twice in the list", n.Addr))
		case n.ID != 0 && taken:
			errs = append(errs, fmt.Errorf("registry: NIC %v stands twice in the list, at %v and %v", n.ID, first, n.Addr))
		case n.At.Known && places[n.At].IsValid():
			errs = append(errs, fmt.Errorf("registry: nodes %v and %v are both at position %d,%d", places[n.At], n.Addr, n.At.X, n.At.Y))
		case n.Name != "" && names[strings.ToLower(n.Name)].IsValid(): // case does not matter, as in programs
			errs = append(errs, fmt.Errorf("registry: nodes %v and %v are both called %q", names[strings.ToLower(n.Name)], n.Addr, n.Name))
		}
		places[n.At], names[strings.ToLower(n.Name)] = n.Addr, n.Addr
		ids[n.ID], addrs[n.Addr] = n.Addr, true
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return &Static{append([]Node(nil), nodes...)}, nil
}

// Nodes is the list.
func (s *Static) Nodes() []Node { return append([]Node(nil), s.nodes...) }

// Watch waits for ctx: there is nothing to tell.
func (s *Static) Watch(ctx context.Context, _ func([]Node)) error {
	<-ctx.Done()
	return nil
}

// ParseNode reads "ADDRESS" or "ID@ADDRESS", as flags and lists have it: "10.0.0.2:7700",
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

// ParseAddr reads an address with its port. It takes no host name: Resolve does.
func ParseAddr(s string) (netip.AddrPort, error) {
	a, err := netip.ParseAddrPort(s)
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("address %q: expected IP:PORT, such as 10.0.0.2:7700 or [fe80::2]:7700", s)
	}
	return netip.AddrPortFrom(a.Addr().Unmap(), a.Port()), nil
}
