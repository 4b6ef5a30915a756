package mutate

// LaunchDefect names a mistake in the launch of a parallel job. The simulation in the tests of
// package launch must find each of them; "" is none.
type LaunchDefect string

// LaunchNone is no defect.
const LaunchNone LaunchDefect = ""

// The defects of a launch, by the code that they are in.
const (
	LaunchUnready          LaunchDefect = "launch-unready"           // launch: ranks start though a host has refused
	LaunchRefusalForgotten LaunchDefect = "launch-refusal-forgotten" // launch: the refusal of a host is not noted
	LaunchFailureKept      LaunchDefect = "launch-failure-kept"      // launch: the other hosts are not told that a rank has failed
	LaunchEndOnce          LaunchDefect = "launch-end-once"          // launch: only the hosts that have started are asked to end
	LaunchRestartHasty     LaunchDefect = "launch-restart-hasty"     // launch: a restart does not wait for the end of the ranks before
	LaunchLostKept         LaunchDefect = "launch-lost-kept"         // launch: a host that is lost is waited for
	LaunchLastCause        LaunchDefect = "launch-last-cause"        // launch: the last failure counts, and not the first
	LaunchStrangerHeard    LaunchDefect = "launch-stranger-heard"    // launch: a message counts whoever sent it
	LaunchUnacked          LaunchDefect = "launch-unacked"           // launch: the last message of a keeper is not acknowledged
	KeeperNoLifeline       LaunchDefect = "keeper-no-lifeline"       // launch: a keeper goes on without its launcher
	KeeperStrangerObeyed   LaunchDefect = "keeper-stranger-obeyed"   // launch: a keeper takes a start whoever sent it
	KeeperEndedLost        LaunchDefect = "keeper-ended-lost"        // launch: a keeper does not report the end of a rank that failed
	KeeperAckForgotten     LaunchDefect = "keeper-ack-forgotten"     // launch: a keeper stays though the launcher has its last message
)

// LaunchDefects are all of them.
func LaunchDefects() []LaunchDefect {
	return []LaunchDefect{
		LaunchUnready, LaunchRefusalForgotten, LaunchFailureKept, LaunchEndOnce, LaunchRestartHasty, LaunchLostKept, LaunchLastCause,
		LaunchStrangerHeard, LaunchUnacked, KeeperNoLifeline, KeeperStrangerObeyed, KeeperEndedLost, KeeperAckForgotten,
	}
}
