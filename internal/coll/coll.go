// Package coll is the Group Table of a NIC (QNIX-54), and the operations of group members:
// barriers, broadcasts and reductions. It is a service of the engine (internal/nic). The engine
// passes on events about groups, and the service acts through the interface Engine.
// docs/architecture.md describes how to add another service.
//
//	processes                                               other NICs
//	   │ Command, Cancel, Gone                                  │ Up, Down, Writable
//	   ▼                                                        ▼
//	┌─ member.go, join.go ─┐     ┌─ groups.go ─┐     ┌─ seats.go ────┐
//	│ memberships          │────►│ seats       │◄────│ joins, leaves │◄── News
//	└──────┬───────────────┘     └─────────────┘     └───────────────┘
//	       ├─► confirm.go: when a shrink is over, and the old seats are given up
//	       ▼
//	   operation.go ──► barrier.go, broadcast.go, reduce.go ◄── signal.go ◄── Signal, Piece
//	                              └──► legs.go, along the trees of tree.go
package coll

import (
	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/freelist"
	"github.com/weftnet/weft/internal/mutate"
	"github.com/weftnet/weft/internal/rel"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/internal/wire"
)

// Engine is what groups need of the engine. Its methods may be called within calls of a Table's
// methods, and do not call back.
type Engine interface {
	Now() clock.Time
	Peer(nic uint64) *Peer // nil: no such NIC is known

	// Record reserves a Table record with n zero bytes of payload; nil if the pair is not open.
	Record(to *rel.Endpoint, n int) []byte
	// Expect says that the process is known by its name here; its claim may still be in flight.
	Expect(name vni.Name, at vni.Address)

	Complete(r Request, c vni.Completion) // ends a command
	// Reject ends a command too, and counts against its process, which could have known better.
	Reject(r Request, c vni.Completion, argument error)

	TakeBuffer(n int) []byte // from transit memory
	GiveBuffer(b []byte)     // nil is ignored
}

// Request is a live process's command, with the memory that it names: the engine's entry for the
// command.
type Request interface {
	Read(to []byte, from uint64)
	Write(at uint64, b []byte)
}

// Process is a process of this NIC in the view of groups. It is part of the engine's entry for
// the process.
type Process struct {
	Name    vni.Name
	Address vni.Address

	members []*member
}

// Peer is another NIC in the view of groups. It is part of the engine's entry for the NIC.
type Peer struct {
	*rel.Endpoint

	signals []wire.Signal // waiting until the pair is open
	blocked []*leg        // waiting until the peer accepts more
	news    peerNews
}

// Config holds the constants of a Table.
type Config struct {
	NIC      uint64
	Position wire.Position // of the NIC, on the torus of the fabric, if it is one (QNIX-52)
	MTU      int           // of the NIC's link
	Counts   []uint64      // the engine's, by vni.Counter
	Defect   mutate.Defect // test hook
}

// Table holds the groups of the fabric as one NIC knows them, and the operations that their
// members on this NIC have in progress.
type Table struct {
	cfg Config
	nic Engine

	byKey   map[vni.Name]*group // the latest group of each key
	list    []*group            // all, in the order of learning
	members map[uint32]*member  // of this NIC, by number
	number  uint32              // the latest number given
	up      []*Peer             // those with an open pair

	here       []hereSignal // signals between members of this NIC
	operations freelist.List[operation]
	legs       int // of operations
}

// New returns a table without groups.
func New(cfg Config, nic Engine) *Table {
	return &Table{cfg: cfg, nic: nic, byKey: make(map[vni.Name]*group), members: make(map[uint32]*member)}
}

func (t *Table) count(c vni.Counter) { t.cfg.Counts[c]++ }

// Up begins a session with a peer: it tells the peer the memberships of this NIC's processes, and
// sends the signals that have waited for the pair to open.
func (t *Table) Up(pr *Peer) {
	t.up = append(t.up, pr)
	t.tellSeats(pr)
	l := pr.signals
	pr.signals = nil
	for _, s := range l {
		t.sendSignal(pr, s)
	}
}

// Unfinished reports whether Run has something to do.
func (t *Table) Unfinished() bool { return len(t.here) > 0 }

// Quiet reports whether this NIC owes other NICs nothing of an operation.
func (t *Table) Quiet() bool { return t.legs == 0 && len(t.here) == 0 }
