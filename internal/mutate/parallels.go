package mutate

// ParallelDefect names a mistake in package parallel. The simulation in the tests of that package
// must find each of them. The empty string is no defect.
type ParallelDefect string

// ParallelNone is no defect.
const ParallelNone ParallelDefect = ""

// The defects of a parallel machine.
const (
	ParallelUnchecked     ParallelDefect = "parallel-unchecked"      // a rank takes data of another operation
	ParallelCheckUnsent   ParallelDefect = "parallel-check-unsent"   // a rank that sends no data does not say what it does
	ParallelFaultUntold   ParallelDefect = "parallel-fault-untold"   // a rank that fails does not say why
	ParallelDeathUnseen   ParallelDefect = "parallel-death-unseen"   // nothing looks for the end of a rank
	ParallelEarlyLost     ParallelDefect = "parallel-early-lost"     // data of a later operation is dropped
	ParallelTreeOfRanks   ParallelDefect = "parallel-tree-of-ranks"  // a rank sends one partial result for all its blocks
	ParallelPrefixShort   ParallelDefect = "parallel-prefix-short"   // a scan forgets the rank below
	ParallelHaloUnwaited  ParallelDefect = "parallel-halo-unwaited"  // an exchange of halos ends before the data is there
	ParallelCornersLate   ParallelDefect = "parallel-corners-late"   // a rank sends its edges before their corners are there
	ParallelBranchSkipped ParallelDefect = "parallel-branch-skipped" // Where skips a branch without active positions at this rank
	ParallelSlotNewest    ParallelDefect = "parallel-slot-newest"    // Save replaces the newest checkpoint
	ParallelSumsUnread    ParallelDefect = "parallel-sums-unread"    // Load does not compare checksums
	ParallelLoadAlone     ParallelDefect = "parallel-load-alone"     // each rank loads the newest checkpoint that it can read
)

// ParallelDefects are all of them.
func ParallelDefects() []ParallelDefect {
	return []ParallelDefect{
		ParallelUnchecked, ParallelCheckUnsent, ParallelFaultUntold, ParallelDeathUnseen, ParallelEarlyLost, ParallelTreeOfRanks,
		ParallelPrefixShort, ParallelHaloUnwaited, ParallelCornersLate, ParallelBranchSkipped, ParallelSlotNewest, ParallelSumsUnread,
		ParallelLoadAlone,
	}
}
