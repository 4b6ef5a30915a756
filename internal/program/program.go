// Package program runs users' programs in the NIC (PANIC-1). It is a service of the engine
// (internal/nic) around the virtual machine of pdl/vm. It keeps messages until they are handled,
// gives programs their share of the engine's time, and carries the messages that they send.
//
//	process: Command ─┐                                      ┌─► to this NIC: queue, again
//	network: Record ──┼─► queue ─► Run: budget ─► activation ┼─► to a peer: its window ─►
//	                  │                                      │   Program records ─► its queue
//	program: SEND ────┘                                      └─► to a resident program: datagram
//
// A message is handled once. Then a Handled returns its room to its sender's NIC, with the
// outcome if the sender wants it. So the memory that a NIC keeps for others is bounded, and a
// sender of more waits. Within Run a message costs the instructions that it executes; see
// budget.go. A message for a missing program is counted, and its sender is told if it asked.
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

// ProcessBit is set in the numbers by which programs know processes, and clear in the number of
// every program.
const ProcessBit vm.ID = 1 << 31

// ProcessNumber returns the number by which programs send to the process of a slot.
func ProcessNumber(slot uint16, gen uint32) vm.ID {
	return ProcessBit | vm.ID(slot)&(1<<slotBits-1) | vm.ID(gen)<<slotBits&^ProcessBit
}

const slotBits = 13

// ProcessSlot returns the slot in a process's number.
func ProcessSlot(number vm.ID) uint16 { return uint16(number & (1<<slotBits - 1)) }

// Engine is what programs need of the engine.
type Engine interface {
	Now() clock.Time
	Clock() clock.Time            // the present moment, which may be later than Now; read by CLOCK
	Peer(nic uint64) *Peer        // nil: no such NIC is known
	Peers(yield func(*Peer) bool) // all, in a fixed order
	// Announce returns room for a Table record of n bytes; nil if the pair is not open.
	Announce(to *Peer, n int) []byte
	CheckAt(at clock.Time) // calls Expire then
	// Answered ends a command of a process: its message was handled, or found no program that
	// handles it.
	Answered(r Request, o vm.Outcome)
	Ended(r Request, status vni.Status) // ends it otherwise
	// Deliver gives a program's message to a process. It returns false if the process is absent
	// or has no room.
	Deliver(to vm.ID, m Arrival) bool
	Rang(segment uint32)     // a flag of a segment is set: sleeping processes check again
	TakeBuffer(n int) []byte // from transit memory
	GiveBuffer(b []byte)     // nil is ignored

	// Guard puts a filter before the process with a name, now and when the process comes, if it
	// is one of those users'. nil removes the filter. UserOf returns the user of that process.
	Guard(process vni.Name, f GuardFunc, of Whose)
	UserOf(process vni.Name) (user string, there bool)

	// GuardOutgoing is Guard for messages that the process sends.
	GuardOutgoing(process vni.Name, f OutgoingFunc, of Whose)
}

// A Request is a command of a process: the engine's entry for it.
type Request interface {
	Read(to []byte, from uint64) // fills to with bytes of the message
}

// An Arrival is a message for a process.
type Arrival struct {
	NIC     uint64 // of the sender
	From    vm.ID  // the sending program
	Trigger uint32
	Payload []byte
}

// A GuardFunc judges a message for a process that a program guards; see filter.go. The payload is
// nil if it has not arrived whole.
type GuardFunc func(nic uint64, payload []byte) (drop bool)

// Peer is another NIC in the view of programs. It is part of the engine's entry for the NIC.
type Peer struct {
	*rel.Endpoint

	// To it.
	out      []*outgoing // those of which some bytes are still to be sent
	waiting  int         // the cost of those that are not in the window
	inFlight int         // what the peer has, without the room that it has returned
	held     []held      // commands that wait for room in out
	asked    int         // answers that the peer owes

	// From it.
	used       int // what it has sent and has not been handled, plus owed
	owed       int // what has been handled, and not been returned to the peer yet
	assemblies map[uint32]*message
	programs   map[vm.ID]announced // those that it has told of
	names      directory           // the names of programs
	told       bool                // it has been told of the programs here in this session
}

// Config holds the constants of a Table.
type Config struct {
	NIC         uint64
	Incarnation uint64   // of the NIC: each incarnation has different keys
	Counts      []uint64 // the engine's, by vni.Counter
	Defect      mutate.Defect
}

// Table holds the programs of this NIC, and the messages for them.
type Table struct {
	cfg     Config
	nic     Engine
	machine *vm.Machine // nil until the first program is loaded
	loaded  map[vm.ID]*loaded
	names   directory       // the names of loaded
	guards  map[gate]vm.ID  // the guard at each gate
	nodes   map[string]node // NICs by their names

	queue   []*message // to be handled; those before head have been
	head    int
	local   int    // the cost of this NIC's own messages in the queue
	held    []held // commands that wait for room in the queue
	spare   freelist.List[message]
	credit  int      // instructions that may still be executed in this poll
	current *message // the message being handled; nil in an initialisation or filter
	sends   int      // in this activation
	asked   map[uint32]asked
	lastID  uint32

	prepared []*prepared
	lastKey  uint64
	news     uint32 // number of the last record about a program
	segments map[uint32]*segment
	driver   Driver // nil: none
	borrowed borrowed
	observer *Observer // nil: none
	budget   int       // instructions of an activation; 0: limits.ProgramBudget
}

// New returns a table without programs.
func New(cfg Config, nic Engine) *Table {
	t := &Table{
		cfg: cfg, nic: nic, loaded: make(map[vm.ID]*loaded), names: make(directory), guards: make(map[gate]vm.ID),
		nodes: make(map[string]node), asked: make(map[uint32]asked), segments: make(map[uint32]*segment),
		// After a restart, a tool must not take another's preparation for its own.
		lastKey: cfg.Incarnation * 0x9e3779b97f4a7c15,
	}
	t.borrowed.handle = t.handleBorrowed
	return t
}

// start makes the machine when the first program is loaded: a NIC without programs has no memory
// for them.
func (t *Table) start() (err error) {
	if t.machine == nil {
		overlap := 0
		if t.cfg.Defect == mutate.DataOverlap {
			overlap = 1
		}
		// Twice limits.Programs: a prepared version exists together with the one that it is to
		// replace.
		t.machine, err = vm.New(vm.Config{
			Host: (*host)(t), CodeWords: limits.ProgramCode, DataWords: limits.ProgramData,
			Programs: 2 * limits.Programs, Budget: cmp.Or(t.budget, limits.ProgramBudget), Overlap: overlap,
		})
		if err != nil {
			return fmt.Errorf("program: %w", err)
		}
	}
	return nil
}

// Pending returns the number of messages that wait for their handlers.
func (t *Table) Pending() int { return len(t.queue) - t.head }

// Quiet reports whether nothing is in progress: no message waits here, or is in flight to another
// NIC.
func (t *Table) Quiet() bool { return t.Pending() == 0 && len(t.held) == 0 && len(t.asked) == 0 }

func (t *Table) count(c vni.Counter) { t.cfg.Counts[c]++ }
