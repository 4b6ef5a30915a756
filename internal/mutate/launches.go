package mutate

// LaunchDefect names a mistake in the launch of a parallel job. The simulation in the tests of
// package launch must find each of them. The empty string is no defect.
type LaunchDefect string

// LaunchNone is no defect.
const LaunchNone LaunchDefect = ""

// The defects of a launch, each with its part of the code.
const (
	// launch: ranks start though a host has refused
	LaunchUnready LaunchDefect = "launch-unready"
	// launch: the refusal of a host is not noted
	LaunchRefusalForgotten LaunchDefect = "launch-refusal-forgotten"
	// launch: the other hosts do not learn that a rank failed
	LaunchFailureKept LaunchDefect = "launch-failure-kept"
	// launch: only started hosts are asked to end
	LaunchEndOnce LaunchDefect = "launch-end-once"
	// launch: a restart does not wait for the end of the old ranks
	LaunchRestartHasty LaunchDefect = "launch-restart-hasty"
	// launch: a lost host is waited for
	LaunchLostKept LaunchDefect = "launch-lost-kept"
	// launch: the last failure counts instead of the first
	LaunchLastCause LaunchDefect = "launch-last-cause"
	// launch: a message from any sender counts
	LaunchStrangerHeard LaunchDefect = "launch-stranger-heard"
	// launch: the last message of a keeper is not acknowledged
	LaunchUnacked LaunchDefect = "launch-unacked"
	// launch: a keeper goes on without its launcher
	KeeperNoLifeline LaunchDefect = "keeper-no-lifeline"
	// launch: a keeper accepts a start from any sender
	KeeperStrangerObeyed LaunchDefect = "keeper-stranger-obeyed"
	// launch: a keeper does not report the end of a failed rank
	KeeperEndedLost LaunchDefect = "keeper-ended-lost"
	// launch: a keeper stays after its last message was acknowledged
	KeeperAckForgotten LaunchDefect = "keeper-ack-forgotten"
)

// LaunchDefects returns all of them.
func LaunchDefects() []LaunchDefect {
	return []LaunchDefect{
		LaunchUnready, LaunchRefusalForgotten, LaunchFailureKept, LaunchEndOnce, LaunchRestartHasty, LaunchLostKept,
		LaunchLastCause,
		LaunchStrangerHeard, LaunchUnacked, KeeperNoLifeline, KeeperStrangerObeyed, KeeperEndedLost, KeeperAckForgotten,
	}
}
