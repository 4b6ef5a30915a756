// Package program runs users' programs in the NIC (PANIC-1). It is a service of the engine (internal/nic) around the virtual machine of
// pdl/vm: it keeps messages until they are handled, gives programs their share of the engine's time, and carries what they send.
//
//	process: Command ──┐                                   ┌─► queue, again: to a program of this NIC
//	network: Record ───┼─► queue ─► Run: budget ─► activation ─► window of the peer ─► Program records ─► its queue
//	program: SEND ─────┘                                   └─► datagram, if the program there is resident
//
// A message is handled once, and when it has been its room is given back to its sender's NIC by a Handled, which carries the outcome
// if the sender wants it. So what a NIC keeps for others is bounded, and a sender of more waits. Within Run a message costs what it executes;
// see budget.go. A message for a program that is not here is counted, and its sender told if it asked.
package program

import (
	"cmp"
	"fmt"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/freelist"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/mutate"
	"github.com/weftnet/weft/internal/rel"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/pdl/vm"
)

// ProcessBit is set in the numbers that programs know processes by. A program's own number has it never.
const ProcessBit vm.ID = 1 << 31

// ProcessNumber is the number by which programs send to the process of a slot.
func ProcessNumber(slot uint16, gen uint32) vm.ID {
	return ProcessBit | vm.ID(slot)&(1<<slotBits-1) | vm.ID(gen)<<slotBits&^ProcessBit
}

const slotBits = 13

// ProcessSlot is the slot that a process's number names.
func ProcessSlot(number vm.ID) uint16 { return uint16(number & (1<<slotBits - 1)) }

// Engine is what programs need of the engine.
type Engine interface {
	Now() clock.Time
	Clock() clock.Time                  // of this moment, which may be later; what CLOCK reads
	Peer(nic uint64) *Peer              // nil: no such NIC is known
	Peers(yield func(*Peer) bool)       // all, in a fixed order
	Announce(to *Peer, n int) []byte    // room for a Table record of n bytes; nil if the pair is not open
	CheckAt(at clock.Time)              // has Expire called then
	Answered(r Request, o vm.Outcome)   // a command of a process has ended: its message was handled, or found nothing that does
	Ended(r Request, status vni.Status) // it has ended otherwise
	Deliver(to vm.ID, m Arrival) bool   // gives a process a message of a program, if it is there and has room
	Rang(segment uint32)                // a flag of a segment is set: sleeping processes look again
	TakeBuffer(n int) []byte            // of transit memory
	GiveBuffer(b []byte)                // nil is none

	// Guard puts a filter before the process with a name, now and when it comes, if it is one of
	// those users'; nil takes the filter away. UserOf returns whose that process is.
	Guard(process vni.Name, f GuardFunc, of Whose)
	UserOf(process vni.Name) (user string, there bool)

	// GuardOutgoing is Guard for what the process sends.
	GuardOutgoing(process vni.Name, f OutgoingFunc, of Whose)
}

// A Request is a command of a process: the engine's entry for it.
type Request interface {
	Read(to []byte, from uint64) // fills to with bytes of the message
}

// An Arrival is a message for a process.
type Arrival struct {
	NIC     uint64 // that it is from
	From    vm.ID  // the program that has sent it
	Trigger uint32
	Payload []byte
}

// A GuardFunc judges a message for a process that a program guards; see filter.go. The payload is nil if it has not come whole.
type GuardFunc func(nic uint64, payload []byte) (drop bool)

// Peer is another NIC as programs see it. It lies in the engine's entry for the NIC.
type Peer struct {
	*rel.Endpoint

	// To it.
	out      []*outgoing // of which some is left to be sent
	waiting  int         // what those of them cost that are not in the window
	inFlight int         // what the peer has and has not given room back for
	held     []held      // commands that wait for room in out
	blocked  bool        // until Writable
	asked    int         // answers that it owes

	// From it.
	used       int // what it has sent that has not been handled, and what owed is
	owed       int // what has been handled, and the peer has yet to be told
	assemblies map[uint32]*message
	programs   map[vm.ID]announced // that it has told of
	names      directory           // theirs
	told       bool                // it has been told of those here in this session
}

// Config is what a Table is made from.
type Config struct {
	NIC         uint64
	Incarnation uint64   // of the NIC: each has its own keys
	Counts      []uint64 // the engine's, by vni.Counter
	Defect      mutate.Defect
}

// Table has the programs of this NIC, and the messages for them.
type Table struct {
	cfg     Config
	nic     Engine
	machine *vm.Machine // nil until the first program is loaded
	loaded  map[vm.ID]*loaded
	names   directory       // theirs
	guards  map[gate]vm.ID  // which of them guards there
	nodes   map[string]node // NICs by their names

	queue   []*message // to be handled; those before head have been
	head    int
	local   int    // what the queue has of this NIC's own
	held    []held // commands that wait for room in it
	spare   freelist.List[message]
	credit  int      // instructions that may still be executed in this poll
	current *message // that is being handled; nil in an initialisation or filter
	sends   int      // of the activation
	asked   map[uint32]asked
	lastID  uint32

	prepared []*prepared
	lastKey  uint64
	news     uint32 // number of the last record that was told of a program
	segments map[uint32]*segment
	driver   Driver // nil: none
	borrowed borrowed
	observer *Observer // nil: none
	budget   int       // instructions of an activation; 0: limits.ProgramBudget
}

// New returns a table without programs.
func New(cfg Config, nic Engine) *Table {
	t := &Table{cfg: cfg, nic: nic, loaded: make(map[vm.ID]*loaded), names: make(directory), guards: make(map[gate]vm.ID), nodes: make(map[string]node), asked: make(map[uint32]asked),
		segments: make(map[uint32]*segment), lastKey: cfg.Incarnation * 0x9e3779b97f4a7c15} // a tool must not take another's preparation for its own after a restart
	t.borrowed.handle = t.handleBorrowed
	return t
}

// start makes the machine, when the first program is loaded: a NIC without programs has no memory for them.
func (t *Table) start() (err error) {
	if t.machine == nil {
		overlap := 0
		if t.cfg.Defect == mutate.DataOverlap {
			overlap = 1
		}
		t.machine, err = vm.New(vm.Config{Host: (*host)(t), CodeWords: limits.ProgramCode, DataWords: limits.ProgramData,
			Programs: 2 * limits.Programs, Budget: cmp.Or(t.budget, limits.ProgramBudget), Overlap: overlap}) // twice: a version that is prepared stands beside the one that it is to replace
		if err != nil {
			return fmt.Errorf("program: %w", err)
		}
	}
	return nil
}

// Pending is how many messages wait to be handled.
func (t *Table) Pending() int { return len(t.queue) - t.head }

// Quiet reports whether nothing is under way: no message waits here, or on its way to another NIC.
func (t *Table) Quiet() bool { return t.Pending() == 0 && len(t.held) == 0 && len(t.asked) == 0 }

func (t *Table) count(c vni.Counter) { t.cfg.Counts[c]++ }
