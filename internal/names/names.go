// Package names is the name table and the NIC table of a NIC (QNIX-52, QNIX-53), and the records
// by which NICs update them. The tables tell which process has which name, and which NICs exist.
// It is a service of the engine (internal/nic). The engine passes on events about names, and the
// service acts through the interface Engine. docs/architecture.md describes how to add another
// service.
//
//	the driver     operations, for each message          other NICs
//	   │ Claim, End       │ Find                            │ Up, Down, Admit
//	   ▼                  ▼                                 ▼
//	┌─ confirm.go ─┐   ┌─ table.go ─┐   ┌─ claim.go ─┐   ┌─ nodes.go ─┐
//	│ own claims   │──►│ names      │◄──│ of others  │   │ NICs       │
//	└──┬───────────┘   └────────────┘   └──▲─────────┘   └─────┬──────┘
//	   ▼                                   │                   ▼
//	home.go: which NIC confirms        record.go ◄── Take    attend.go, remove.go
//	contest.go: several claims to one name                   hearsay.go: NICs that others tell of
package names

import (
	"errors"
	"net/netip"
	"time"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/mutate"
	"github.com/weftnet/weft/internal/rel"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/internal/wire"
)

// Engine is what the table needs of the engine. Its methods may be called within calls of a
// Table's methods. Only Refused and Lost call back, by End.
type Engine interface {
	Now() clock.Time
	CheckAt(t clock.Time) // calls Expire at t or earlier

	Peer(nic uint64) *Peer // nil: no such NIC is known
	// Open opens a pair as rel.Module.Open does. A new peer is passed to Add.
	Open(nic uint64, addr netip.AddrPort) (*Peer, error)
	Forget(p *Peer) // undoes Open
	// Record reserves a Table record with n zero bytes of payload; nil if the pair is not open.
	Record(to *rel.Endpoint, n int) []byte

	Confirmed(slot uint16)          // the process has the name that it claims
	Refused(slot uint16, why error) // another process has the name: this one cannot be admitted
	Lost(slot uint16, to *Entry)    // the home gives the name to another claim: contest.go
	Named(n *Entry)                 // a process of this name exists now
	// Gone: a process has ended. named: its name led to it, not to another process.
	Gone(n *Entry, named bool)
	Forgotten(a vni.Address) // nothing is remembered here of an ended process
}

// ErrTaken is the error for a process whose name another process has.
var ErrTaken = errors.New("nic: name is taken")

// Control is the name of slot 0 of every NIC. No process can claim it.
var Control = own("nic")

// Programs is the application of the names by which processes know the programs of NICs: a
// program's number is the index. No process can claim such a name.
var Programs = own("program")

// own returns a name that is reserved for NICs.
func own(app string) vni.Name {
	n, err := vni.MakeName(app, 0)
	if err != nil {
		panic(err)
	}
	return n
}

// Reserved reports whether an application is reserved for NICs.
func Reserved(n vni.Name) bool { return n.App == Control.App || n.App == Programs.App }

// Config holds the constants of a Table.
type Config struct {
	NIC      uint64
	Position wire.Position // of the NIC, on the torus of the fabric, if it is one
	Static   bool          // only NICs named by AddNode may open a pair with this one
	Counts   []uint64      // the engine's, by vni.Counter
	Defect   mutate.Defect // test hook
	Belief

	UnreachableAfter, FailureTimeout, ProbeEvery time.Duration // as in nic.Config
}

// Table holds the processes and the NICs of the fabric as one NIC knows them.
type Table struct {
	cfg Config
	nic Engine

	byName map[vni.Name]*Entry
	last   *Entry // the entry of byName that Find returned last
	byAddr map[vni.Address]*Entry
	all    []*Entry       // in the order of learning
	owned  map[uint64]int // entries by NIC
	// claims holds the claims to each name, dead or alive, in the order of arrival.
	claims map[vni.Name][]*Entry
	number uint32 // of this NIC's latest claim
	// open holds the undecided claims: this NIC's, and those that it is to judge.
	open     []*Entry
	contests []*contest // names with live claims of several NICs
	due      map[vni.Name]vni.Address

	peers   []*Peer // every other NIC, in the order of learning
	hearsay hearsay
	changed bool // changed since the last Settle, in a way that may let a send or a claim proceed
}

// Init makes t an empty table.
func (t *Table) Init(cfg Config, nic Engine) {
	*t = Table{
		cfg: cfg, nic: nic, byName: make(map[vni.Name]*Entry), byAddr: make(map[vni.Address]*Entry),
		owned: make(map[uint64]int), claims: make(map[vni.Name][]*Entry), due: make(map[vni.Name]vni.Address),
		hearsay: hearsay{silent: make(map[netip.Addr]*silence)},
	}
}

func (t *Table) count(c vni.Counter) { t.cfg.Counts[c]++ }

// Changed reports whether Settle has something to do.
func (t *Table) Changed() bool { return t.changed }

// Expire does the work that is due: it reopens pairs, probes silent NICs, forgets the names of
// lost NICs and of ended processes, and decides claims that have waited long enough.
func (t *Table) Expire() {
	for _, p := range t.peers {
		t.checkSyncBy(p)
		t.checkGather(p)
		t.checkDoubt(p)
		t.checkRetry(p)
		t.checkLook(p)
		t.checkForget(p)
	}
	t.checkHearsay()
	t.forgetRemoved()
	t.expireNames()
	t.decide()
}

// Settle decides the claims that the latest changes allow. It reports whether sends that wait for
// names should check again.
func (t *Table) Settle() bool {
	if !t.changed {
		return false
	}
	t.decide()
	t.changed = false
	return true
}
