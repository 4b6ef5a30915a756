// Package vm runs compiled programs inside a NIC: a loader, which keeps them in memory of fixed size, and an interpreter,
// which runs the block of a program that a message is for, from its beginning to its AWAIT.
//
//	           Load                     Start                Dispatch(message)
//	module ──────────► loaded ──────────────────► idle ───────────────────────► running ──┬─► AWAIT, PASS, DROP: idle
//	        verify, place       initialisation          program → trigger                 ├─► STOP, out of budget: stopped
//	                                                                                      ├─► error: idle, and the cause counted
//	                              Finish: a transfer has ended ─► running   ◄── waiting ◄─┘
//
// The machine is a value: nothing in it starts a goroutine, sleeps or reads a clock. What a program asks of its NIC goes
// through Host. A machine belongs to one goroutine at a time. An activation allocates nothing.
package vm

import "github.com/weftnet/weft/pdl/prog"

// An ID is the number by which a program is addressed (PANIC-17). Zero is none.
type ID uint32

// A Message is what activates a program: from a process of the host, from another program of the same NIC, or from the
// network (PANIC-19).
type Message struct {
	Program ID
	Trigger uint32
	Source  uint64 // the NIC id that it came from
	Payload []byte // read in place; it must stay as it is until the activation has ended
}

// A Destination is where SEND sends.
type Destination struct {
	Program ID
	Trigger uint32
	NIC     uint64 // 0 is this NIC
}

// A Transfer is one DELIVER or GET: bytes between a program's data and a segment (PANIC-32, PANIC-33).
type Transfer struct {
	Program ID
	Segment int64
	Offset  int64 // in the segment, in bytes; never negative
}

// A Status is how far a transfer has come when the host returns.
type Status uint8

// What becomes of a transfer.
const (
	Done    Status = iota // all bytes have moved
	Begun                 // they will; the bytes stay in use until Machine.Finish. A NIC's host never says so: its segments are near
	Refused               // there is no such segment, or it is too short: the activation is aborted
)

// A Host is the NIC around a machine. Its methods are called while a program runs; they must not call the machine, but
// for Dispatch and Start of other programs, which a host will rather queue. Byte slices are the program's memory: those of
// Send are the host's until it returns, those of a transfer until that has ended.
type Host interface {
	// Clock is what CLOCK reads, in nanoseconds.
	Clock() int64
	// Lookup returns the number of the program that has a name at a NIC, 0 being this one, or the id of the node that is known by a name here.
	Lookup(of prog.SymbolKind, name string, nic uint64) (number int64, ok bool)
	// Members visits the programs that have a name, one in each NIC that can be reached, this one among them, but not from itself.
	Members(from ID, name string, visit func(Destination))
	// Send sends a message (PANIC-31). It reports whether it took it.
	Send(from ID, to Destination, payload []byte) bool
	// Deliver begins to copy data into a segment, Get to copy out of one.
	Deliver(t Transfer, data []byte) Status
	Get(t Transfer, into []byte) Status
	// Lock reports whether lock n is set; ClearLock clears it, SetFlag sets flag n (PANIC-24).
	Lock(n int64) bool
	ClearLock(n int64)
	SetFlag(n int64)
	// Display is given what a program displays (PANIC-26).
	Display(from ID, value int64)
}
