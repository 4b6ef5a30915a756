package mutate

// ParallelDefect names a mistake in package parallel. The simulation in the tests of that package
// must find each of them. The empty string is no defect.
type ParallelDefect string

// ParallelNone is no defect.
const ParallelNone ParallelDefect = ""

// The defects of a parallel machine.
const (
	// a rank takes data of another operation
	ParallelUnchecked ParallelDefect = "parallel-unchecked"
	// a rank that sends no data does not say what it does
	ParallelCheckUnsent ParallelDefect = "parallel-check-unsent"
	// a rank that fails does not say why
	ParallelFaultUntold ParallelDefect = "parallel-fault-untold"
	// nothing looks for the end of a rank
	ParallelDeathUnseen ParallelDefect = "parallel-death-unseen"
	// data of a later operation is dropped
	ParallelEarlyLost ParallelDefect = "parallel-early-lost"
	// a rank sends one partial result for all its blocks
	ParallelTreeOfRanks ParallelDefect = "parallel-tree-of-ranks"
	// a scan forgets the rank below
	ParallelPrefixShort ParallelDefect = "parallel-prefix-short"
	// an exchange of halos ends before the data is there
	ParallelHaloUnwaited ParallelDefect = "parallel-halo-unwaited"
	// a rank sends its edges before their corners are there
	ParallelCornersLate ParallelDefect = "parallel-corners-late"
	// Where skips a branch without active positions at this rank
	ParallelBranchSkipped ParallelDefect = "parallel-branch-skipped"
	// Save replaces the newest checkpoint
	ParallelSlotNewest ParallelDefect = "parallel-slot-newest"
	// Load does not compare checksums
	ParallelSumsUnread ParallelDefect = "parallel-sums-unread"
	// each rank loads the newest checkpoint that it can read
	ParallelLoadAlone ParallelDefect = "parallel-load-alone"
)

// ParallelDefects returns all of them.
func ParallelDefects() []ParallelDefect {
	return []ParallelDefect{
		ParallelUnchecked, ParallelCheckUnsent, ParallelFaultUntold, ParallelDeathUnseen, ParallelEarlyLost,
		ParallelTreeOfRanks,
		ParallelPrefixShort, ParallelHaloUnwaited, ParallelCornersLate, ParallelBranchSkipped, ParallelSlotNewest,
		ParallelSumsUnread,
		ParallelLoadAlone,
	}
}
