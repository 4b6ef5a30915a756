// Package names is the name table and the NIC table of a NIC (QNIX-52, QNIX-53), and what NICs tell one another to keep them:
// which process has which name, and which NICs there are. It is a service of the engine (internal/nic): the engine hands it
// what concerns names, and it acts through the interface Engine. docs/architecture.md says how another service is added.
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

// Engine is what names need of the engine. Its methods may be called within calls of a Table's. Of them only Refused and Lost
// call back, by End.
type Engine interface {
	Now() clock.Time
	CheckAt(t clock.Time) // has Expire called at t or earlier

	Peer(nic uint64) *Peer                               // nil: no such NIC is known
	Open(nic uint64, addr netip.AddrPort) (*Peer, error) // as rel.Module.Open does; a new peer comes to Add
	Forget(p *Peer)                                      // undoes Open
	Record(to *rel.Endpoint, n int) []byte               // reserves a Table record with n bytes of payload, all zero; nil if the pair is not open

	Confirmed(slot uint16)          // the process has the name that it claims
	Refused(slot uint16, why error) // another has: the process cannot be taken in
	Lost(slot uint16, to *Entry)    // the home gives it to another claim: contest.go
	Named(n *Entry)                 // there is a process of this name now
	Gone(n *Entry, named bool)      // a process has ended; its name led to it, or another had the name
	Forgotten(a vni.Address)        // of a process that has ended nothing is remembered here
}

// ErrTaken is why a process is refused whose name another has.
var ErrTaken = errors.New("nic: name is taken")

// Control is the name of slot 0 of every NIC. No process can claim it.
var Control = own("nic")

// Programs is the application of the names by which processes know the programs of NICs: a program's number is the index. No process can
// claim one.
var Programs = own("program")

// own is a name of the NICs' own.
func own(app string) vni.Name {
	n, err := vni.MakeName(app, 0)
	if err != nil {
		panic(err)
	}
	return n
}

// Reserved reports whether an application is the NICs' own.
func Reserved(n vni.Name) bool { return n.App == Control.App || n.App == Programs.App }

// Config is what does not change.
type Config struct {
	NIC      uint64
	Position wire.Position // of the NIC, on the torus of the fabric, if it is one
	Static   bool          // only NICs that AddNode named may open a pair with this one
	Counts   []uint64      // the engine's, by vni.Counter
	Defect   mutate.Defect // test hook
	Belief

	UnreachableAfter, FailureTimeout, ProbeEvery time.Duration // as in nic.Config
}

// Table is the processes and the NICs of the fabric as one NIC knows them.
type Table struct {
	cfg Config
	nic Engine

	byName   map[vni.Name]*Entry
	last     *Entry // of byName, that Find found last
	byAddr   map[vni.Address]*Entry
	all      []*Entry              // in the order of learning
	owned    map[uint64]int        // entries by NIC
	claims   map[vni.Name][]*Entry // to each name, whether dead or alive, in the order of their coming
	number   uint32                // of this NIC's latest claim
	open     []*Entry              // claims that are not decided: this NIC's, and those that it is to judge
	contests []*contest            // names with live claims of several NICs
	due      map[vni.Name]vni.Address

	peers   []*Peer // every other NIC, in the order of learning
	hearsay hearsay
	changed bool // since the last Settle, in a way that may let a send or a claim go on
}

// Init makes t an empty table.
func (t *Table) Init(cfg Config, nic Engine) {
	*t = Table{cfg: cfg, nic: nic, byName: make(map[vni.Name]*Entry), byAddr: make(map[vni.Address]*Entry), owned: make(map[uint64]int),
		claims: make(map[vni.Name][]*Entry), due: make(map[vni.Name]vni.Address), hearsay: hearsay{silent: make(map[netip.Addr]*silence)}}
}

func (t *Table) count(c vni.Counter) { t.cfg.Counts[c]++ }

// Changed reports whether Settle has something to do.
func (t *Table) Changed() bool { return t.changed }

// Expire does what has waited for its time: pairs are opened again, silent NICs looked at, the names of lost NICs and of
// processes that have ended forgotten, claims decided that have waited long enough.
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

// Settle decides the claims that what has changed lets decide. It reports whether sends that wait for names are to look again.
func (t *Table) Settle() bool {
	if !t.changed {
		return false
	}
	t.decide()
	t.changed = false
	return true
}
