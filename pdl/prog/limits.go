package prog

// Every capacity of the language and of modules, with its reason. What a NIC gives its programs (memory, budget, share of
// the poll) is not here but in the vm.Config of its owner.
const (
	// Registers is how many of a program's first words instructions name directly: what a field of eight bits can say, so
	// that the interpreter needs no check.
	Registers = 256

	// MaxCode is how many instructions a program may have: what a jump's 16 bits reach in the superinstruction that has
	// room for no more.
	MaxCode = 1 << 15

	// MaxData is how many words of data a program may have: what 16 bits of a Range reach. 512 KiB.
	MaxData = 1 << 16

	// MaxTriggers is how many triggers a program may have. Each costs a NIC memory while the program is loaded.
	MaxTriggers = 256

	// MaxNames is how many programs and nodes a program may address by name; each is resolved for it.
	MaxNames = 64

	// MaxName is the longest name, in bytes: what an application's name may have, and a host's label.
	MaxName = 63

	// MaxVariables is how many variables a program may declare: they are listed in the module for the tools.
	MaxVariables = 4096

	// MaxMessage is the longest message between programs, in bytes: what a datagram carries.
	MaxMessage = 16 << 10

	// MaxDelay is for how long a guard may delay a message, in ns: 10 s. A sender that waits for longer should hear an error.
	MaxDelay = 10_000_000_000

	// SegmentLocks is how many locks, and how many flags, come with each segment: lock n of the language is one of segment n / SegmentLocks.
	SegmentLocks = 256

	// MaxModule is the longest encoded module, in bytes: more than all of the above together take.
	MaxModule = 1 << 20
)
