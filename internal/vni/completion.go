package vni

import "fmt"

// Doorbell is the state of a context (QNIX-31). The zero value is Free.
//
//	      process takes
//	Free ───────────────► Used
//	 ▲ ▲  NIC, no notify   │ │
//	 │ └───────────────────┘ │
//	 │  process reads        │ NIC, notify
//	 └────────── Done ◄──────┘                    (QNIX-32)
type Doorbell uint32

const (
	Free Doorbell = 0
	Done Doorbell = 1
	Used Doorbell = 2
)

func (d Doorbell) String() string {
	switch d {
	case Free:
		return "free"
	case Done:
		return "done"
	case Used:
		return "used"
	}
	return fmt.Sprintf("doorbell-%d", uint32(d))
}

// Status is how an operation ended, or why a NIC is gone.
type Status uint32

const (
	StatusOK              Status = 0
	StatusTruncated       Status = 1  // delivered, but the buffer was shorter than the message
	StatusUnreachable     Status = 2  // the peer NIC is silent
	StatusProcessGone     Status = 3  // no process has that slot, or it is leaving
	StatusStaleGeneration Status = 4  // another process now has that slot
	StatusNameUnknown     Status = 5  // no live NIC knows the name
	StatusNameLost        Status = 6  // the home of this process's name gave it to another process
	StatusCancelled       Status = 7  // withdrawn by Cancel
	StatusBadArgument     Status = 8  // the context or its descriptors are invalid
	StatusBadRegion       Status = 9  // no such region, here or there
	StatusBadKey          Status = 10 // the key is not that of the region
	StatusOutOfRange      Status = 11 // bytes beyond the region's end
	StatusClosed          Status = 12 // this process's interface is being closed
	StatusSessionLost     Status = 13 // the peer NIC restarted, or forgot us
	StatusNICGone         Status = 14 // this process's NIC has ended
	// This process's NIC has thrown it out for an impossible state.
	StatusDetached    Status = 15
	StatusNoMemory    Status = 16 // a limit of the NIC forbids it
	StatusGroupBroken Status = 17 // a member of the group has gone
	StatusGroupSize   Status = 18 // the group has another size, or has all its members
	StatusGroupJoined Status = 19 // the process is already in the group
	StatusNoGroup     Status = 20 // the process is not in such a group
	// The members disagree about the operation, or about the members.
	StatusGroupMismatch Status = 21
	// Of a receive: its sender gave up after some of the message had been consumed.
	StatusWithdrawn Status = 22
	StatusFiltered  Status = 23 // a filter in front of the receiver dropped the message
	// No such program, or no such trigger, or it takes no messages.
	StatusNoProgram     Status = 24
	StatusProgramFailed Status = 25 // the program was activated, and failed
	// Nothing has ever received on this library's port of the receiver.
	StatusNoReceiver Status = 26
	StatusRefused    Status = 27 // a program that guards this process has refused the message
	Statuses                = 28 // number of statuses
)

var statusNames = [Statuses]string{
	"ok", "truncated", "unreachable", "process-gone", "stale-generation", "name-unknown", "name-lost",
	"cancelled", "bad-argument", "bad-region", "bad-key", "out-of-range", "closed", "session-lost",
	"nic-gone", "detached", "no-memory", "group-broken", "group-size", "group-joined", "no-group",
	"group-mismatch", "withdrawn", "filtered", "no-program", "program-failed", "no-receiver", "refused",
}

func (s Status) String() string {
	if s < Statuses {
		return statusNames[s]
	}
	return fmt.Sprintf("status-%d", uint32(s))
}

// Completion is the NIC's report about a finished operation. For a send, only Status, Len, NIC,
// Slot and Gen have a meaning.
type Completion struct {
	Status Status
	Len    uint64 // bytes delivered into the buffer, or sent
	Full   uint64 // bytes of the message, if more than Len
	Tag    uint64
	Token  uint32 // the sender's token
	From   Name   // the sender, if this NIC knows its name
	NIC    uint64 // of the sender; of a Resolve, of the process found
	Slot   uint16
	Gen    uint32
}

// GroupSizes returns the Tag of a join that ended with StatusGroupSize: the size of the group, and
// the number of members that are there. 0 means not known.
func GroupSizes(size uint32, there int) uint64 { return uint64(size)<<32 | uint64(uint32(there)) }

// completionRecord is a Completion in ro, and two counts for refilled operations. For a send, only
// the first line is used.
type completionRecord struct {
	status uint32
	token  uint32
	length uint64
	full   uint64
	tag    uint64
	nic    uint64
	slot   uint32
	gen    uint32
	index  uint32

	taken    uint32 // descriptors, of all operations of the context
	consumed uint32
	_        uint32

	app appWords

	produced uint64 // bytes written into rings of the context
	stalls   uint32 // times that one of its rings had no room
	_        uint32
	_        [3]uint64
}

const completionBytes = 2 * lineBytes
