// Package driver has what a NIC and its driver share: the Driver Command Queue of QNIX with its doorbells, by which the
// driver tells the NIC which processes there are. The driver is what owns the NIC: the daemon, the program that embeds it,
// or the simulator. What speaks to a link is a link driver (internal/link), another thing.
//
//	driver                                                               NIC
//	Take: Process Flag Array[i] 0 ─► PID            (QNIX-60)
//	Tie: process table entry i: VNI, wake-up        (QNIX-36)
//	Post: doorbell[k] Free ─► Used, then
//	      entry[k] 0 ─► New_Process, i, PID, name ──────────────────────► Next: reads it, zeroes it (QNIX-51)
//	                                                                       …  at once, or when it knows enough
//	Doorbell[k]? Done: Result ◄───────────────────────────────────────── Ring: result, then doorbell[k] Used ─► Done
//	Release: Done ─► Free
//
//	           k = tail                                 k = head, every entry read is zeroed
//	       ┌────┬────┬────┬────┬────┬────┬────┬────┐
//	queue  │ 0  │ 0  │ c  │ c  │ c  │ 0  │ 0  │ 0  │   D entries; each has its doorbell (QNIX-58)
//	       └────┴────┴────┴────┴────┴────┴────┴────┘
//	bells    D    F    U    U    U    D    U    F       Done ahead of the head: answered, not yet looked at;
//	                                                    Used ahead of it: read, answered later
//
// The commands are New_Process and Delete_Process (QNIX-49). Of QNIX's six fields Group and Size are missing: a process
// joins groups by commands of its own, as many as it likes.
//
// Both halves are in one address space and trust one another, so the memory is ordinary Go memory and nothing is validated;
// a command that makes no sense is a bug of the driver. As in a VNI, the command word is what makes an entry present: the
// rest of the entry is written before it and read after it, plainly, and the same goes for a result and its doorbell.
package driver

import (
	"fmt"
	"sync/atomic"
	"unsafe"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/vni"
)

// Code says what a command asks for. 0 is an empty entry.
type Code uint8

// The commands (QNIX-49).
const (
	NewProcess    Code = 1 // serve the process at Index, which has been tied to its entry
	DeleteProcess Code = 2 // let it go; afterwards the NIC touches none of its memory
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
	PID   uint32   // of New_Process; 0: not known
	Name  vni.Name // of New_Process
}

// Result is how a command ended.
type Result struct {
	Gen uint32 // of New_Process: the generation of the slot
	Err error  // nil: done
}

// Entry is what the driver fills in of an entry of the process table before it posts New_Process (QNIX-36).
type Entry struct {
	VNI    *vni.Segment // VNI Info; the NIC's from New_Process until Delete_Process has been answered
	WakeUp func()       // Doorbell Info: called within the NIC's poll when the process sleeps and something has happened to it
	User   string       // whose process it is, by name; empty: the NIC is inside its program
	Life   vni.Life     // of a process of a rank
}

// HeadBatch is how many commands the NIC reads between two updates of the head that the driver sees (QNIX-51): QNIX's one
// constant (QNIX-61).
const HeadBatch = 8

// Queue is the memory of both halves.
type Queue struct {
	entries [limits.DriverCommands]entry
	bells   [limits.DriverCommands]atomic.Uint32 // Driver Doorbell Array (QNIX-58): of vni.Doorbell
	results [limits.DriverCommands]Result        // written before the bell turns Done
	head    atomic.Uint32                        // NIC Status: Driver Command Queue Head, the next to be read, up to 7 late (QNIX-59)
	table   []Entry                              // by index; the driver's while the index is free, then the NIC's
}

// entry is a Command in the queue.
type entry struct {
	word atomic.Uint64 // code in bits 0–7, index in bits 16–31, PID in bits 32–63; 0 = empty
	name vni.Name
}

// NewQueue makes the memory for a process table of entries 0 to processes: P, and the NIC's own (decision 1).
func NewQueue(processes int) *Queue { return &Queue{table: make([]Entry, 1+processes)} }

func step(i uint32) uint32 { return (i + 1) % limits.DriverCommands }

// QueueBytes is the size of the queue with its doorbells and results.
const QueueBytes = int64(unsafe.Sizeof(Queue{}))

// TableBytes is the size of what the driver ties to a process table of so many entries, and of its flags.
func TableBytes(processes int) int64 {
	return int64(1+processes) * int64(unsafe.Sizeof(Entry{})+unsafe.Sizeof(uint32(0)))
}
