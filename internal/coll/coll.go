// Package coll is the Group Table of a NIC (QNIX-54), and what the members of groups do together: barriers, broadcasts and
// reductions. It is a service of the engine (internal/nic): the engine hands it what concerns groups, and it acts through the
// interface Engine. docs/architecture.md says how another service is added.
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

// Engine is what groups need of the engine. Its methods may be called within calls of a Table's, and do not call back.
type Engine interface {
	Now() clock.Time
	Peer(nic uint64) *Peer // nil: no such NIC is known

	Record(to *rel.Endpoint, n int) []byte // reserves a Table record with n bytes of payload, all zero; nil if the pair is not open
	Expect(name vni.Name, at vni.Address)  // the process is known by its name here; its claim may still be under way

	Complete(r Request, c vni.Completion)               // ends a command
	Reject(r Request, c vni.Completion, argument error) // likewise, and counts against its process: it could have known better

	TakeBuffer(n int) []byte // of transit memory
	GiveBuffer(b []byte)     // nil is none
}

// Request is a command of a process that has not ended, with the memory that it names: the engine's entry for it.
type Request interface {
	Read(to []byte, from uint64)
	Write(at uint64, b []byte)
}

// Process is a process of this NIC as groups see it. It lies in the engine's entry for the process.
type Process struct {
	Name    vni.Name
	Address vni.Address

	members []*member
}

// Peer is another NIC as groups see it. It lies in the engine's entry for the NIC.
type Peer struct {
	*rel.Endpoint

	signals []wire.Signal // that wait until the pair is open
	blocked []*leg        // that wait until the peer takes more
	news    peerNews
}

// Config is what does not change.
type Config struct {
	NIC      uint64
	Position wire.Position // of the NIC, on the torus of the fabric, if it is one (QNIX-52)
	MTU      int           // of the NIC's link
	Counts   []uint64      // the engine's, by vni.Counter
	Defect   mutate.Defect // test hook
}

// Table is the groups of the fabric as one NIC knows them, and what their members on this NIC have under way.
type Table struct {
	cfg Config
	nic Engine

	byKey   map[vni.Name]*group // the latest of each key
	list    []*group            // all, in the order of learning
	members map[uint32]*member  // of this NIC, by number
	number  uint32              // given to the latest
	up      []*Peer             // those with an open pair

	here       []hereSignal // signals between members of this NIC
	operations freelist.List[operation]
	legs       int // of those
}

// New returns a table without groups.
func New(cfg Config, nic Engine) *Table {
	return &Table{cfg: cfg, nic: nic, byKey: make(map[vni.Name]*group), members: make(map[uint32]*member)}
}

func (t *Table) count(c vni.Counter) { t.cfg.Counts[c]++ }

// Up begins a session with a peer: it is told of the memberships of this NIC's processes, and what has waited for the pair to
// open is sent.
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

// Quiet reports whether this NIC owes no other anything of an operation.
func (t *Table) Quiet() bool { return t.legs == 0 && len(t.here) == 0 }
