package limits

import "time"

// Programs in the NIC (internal/program).
const (
	// Programs is how many programs one NIC may have loaded. ProgramCode bounds their
	// instructions together, and ProgramData their words of data: eight of the longest programs.
	// They take 4.5 MiB, which a NIC allocates when the first program is loaded.
	Programs    = 64
	ProgramCode = 1 << 16
	ProgramData = 1 << 19

	// ProgramBudget is how many instructions one activation executes at most. Most instructions
	// take a nanosecond. The most expensive, a SEND, takes half a microsecond, so no activation
	// holds a NIC for long.
	ProgramBudget = 20_000

	// ProgramPoll is what programs may cost a poll of an otherwise idle NIC, in instructions: one
	// activation.
	ProgramPoll = ProgramBudget

	// ProgramShare is what programs may cost for each other item of work of a poll, in
	// instructions. An item is a frame, a command or a packet. It is a tenth of the 160 ns that
	// the cheapest item takes.
	ProgramShare = 16

	// ProgramDispatch is what a message costs in addition to the instructions of its activation,
	// in instructions.
	ProgramDispatch = 32

	// ProgramWindow is how many bytes of messages to programs may be in flight from one NIC to
	// another: some of the longest, and as much as one poll handles. ProgramOverhead is what each
	// message counts for in addition to its length. ProgramWaiting is how many bytes of such
	// messages may wait for room in the window.
	ProgramWindow   = 128 << 10
	ProgramOverhead = 64
	ProgramWaiting  = 256 << 10

	// ProgramQueue is how many bytes of messages between programs of one NIC, and from its
	// processes, may wait for their handlers.
	ProgramQueue = 1 << 20

	// ProgramSends is how many messages one activation sends at most: one to each NIC of a part
	// of a large fabric.
	ProgramSends = 256

	// ProgramChain is how many messages within a NIC may follow from one another before the
	// sender of the next is stopped. It is enough for work that is split into parts, and such a
	// chain is over in a tenth of a second.
	ProgramChain = 10_000

	// ProgramRefusals is how many messages of a program may be refused within ProgramFlood before
	// the program is stopped. One refusal tells a program that no more can leave, so it can wait.
	ProgramRefusals = 1000
	ProgramFlood    = time.Second

	// ProgramLog is how many values a program's log keeps: several times those of the paper's
	// programs.
	ProgramLog = 4096

	// ProgramPrepared is how many modules may wait to be put in place, and PrepareWithin is how
	// long. By then a tool that prepares a whole fabric has heard from its slowest NIC, or knows
	// that it is gone.
	ProgramPrepared = 16
	PrepareWithin   = 30 * time.Second

	// Segments is how many memory segments the programs and processes of one NIC share.
	// SegmentBytes is the largest size of one.
	Segments     = 1024
	SegmentBytes = 64 << 20

	// SegmentsKept is how many segments of one user stay without a process. Together they have no
	// more bytes than region_bytes.
	SegmentsKept = 256

	// SegmentWords is how many locks, and how many flags, come with each segment.
	SegmentWords = 256
)
