package limits

import "time"

// Programs in the NIC (internal/program).
const (
	// Programs is how many programs one NIC may have loaded, ProgramCode how many instructions they have together, and ProgramData how
	// many words of data: eight of the longest, in 4.5 MiB, which a NIC takes when the first is loaded.
	Programs    = 64
	ProgramCode = 1 << 16
	ProgramData = 1 << 19

	// ProgramBudget is how many instructions one activation executes at most. Most take a nanosecond, and the dearest, a SEND, half a
	// microsecond: so no activation holds a NIC for long.
	ProgramBudget = 20_000

	// ProgramPoll is what programs may cost one poll of a NIC that has nothing else to do, in instructions: an activation.
	ProgramPoll = ProgramBudget

	// ProgramShare is what they may cost for each other thing that a poll has done, be it a frame, a command or a packet, in
	// instructions: a tenth of the 160 ns that the cheapest takes.
	ProgramShare = 16

	// ProgramDispatch is what a message costs beside what its activation executes, in instructions.
	ProgramDispatch = 32

	// ProgramWindow is how many bytes of messages to programs may be under way from one NIC to another: some of the longest, and what
	// is handled in a poll. ProgramOverhead is what each counts for beside its length. ProgramWaiting is how many bytes of them
	// may wait for room in the window.
	ProgramWindow   = 128 << 10
	ProgramOverhead = 64
	ProgramWaiting  = 256 << 10

	// ProgramQueue is how many bytes of messages between programs of one NIC, and from its processes, may wait to be handled.
	ProgramQueue = 1 << 20

	// ProgramSends is how many messages one activation sends at most: one to each NIC of a large fabric's part.
	ProgramSends = 256

	// ProgramChain is how many messages within a NIC may follow from one another before the program that sends the next is stopped: enough
	// for work that is split into parts, and over in a tenth of a second.
	ProgramChain = 10_000

	// ProgramRefusals is how many messages of a program may be refused within ProgramFlood before it is stopped: a program that is told once that
	// nothing more can leave can wait.
	ProgramRefusals = 1000
	ProgramFlood    = time.Second

	// ProgramLog is how many values a program's log keeps: those of the paper's programs, some times over.
	ProgramLog = 4096

	// ProgramPrepared is how many modules may wait to be put in place, and PrepareWithin for how long: a tool that prepares a whole fabric
	// has heard from its slowest NIC by then, or that it is gone.
	ProgramPrepared = 16
	PrepareWithin   = 30 * time.Second

	// Segments is how many segments of memory programs and processes of one NIC share, and SegmentBytes the most that one has.
	Segments     = 1024
	SegmentBytes = 64 << 20

	// SegmentsKept is how many segments of one user stay without a process. Together they have no more bytes than region_bytes.
	SegmentsKept = 256

	// SegmentWords is how many locks, and how many flags, come with each segment.
	SegmentWords = 256
)
