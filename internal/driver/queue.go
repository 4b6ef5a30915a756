// Package driver holds what a NIC and its driver share: QNIX's Driver Command Queue with its
// doorbells. Through it the driver tells the NIC which processes exist. The driver is the owner
// of the NIC: the daemon, the embedding program, or the simulator. A link driver (internal/link)
// is something else: it speaks to a link.
//
//	driver                                             NIC
//	Take: Process Flag Array[i] 0 ─► PID            (QNIX-60)
//	Tie: process table entry i: VNI, wake-up        (QNIX-36)
//	Post: doorbell[k] Free ─► Used, then
//	      entry[k] 0 ─► New_Process, i, PID, name ────► Next: reads it, zeroes it (QNIX-51)
//	                                                     …  at once, or when it knows enough
//	Doorbell[k]? Done: Result ◄─────────────────────── Ring: result, then doorbell[k] Used ─► Done
//	Answered: Done ─► Free
//
//	           k = tail                                 k = head, every entry read is zeroed
//	       ┌────┬────┬────┬────┬────┬────┬────┬────┐
//	queue  │ 0  │ 0  │ c  │ c  │ c  │ 0  │ 0  │ 0  │   D entries; each has its doorbell (QNIX-58)
//	       └────┴────┴────┴────┴────┴────┴────┴────┘
//	bells    D    F    U    U    U    D    U    F       Done ahead of the head: answered, not yet
//	                                                    looked at; Used ahead of it: read,
//	                                                    answered later
//
// The commands are New_Process and Delete_Process (QNIX-49). Two of QNIX's six fields, Group and
// Size, are missing: a process joins groups by its own commands, as many as it likes.
//
// Both halves share an address space and trust each other. So the memory is ordinary Go memory,
// and nothing is validated: a command that makes no sense is a bug of the driver. As in a VNI,
// an entry is present when its command word is not 0. The rest of the entry is written before
// the word and read after it, without atomics. The same holds for a result and its doorbell.
package driver

import (
	"fmt"
	"sync/atomic"
	"unsafe"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/vni"
)

// Code is the kind of a command. 0 is an empty entry.
type Code uint8

// The commands (QNIX-49).
const (
	NewProcess    Code = 1 // serve the process at Index, whose entry is tied
	DeleteProcess Code = 2 // remove it; then the NIC touches none of its memory
)

func (c Code) String() string {
	switch c {
	case NewProcess:
		return "new-process"
	case DeleteProcess:
		return "delete-process"
	}
	return fmt.Sprintf("driver-command-%d", uint8(c))
}

// Command is an entry of the queue (QNIX-49).
type Command struct {
	Code  Code
	Index uint16   // of the process in the process table (QNIX-50)
	PID   uint32   // of New_Process; 0 means unknown
	Name  vni.Name // of New_Process
}

// Result is the result of a command.
type Result struct {
	Gen uint32 // of New_Process: the generation of the slot
	Err error  // nil means success
}

// Entry is the part of a process table entry that the driver fills in before it posts
// New_Process (QNIX-36).
type Entry struct {
	// VNI Info. The VNI is the NIC's from New_Process until Delete_Process is answered.
	VNI *vni.Segment
	// Doorbell Info. The NIC calls it within its poll when the process sleeps and something has
	// happened to it.
	WakeUp func()
	// User is the name of the user whose process it is. It is empty if the NIC is inside the
	// user's program.
	User string
	Life vni.Life // of a process of a rank
}

// HeadBatch is the number of commands that the NIC reads between two updates of the head that
// the driver sees (QNIX-51). It is QNIX's one constant (QNIX-61).
const HeadBatch = 8

// Queue is the memory that both halves share.
type Queue struct {
	entries [limits.DriverCommands]entry
	// Driver Doorbell Array (QNIX-58), of vni.Doorbell.
	bells [limits.DriverCommands]atomic.Uint32
	// A result is written before its bell turns Done.
	results [limits.DriverCommands]Result
	// NIC Status: Driver Command Queue Head, the next entry to be read. It is up to 7 late
	// (QNIX-59).
	head atomic.Uint32
	// By index. An entry is the driver's while its index is free, then the NIC's.
	table []Entry
}

// entry is a Command in the queue.
type entry struct {
	word atomic.Uint64 // code in bits 0–7, index in bits 16–31, PID in bits 32–63; 0 = empty
	name vni.Name
}

// NewQueue returns the memory for a process table with entries 0 to processes: P entries, and
// the NIC's own (decision 1).
func NewQueue(processes int) *Queue { return &Queue{table: make([]Entry, 1+processes)} }

func step(i uint32) uint32 { return (i + 1) % limits.DriverCommands }

// QueueBytes is the size of the queue with its doorbells and results, in bytes.
const QueueBytes = int64(unsafe.Sizeof(Queue{}))

// TableBytes returns the size of the driver's entries and flags for a number of processes, in
// bytes.
func TableBytes(processes int) int64 {
	return int64(1+processes) * int64(unsafe.Sizeof(Entry{})+unsafe.Sizeof(uint32(0)))
}
