package prog

// All capacities of the language and of modules, with their reasons. The limits of one NIC
// (memory, budget, share of a poll) are in the vm.Config of its owner.
const (
	// Registers is the number of words at the beginning of a program's data that instructions
	// name directly. A field of eight bits can name them all, so the interpreter needs no check.
	Registers = 256

	// MaxCode is the largest number of instructions of a program. A jump of 16 bits reaches all
	// of them, in the superinstruction that has no room for more bits.
	MaxCode = 1 << 15

	// MaxData is the largest number of data words of a program: 512 KiB. A Range reaches them
	// with 16 bits.
	MaxData = 1 << 16

	// MaxTriggers is the largest number of triggers of a program. Each costs memory of the NIC
	// while the program is loaded.
	MaxTriggers = 256

	// MaxNames is the largest number of programs and nodes that a program addresses by name. The
	// NIC resolves each.
	MaxNames = 64

	// MaxName is the longest name, in bytes. It equals the limit for an application's name and
	// for a host's label.
	MaxName = 63

	// MaxVariables is the largest number of variables of a program. The module lists them for
	// the tools.
	MaxVariables = 4096

	// MaxMessage is the longest message between programs, in bytes. It equals the capacity of a
	// datagram.
	MaxMessage = 16 << 10

	// MaxDelay is the longest time for which a guard may delay a message, in ns: 10 s. A sender
	// that waits for longer should get an error.
	MaxDelay = 10_000_000_000

	// SegmentLocks is the number of locks, and of flags, of each segment. Lock n of the language
	// belongs to segment n / SegmentLocks.
	SegmentLocks = 256

	// MaxModule is the longest encoded module, in bytes: more than all of the capacities above
	// together take.
	MaxModule = 1 << 20
)
