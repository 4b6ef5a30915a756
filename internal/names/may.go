package names

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/weftnet/weft/internal/nicid"
	"github.com/weftnet/weft/internal/vni"
)

// Belief decides which words of other NICs about names and nodes a NIC believes. Its functions
// are called within calls of a Table's methods, and return at once.
type Belief struct {
	// MayClaim reports whether the processes of a NIC may have names of an application. nil
	// allows all. It is asked about this NIC, too.
	MayClaim func(nic uint64, application string) bool

	// Vouched reports whether this NIC may be called at this address although only another NIC
	// has told of it. For example, a certificate names it. nil: no node is vouched for.
	Vouched func(nic uint64, addr netip.AddrPort) bool

	// HearsayFromPeers says that each peer with an open session is a proven holder of the fabric
	// key, or that the link is private. Then a peer vouches for the nodes that it tells of,
	// within the bounds of hearsay.go.
	HearsayFromPeers bool
}

// ErrForbidden is the error for a process that may not have its name.
var ErrForbidden = errors.New("nic: name is not allowed")

func (t *Table) mayClaim(nic uint64, name vni.Name) bool {
	return t.cfg.MayClaim == nil || t.cfg.MayClaim(nic, name.Application())
}

// forbid refuses its name to a process of this NIC.
func (t *Table) forbid(slot uint16, name vni.Name) {
	t.count(vni.NICNamesForbidden)
	t.nic.Refused(slot, fmt.Errorf(
		"%w: the certificate of NIC %v has no pattern for %v; expected an application that it lists",
		ErrForbidden, nicid.ID(t.cfg.NIC), name))
}
