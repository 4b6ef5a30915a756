// Package vm runs compiled programs inside a NIC. A loader keeps them in memory of fixed size.
// An interpreter runs the block that handles a message, from its beginning to its AWAIT.
//
//	          Load            Start             Dispatch
//	module ─────────► loaded ────────────► idle ────────────► running ┬─► AWAIT, PASS, DROP: idle
//	       verify, place     initialisation     program → trigger     ├─► STOP, no budget: stopped
//	                                                                  ├─► error: idle, counted
//	             Finish: a transfer has ended ─► running ◄─ waiting ◄─┘
//
// The machine is a value: it starts no goroutine, never sleeps and reads no clock. Programs
// reach their NIC through Host. A machine belongs to one goroutine at a time. An activation
// allocates nothing.
package vm

import "github.com/weftnet/weft/pdl/prog"

// An ID is the number by which messages address a program. Zero is none.
type ID uint32

// A Message activates a program. It comes from a process of the host, from another program of
// the same NIC, or from the network.
type Message struct {
	Program ID
	Trigger uint32
	Source  uint64 // NIC id of the sender
	Payload []byte // read in place; must not change until the activation has ended
}

// A Destination is the destination of a SEND.
type Destination struct {
	Program ID
	Trigger uint32
	NIC     uint64 // 0 is this NIC
}

// A Transfer is one DELIVER or GET, which copies bytes between a program's data and a segment.
type Transfer struct {
	Program ID
	Segment int64
	Offset  int64 // in the segment, in bytes; never negative
}

// A Status is the state of a transfer when the host returns.
type Status uint8

// The states of a transfer.
const (
	Done Status = iota // all bytes have moved
	// Begun means that all bytes will move; they stay in use until Machine.Finish. The host of a
	// real NIC never returns it, since its segments are near.
	Begun
	// Refused means that the segment does not exist or is too short. The activation is aborted.
	Refused
)

// A Host is the NIC around a machine. The machine calls its methods while a program runs. They
// must not call the machine, except for Dispatch and Start of other programs; a host should
// rather queue these. Byte slices are the program's memory: the host may use that of Send until
// it returns, and that of a transfer until the transfer has ended.
type Host interface {
	// Clock returns the value of CLOCK, in nanoseconds.
	Clock() int64
	// Lookup returns the number of the program with a name at a NIC, or the id of the node with
	// a name. NIC 0 is this one.
	Lookup(of prog.SymbolKind, name string, nic uint64) (number int64, ok bool)
	// Members calls visit for the programs with a name, one in each NIC that can be reached. It
	// includes this NIC, but not the calling program.
	Members(from ID, name string, visit func(Destination))
	// Send sends a message. It reports whether the host took it.
	Send(from ID, to Destination, payload []byte) bool
	// Deliver begins to copy data into a segment, and Get to copy data out of one.
	Deliver(t Transfer, data []byte) Status
	Get(t Transfer, into []byte) Status
	// Lock reports whether lock n is set. ClearLock clears it. SetFlag sets flag n.
	Lock(n int64) bool
	ClearLock(n int64)
	SetFlag(n int64)
	// Display receives a value that a program displays.
	Display(from ID, value int64)
}
